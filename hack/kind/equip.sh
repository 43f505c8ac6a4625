#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# equip.sh: gives the cluster what the examples and the tests need: the image
# with TensorFlow, the volume for checkpoints, simulated GPUs of three kinds, and
# the agent that tells of them.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ -x $state/enter ]] || fail "there is no cluster: make kind-up"
"$here/examples.sh"
"$bin/image" -o "$bin/images/tutti-gpusim.tar" tutti-gpusim:dev="$bin/gpusim"
"$here/load.sh" -workers "$bin/images/tutti-gpusim.tar" "$bin/images/tutti-agent.tar"

# The image is large: it is loaded once, and only where pods may run.
loaded=$state/loaded
key=$(cat "$cache/tutti-examples.tar.key")
if [[ $(cat "$loaded" 2>/dev/null) != "$key" ]]; then
  "$here/load.sh" -workers "$cache/tutti-examples.tar"
  echo "$key" >"$loaded"
fi

say "applying the volume, the simulated GPUs and the agent"
hosts=$root/pkg/topology/testdata/hosts
{
  "$bin/kubectl" create configmap gpusim --namespace kube-system --dry-run=client -o yaml \
    --from-file=$name-worker="$hosts/hgx-h100" --from-file=$name-worker2="$hosts/dgx-1v" --from-file=$name-worker3="$hosts/a100-pcie-8"
  echo ---
  cat "$here/storage.yaml"
  echo ---
  cat "$root/test/e2e/gpusim/daemonset.yaml"
} >"$state/equipment.yaml"
"$state/enter" kubectl apply -f "$state/equipment.yaml" >"$log/equip.log"
"$state/enter" kubectl apply --server-side -k "$root/test/e2e/agent" >>"$log/equip.log"
# The tags stay the same, and so do old pods until they are restarted.
for daemonset in kube-system/gpusim tutti-agent/tutti-agent; do
  "$state/enter" kubectl -n "${daemonset%/*}" rollout restart "daemonset/${daemonset#*/}" >>"$log/equip.log"
  "$state/enter" kubectl -n "${daemonset%/*}" rollout status "daemonset/${daemonset#*/}" --timeout=180s ||
    fail "${daemonset#*/} does not run: .kind/enter kubectl -n ${daemonset%/*} describe pods"
done
