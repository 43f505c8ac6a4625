# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# What the offline way needs of this machine. up.sh sources it.

# check_machine says in words what is missing and cannot be installed.
check_machine() {
  ((EUID == 0)) || fail "without a Docker engine and a registry, kind-up makes its own engine, and must be root for that"
  command -v apt-get >/dev/null ||
    fail "without a Docker engine and a registry, kind-up takes what it needs from Debian, and this machine has no apt-get"
  unshare --mount --net --pid --fork --kill-child --mount-proc true ||
    fail "this machine does not let root make namespaces (above: unshare's words; CAP_SYS_ADMIN is missing, or a filter
      forbids it): no container can run here"
  unshare --mount bash -c 'mount -t tmpfs kind /mnt && cd /mnt && mkdir l u w m && mount -t overlay -o lowerdir=l,upperdir=u,workdir=w kind m' ||
    fail "this machine does not mount overlayfs (above: mount's words): no container engine can run here"
  [[ -d /sys/fs/cgroup/memory || -e /sys/fs/cgroup/cgroup.controllers ]] ||
    fail "no cgroups are mounted at /sys/fs/cgroup: kubelet cannot run here"
  check_cgroups
  # Without iproute2 this is seen when the engine starts.
  ! command -v ip >/dev/null || unshare --net sh -c 'ip link add kind0 type bridge && ip link add kind1 type veth peer name kind2' ||
    fail "this machine's kernel makes no bridges or veth pairs (above: ip's words): nodes would have no network"
  check_inotify
}

# check_cgroups: containers get cgroups of their own, below /sys/fs/cgroup.
check_cgroups() {
  local folder=/sys/fs/cgroup
  [[ -e $folder/cgroup.controllers ]] || folder=$folder/memory
  mkdir "$folder/$cgroup.check" && rmdir "$folder/$cgroup.check" ||
    fail "root may not make cgroups in $folder (above: mkdir's words): kubelet cannot run here"
}

# Four nodes hold about 80 inotify instances, and the limit counts those of all
# of root's programs.
check_inotify() {
  local need=90 used limit
  used=$({ find /proc/[0-9]*/fd -lname 'anon_inode:*inotify*' 2>/dev/null || true; } | wc -l) # processes end meanwhile
  limit=$(cat /proc/sys/fs/inotify/max_user_instances)
  ((limit - used >= need)) ||
    fail "too few inotify instances: $used of $limit are in use and the cluster takes up to $need. As root:
      sysctl -w fs.inotify.max_user_instances=$((used + 2 * need))"
}

# install_packages leaves the services of the packages stopped.
install_packages() {
  local pair missing=()
  for pair in dockerd:docker.io containerd:containerd runc:runc iptables:iptables ip:iproute2 mmdebstrap:mmdebstrap strip:binutils; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
  ((${#missing[@]} > 0)) || return 0
  say "installing Debian packages: ${missing[*]}"
  local policy=/usr/sbin/policy-rc.d # packages' install scripts ask it whether they may start services
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 0755 $policy
    trap "rm -f $policy" EXIT
  fi
  logged apt-update apt-get update -q
  DEBIAN_FRONTEND=noninteractive logged apt-install apt-get install -qy --no-install-recommends "${missing[@]}"
}

# debian_mirror prints the address of the mirror that this machine's apt uses,
# and nothing when there is none to be seen.
debian_mirror() {
  apt-get indextargets --format '$(RELEASE) $(SITE)' 'Created-By: Packages' | sed -n 's/^bookworm //p' | head -n1
}
