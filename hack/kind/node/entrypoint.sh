#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# The node's first program; kind's own entrypoint follows.
set -eu

# kubelet and systemd set variables of the kernel that is the machine's too: on
# this node they are files that take what is written, and the machine is left alone.
mkdir -p /kind/sysctl
show() {
  echo "$2" >"/kind/sysctl/${1##*/}"
  mount --bind "/kind/sysctl/${1##*/}" "/proc/sys/$1"
}
show vm/overcommit_memory 1
show kernel/panic 10
show kernel/panic_on_oops 1
show fs/file-max "$(cat /proc/sys/fs/file-max)"
show fs/nr_open "$(cat /proc/sys/fs/nr_open)"

# kind's entrypoint asks for this name, and without an upstream DNS waits 5 s for no answer.
echo "$(ip -4 route show default | cut -d' ' -f3) host.docker.internal" >>/etc/hosts

exec /usr/local/bin/entrypoint "$@"
