#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# customize.sh ROOT KIND_FILES OURS: makes a Debian a kind node, as the steps of
# kind's images/base/Dockerfile do, whose files are KIND_FILES.
set -euo pipefail
root=$1 files=$2 ours=$3

cp -r "$files/." "$root/"
chmod -R u+w "$root"/{etc,kind,usr/local,LICENSES}
chmod 0755 "$root"/usr/local/bin/* "$root"/kind/bin/*
find "$root"/etc/{containerd,default/kubelet,sysctl.d,systemd/system} -type f -exec chmod 0644 {} +
install -m 0755 "$ours/entrypoint.sh" "$root/usr/local/bin/tutti-entrypoint"

chroot "$root" bash -euo pipefail -c '
  rm -f /lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service \
    /lib/systemd/system/{multi-user,local-fs}.target.wants/* /etc/systemd/system/*.wants/* \
    /lib/systemd/system/sockets.target.wants/*{udev,initctl}* /lib/systemd/system/basic.target.wants/*
  echo ReadKMsg=no >>/etc/systemd/journald.conf
  systemctl -q enable kubelet containerd undo-mount-hacks
  # Units that write to the kernel that the node shares with the machine.
  systemctl -q mask systemd-binfmt systemd-sysctl systemd-modules-load modprobe@ sys-kernel-debug.mount \
    sys-kernel-tracing.mount sys-fs-fuse-connections.mount dev-hugepages.mount proc-sys-fs-binfmt_misc.automount

  mkdir -p /etc/kubernetes/manifests /etc/cni/net.d /opt/cni/bin /kind/manifests
  mv /usr/lib/cni/{host-local,loopback,ptp,portmap} /opt/cni/bin/
  ln -s /usr/bin/{containerd,containerd-shim-runc-v2,ctr} /usr/local/bin/
  ctr oci spec |
    jq ".hooks.createContainer += [{path: \"/kind/bin/mount-product-files.sh\"}] | del(.process.rlimits)" \
      >/etc/containerd/cri-base.json
  rm -rf /usr/share/{doc,man,locale} /var/cache/apt/*.bin /var/lib/apt/lists/* /var/log/*.log'
