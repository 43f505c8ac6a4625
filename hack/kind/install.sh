#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# install.sh: loads Tutti's images, applies the manifests that users apply, and
# waits until both programs serve. Again after a change: the pods are replaced.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$here/load.sh" "$bin"/images/tutti-{scheduler,controller}.tar
say "installing Tutti from manifests/base"
deployments=(deployment/tutti-scheduler deployment/tutti-controller)
before=$("$state/enter" kubectl -n tutti-system get "${deployments[@]}" -o name 2>/dev/null || true)
"$state/enter" kubectl apply --server-side -k "$root/manifests/base" >"$log/install.log"
# The tag stays the same, so an installation that was there keeps its old image until it is restarted.
[[ -z $before ]] || "$state/enter" kubectl -n tutti-system rollout restart "${deployments[@]}"
for deployment in "${deployments[@]}"; do
  "$state/enter" kubectl -n tutti-system rollout status "$deployment" --timeout=180s ||
    fail "$deployment is not available: .kind/enter kubectl -n tutti-system describe pods"
done
