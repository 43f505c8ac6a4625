#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# up.sh: a cluster of real nodes with Tutti installed from manifests/base. Where
# a Docker engine and a registry are at hand it is plain kind, and elsewhere a
# kind whose node image is made here. KIND_MODE=plain or offline chooses.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$here/offline-machine.sh"
source "$here/offline-node.sh"
source "$here/offline-engine.sh"

# plain, when the engine has kind's node image or can fetch it.
choose() {
  [[ -z ${KIND_MODE:-} ]] || { echo "$KIND_MODE"; return; }
  local image
  image=${KIND_IMAGE:-$(sed -n 's/^const Image = "\(.*\)"$/\1/p' "$(kind_source)/pkg/apis/config/defaults/image.go")}
  if docker info >/dev/null 2>&1 &&
    { docker image inspect "$image" >/dev/null 2>&1 || timeout 600 docker pull "$image" >&2; }; then
    echo plain
  else
    echo offline
  fi
}

kind_source() { (cd "$root/hack/tools" && go list -m -f '{{.Dir}}' sigs.k8s.io/kind); }

plain() {
  write_enter "export KUBECONFIG=$KUBECONFIG PATH=$bin:\$PATH" 'exec "$@"'
  create "$here/cluster.yaml" ${KIND_IMAGE:+--image "$KIND_IMAGE"}
}

offline() {
  check_machine
  install_packages
  make_node
  start_engine
  import_node
  write_enter "export KUBECONFIG=$KUBECONFIG PATH=$bin:\$PATH DOCKER_HOST=unix://$engine/docker.sock" \
    'unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY' \
    "exec nsenter --net=$engine/netns \"\$@\""
  {
    sed '/^kubeadmConfigPatches:/,$d' "$here/cluster.yaml"
    printf 'kubeadmConfigPatches:\n- |\n  kind: ClusterConfiguration\n  imageRepository: localhost\n'
    sed '1,/^kubeadmConfigPatches:/d' "$here/cluster.yaml"
  } >"$engine/cluster.yaml"
  create "$engine/cluster.yaml" --image "$(cat "$cache/node.name")"
}

# write_enter LINE...: the command that everything which talks to the cluster
# goes through.
write_enter() {
  printf '%s\n' '#!/usr/bin/env bash' \
    '# enter COMMAND...: runs it where the API server and the container engine can be reached.' "$@" >"$state/enter"
  chmod 0755 "$state/enter"
}

# create CONFIG ARG...
create() {
  local config=$1
  shift
  say "kind create cluster"
  mkdir -p "$state/shared"
  cd "$root" # the configuration's folders are relative to it
  "$state/enter" kind create cluster --name "$name" --kubeconfig "$KUBECONFIG" --config "$config" "$@" ||
    fail "kind could not create the cluster (above). Nodes' logs: .kind/enter kind export logs --name $name DIR"
}

ready() {
  say "waiting for the nodes and kube-system"
  "$state/enter" kubectl wait --for=condition=Ready nodes --all --timeout=180s ||
    fail "nodes are not Ready: .kind/enter kubectl describe nodes"
  "$state/enter" kubectl -n kube-system wait --for=condition=Ready pods --all --timeout=180s ||
    fail "kube-system is not ready: .kind/enter kubectl -n kube-system get pods"
}

stands() { [[ -x $state/enter ]] && "$state/enter" kubectl get --raw /readyz >/dev/null 2>&1; }

mkdir -p "$cache" "$log"
alone
if stands; then
  say "the cluster is already up"
else
  "$here/down.sh"
  mode=$(choose)
  say "making the cluster, $mode"
  echo "$mode" >"$state/mode"
  case $mode in
    plain | offline) "$mode" ;;
    *) fail "KIND_MODE=$mode: want plain or offline" ;;
  esac
fi
ready
"$here/install.sh"
"$state/enter" kubectl get nodes -L topology.tutti.dev/rack
cat <<TEXT

Up. Everything goes through .kind/enter, which sets KUBECONFIG and PATH$([[ $(mode) != offline ]] || echo "
and enters the cluster's network (nothing of it is reachable from outside)"):

  .kind/enter kubectl get pods -A
  .kind/enter kubectl apply -f manifests/samples/ps-worker.yaml
  make kind-load     after a change: builds, loads and restarts Tutti
  make kind-down
TEXT
