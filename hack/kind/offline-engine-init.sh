#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# offline-engine-init.sh FOLDER CGROUP RUNTIME: the first process of the engine's
# namespaces. It keeps the engine's writes out of the machine's folders, starts
# it, and takes leave of its orphans.
set -euo pipefail
folder=$1 cgroup=$2 runtime=$3

mount -t tmpfs tmpfs /run
mount -t overlay -o "lowerdir=/etc,upperdir=$folder/etc,workdir=$folder/etc.work" overlay /etc
# The /sys of this network, with the machine's cgroups.
mount --rbind /sys/fs/cgroup "$folder/cgroups"
mount -t sysfs sysfs /sys
mount --rbind "$folder/cgroups" /sys/fs/cgroup
umount -l "$folder/cgroups"

dockerd --data-root "$folder/docker" --exec-root "$folder/exec" --pidfile "$folder/dockerd.pid" \
  --host "unix://$folder/docker.sock" --log-level warn \
  --storage-driver overlay2 --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "/$cgroup" \
  --add-runtime "fit=$runtime" --default-runtime fit &
wait $!
