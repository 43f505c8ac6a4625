#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# load.sh [-workers] ARCHIVE...: loads images onto all nodes, or the workers. An
# archive is what `docker save` or bin/image writes.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ -x $state/enter ]] || fail "there is no cluster: make kind-up"
nodes=()
if [[ ${1:-} == -workers ]]; then
  shift
  nodes=(--nodes "$("$state/enter" kubectl get nodes -l '!node-role.kubernetes.io/control-plane' -o name | sed 's|^node/||' | paste -sd,)")
fi
for archive in "$@"; do
  say "loading $(basename "$archive"), $(du -h "$archive" | cut -f1)"
  "$state/enter" kind load image-archive "$archive" --name "$name" "${nodes[@]}"
done
