# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# What the scripts of this folder share; they source it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/hack/kind
bin=$root/bin
state=$root/.kind          # all that they write; git ignores it
cache=$state/cache         # what took long to make and does not belong to a cluster
engine=$state/engine       # the offline way's container engine; gone after kind-down
log=$state/log
name=tutti                 # of the kind cluster: its nodes are tutti-control-plane, tutti-worker, ...
export KUBECONFIG=$state/kubeconfig
export PATH=$bin:$PATH

say() { printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*"; }
fail() {
  printf '\nkind: %s\n' "$*" >&2
  exit 1
}

# logged NAME COMMAND...: runs it with its output in a file of that name, and
# shows the file's end when it fails.
logged() {
  local file=$log/$1.log
  shift
  if ! "$@" >"$file" 2>&1; then
    tail -n 20 "$file" >&2
    fail "this failed: $*
      (the whole output is in $file)"
  fi
}

# fresh PATH KEY: it was made whole, from the same things.
fresh() { [[ $(cat "$1.key" 2>/dev/null) == "$2" ]]; }

# The mode that the present cluster was made in: plain, offline, or nothing.
mode() { cat "$state/mode" 2>/dev/null || true; }

# alone holds a lock while this script and what it calls run, so that two do not
# make and take away at once.
alone() {
  [[ -z ${KIND_ALONE:-} ]] || return 0
  exec 9>"$state/lock"
  flock -w 60 9 || fail "another kind-up or kind-down is at work in this folder"
  export KIND_ALONE=1
}
