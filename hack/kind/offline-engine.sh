# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# The offline way's container engine: a dockerd in namespaces of its own. Its
# network has no way out, so that no bridge, route or firewall rule is the
# machine's. Its processes are in one PID namespace: with the first all end, and
# what they mounted with them. up.sh and down.sh source it.

# The cgroup, in every hierarchy, that all containers are in.
cgroup=kind-$(cksum <<<"$root" | cut -d' ' -f1)

start_engine() {
  say "starting a container engine"
  mkdir -p "$engine"/{etc,etc.work,cgroups}
  touch "$engine/netns"
  unshare --net="$engine/netns" sh -c 'ip link set lo up && echo 1 >/proc/sys/net/ipv4/ip_forward'
  setsid nsenter --net="$engine/netns" \
    unshare --mount --pid --fork --kill-child --mount-proc "$here/offline-engine-init.sh" "$engine" "$cgroup" "$bin/runcfit" \
    </dev/null >"$log/engine.log" 2>&1 9>&- &
  for _ in $(seq 150); do
    ! DOCKER_HOST=unix://$engine/docker.sock docker info >/dev/null 2>&1 || return 0
    sleep 0.2
  done
  tail -n 20 "$log/engine.log" >&2
  fail "the container engine does not start (its log is $log/engine.log)"
}

# import_node gives the engine the node image.
import_node() {
  local name context=$engine/context
  name=$(cat "$cache/node.name")
  say "importing the node image, $(du -shc "$cache/userland" "$cache/overlay" | tail -n1 | cut -f1)"
  export DOCKER_HOST=unix://$engine/docker.sock
  tar -C "$cache/userland" -c . | docker import -c 'ENV container=docker' - tutti-node:userland >/dev/null
  mkdir -p "$context"
  # The signal is systemd's.
  printf '%s\n' 'FROM tutti-node:userland' 'COPY overlay/ /' 'STOPSIGNAL SIGRTMIN+3' \
    'ENTRYPOINT ["/usr/local/bin/tutti-entrypoint", "/sbin/init"]' >"$context/Dockerfile"
  tar -C "$context" -c Dockerfile -C "$cache" overlay | DOCKER_BUILDKIT=0 logged node-image docker build -t "$name" -
}

# stop_engine ends every process in the engine's network, those that
# .kind/enter started included, and takes away what they leave in the kernel.
stop_engine() {
  [[ -d $engine ]] || return 0
  local namespace path
  if mountpoint -q "$engine/netns"; then
    namespace=$(stat -Lc %i "$engine/netns")
    for _ in $(seq 100); do
      end_processes "$namespace" || break
      sleep 0.1
    done
    umount "$engine/netns"
  fi
  # Debian's containerd makes these empty folders whatever its settings.
  ! [[ -d /var/lib/containerd/opt ]] || find /var/lib/containerd -depth -type d -empty -delete
  for path in /sys/fs/cgroup/"$cgroup" /sys/fs/cgroup/*/"$cgroup"; do
    [[ ! -d $path ]] || remove_cgroup "$path"
  done
  ! grep -F " $engine/" /proc/self/mounts >&2 || fail "these are still mounted (above): umount them, then make kind-down again"
  rm -rf --one-file-system "$engine"
}

# end_processes NAMESPACE: false when there was none.
end_processes() {
  local found=1 path
  for path in /proc/[0-9]*/ns/net; do
    if [[ $(stat -Lc %i "$path" 2>/dev/null) == "$1" ]]; then
      path=${path#/proc/}
      kill -KILL "${path%%/*}" 2>/dev/null || true
      found=0
    fi
  done
  return $found
}

# The last processes of a killed container may take a moment to be gone.
remove_cgroup() {
  for _ in $(seq 50); do
    find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
    [[ -d $1 ]] || return 0
    sleep 0.2
  done
  fail "processes are left in $1: $(find "$1" -name cgroup.procs -exec cat {} + | tr '\n' ' ')"
}
