# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# The offline way's node image: Debian's packages, kind's own files, and programs
# built from Go modules. Two folders of the cache are laid over each other when
# the engine imports them: userland, which takes a minute to make and depends on
# nothing of this repository but its recipe, and overlay, the programs and the
# images of the cluster's components. up.sh sources it.

# The names of the components' images, other than by kubeadm's default, cannot
# be mistaken for what a registry has.
registry=localhost

# make_node makes both folders unless they are there and fresh.
make_node() {
  make_userland &
  local userland=$!
  make -C "$root" bin/controlplane bin/node bin/coredns bin/pause bin/runcfit bin/image
  wait $userland || exit 1
  make_overlay
}

make_userland() {
  local to=$cache/userland kind key
  kind=$(kind_source)
  key=$(cat "$here/offline-node.sh" "$here"/node/* <(echo "$kind") | sha256sum)
  ! fresh "$to" "$key" || return 0
  say "making the nodes' userland from Debian packages"
  rm -rf --one-file-system "$to" "$to.key"
  # Debian 12's systemd still takes cgroup v1. The namespaces end with this process, and with them
  # what mmdebstrap has mounted.
  logged userland setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
    mmdebstrap --variant=minbase --dpkgopt=force-unsafe-io \
    --include="$(tr '\n' ',' <"$here/node/packages")" \
    --customize-hook="'$here/node/customize.sh' \"\$1\" '$kind/images/base/files' '$here/node'" \
    bookworm "$to" $(debian_mirror)
  echo "$key" >"$to.key"
  say "the userland is made, $(du -sh "$to" | cut -f1)"
}

make_overlay() {
  local to=$cache/overlay key version
  key=$(cat "$here/offline-node.sh" "$here/podnet.yaml" "$cache/userland.key" "$bin"/{controlplane,node,coredns,pause,runcfit,image} | sha256sum)
  ! fresh "$to" "$key" || return 0
  say "making the images of the cluster's components"
  rm -rf --one-file-system "$to" "$to.key"
  mkdir -p "$to"/{usr/bin,usr/local/sbin,kind/manifests,etc/containerd,var/lib/containerd}
  cp "$bin/controlplane" "$bin/node" "$to/usr/bin/"
  ln -s node "$to/usr/bin/kubelet"
  ln -s node "$to/usr/bin/kubeadm"
  ln -s controlplane "$to/usr/bin/kubectl"
  cp "$bin/runcfit" "$to/usr/local/sbin/runc"
  cp "$here/podnet.yaml" "$to/kind/manifests/default-cni.yaml"
  version=$("$to/usr/bin/kubeadm" version -o short)
  echo "$version" >"$to/kind/version"
  local images
  mapfile -t images < <("$to/usr/bin/kubeadm" config images list --kubernetes-version "$version" --image-repository $registry)
  sed "s|sandbox_image = .*|sandbox_image = \"$(name_of pause "${images[@]}")\"|" \
    "$cache/userland/etc/containerd/config.toml" >"$to/etc/containerd/config.toml"
  make_components "${images[@]}"
  logged components fill_store "$to/var/lib/containerd" "$cache/components.tar"
  rm "$cache/components.tar"
  echo "tutti-node:$version" >"$cache/node.name"
  echo "$key" >"$to.key"
}

# name_of PROGRAM IMAGE...: that program's image among those that kubeadm names.
name_of() {
  local program=$1
  shift
  printf '%s\n' "$@" | grep "/$program:" || fail "kubeadm names no image of $program: $*"
}

# make_components IMAGE...
make_components() {
  local folder=$cache/components names='' program
  rm -rf "$folder"
  mkdir -p "$folder"/{control,proxy}/usr/local/bin "$folder"/{control,proxy}/tmp
  cp "$bin/controlplane" "$folder/control/usr/local/bin/"
  for program in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    ln -s controlplane "$folder/control/usr/local/bin/$program"
    names+=$(name_of $program "$@"),
  done
  cp "$bin/node" "$folder/proxy/usr/local/bin/"
  ln -s node "$folder/proxy/usr/local/bin/kube-proxy"
  ln -s node "$folder/proxy/usr/local/bin/podnet"
  add_iptables "$folder/proxy"
  "$bin/image" -o "$cache/components.tar" \
    "${names%,}=$folder/control" \
    "$(name_of kube-proxy "$@"),$registry/podnet:dev=$folder/proxy" \
    "$(name_of coredns "$@")=$bin/coredns" \
    "$(name_of pause "$@")=$bin/pause"
  rm -rf "$folder"
}

# add_iptables FOLDER: what kube-proxy calls, with the libraries. The modules of
# xtables are loaded by name and do not show in ldd, and so does what they need.
add_iptables() {
  local to=$1 from=$cache/userland libraries=usr/lib/x86_64-linux-gnu file name
  mkdir -p "$to"/{usr/sbin,lib64,$libraries}
  ln -s usr/sbin "$to/sbin"
  ln -s usr/lib "$to/lib"
  cp -a "$from"/usr/sbin/{xtables-nft-multi,nft} "$to/usr/sbin/"
  for name in ip{,6}tables{,-save,-restore}; do
    ln -s xtables-nft-multi "$to/usr/sbin/$name"
  done
  cp -a "$from/$libraries/xtables" "$to/$libraries/"
  cp -L "$from/$libraries"/lib{ip4tc.so.2,ip6tc.so.2,m.so.6} "$to/$libraries/"
  for file in $(chroot "$from" sh -c 'ldd /usr/sbin/xtables-nft-multi; ldd /usr/sbin/nft' | grep -oE '/lib[^ ]+' | sort -u); do
    case $file in
      /lib64/*) cp -L "$from$file" "$to/lib64/" ;;
      *) cp -L "$from$file" "$to/$libraries/" ;;
    esac
  done
}

# fill_store STORE ARCHIVE: gives containerd's folder the images, as `kind build
# node-image` does, with the machine's own containerd in a namespace of its own.
fill_store() {
  setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc bash -euc '
    mount -t tmpfs tmpfs /run
    containerd --root "$1" --state /run/c --address /run/c.sock --log-level warn &
    for _ in $(seq 100); do ctr --address /run/c.sock version >/dev/null 2>&1 && break; sleep 0.1; done
    ctr --address /run/c.sock -n k8s.io images import --all-platforms --no-unpack "$2"
    kill $!
    wait $! || true' store "$1" "$2"
}
