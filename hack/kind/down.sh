#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# down.sh: takes the cluster away, also one of which up.sh made only a part. What
# stays is .kind/cache and .kind/log; Debian's packages stay installed.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$here/offline-engine.sh"
[[ -d $state ]] || exit 0
alone
say "taking the cluster away"
if [[ $(mode) == plain ]]; then
  "$bin/kind" delete cluster --name "$name" --kubeconfig "$KUBECONFIG"
fi
stop_engine
# Where containers ran as root, root owns what they wrote.
rm -rf "$state/shared" || say "these files are left: $state/shared"
rm -f "$state"/{mode,enter,kubeconfig,kubeconfig.lock,loaded,equipment.yaml}
