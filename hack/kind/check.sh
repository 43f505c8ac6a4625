#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# check.sh: can this machine carry the cluster, and which way? Exits with 1 and
# says what is missing if not. It leaves nothing.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$here/offline-machine.sh"
source "$here/offline-engine.sh"

if [[ ${KIND_MODE:-plain} == plain ]] && docker info >/dev/null 2>&1; then
  say "a Docker engine answers: plain kind, if it has or can fetch the node image"
  exit
fi
[[ ${KIND_MODE:-} != plain ]] || fail "KIND_MODE=plain, and no Docker engine answers"
[[ ! -d $engine ]] || fail "a cluster is up in this folder (make kind-down takes it away)"
check_machine
say "no Docker engine answers; this machine can run the offline way"
