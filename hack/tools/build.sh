#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# build.sh MODULE OUTPUT PACKAGE...: go build of the packages in the module's
# folder, with a line of progress every few seconds. OUTPUT is relative to the
# module. The total is what the build cache lacks, so a warm build is quiet.
set -euo pipefail
cd "$1"
output=$2
shift 2
export GOGC=400 # the compiler's own; half the collections, a tenth less time
# What the programs call their version: the Kubernetes release whose engine and
# libraries they are (feature gates are judged by it), and for Tutti's own the
# commit behind it.
package=k8s.io/component-base/version
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes 2>/dev/null || true)
stamp=
if [[ $version ]]; then
  minor=${version#v*.}
  if ! grep -q '^module .*/hack/\(tools\|skew\)$' go.mod; then
    version+=+tutti.$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
  fi
  stamp="-X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
fi
flags=(-v -ldflags="-s -w $stamp")

# go list fetches the modules that are missing, one line each.
fetched() {
  awk '!/^go: downloading/ {print; next} ++n % 20 == 0 {print "  " n " modules fetched"} {fflush()}' >&2
}
stale=$(go list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "${flags[@]:1}" "$@" 2> >(fetched))
total=$(grep -c . <<<"$stale" || true)
what=$(basename "$output")
[[ $output != */ ]] || what=${*##*/cmd/}
[[ $what != ...* ]] || what="the programs"
echo "building $what ($total packages to compile)"

started=$SECONDS
shown=$SECONDS
compiled=0
show() {
  printf '  %4d of %d packages compiled, %d s\n' "$compiled" "$total" $((SECONDS - started))
  shown=$SECONDS
}
# A line that is no package is the compiler's complaint.
count() {
  while true; do
    if IFS= read -r -t 5 line; then
      case $line in
        *[\ :#]*) printf '%s\n' "$line" >&2 ;;
        *) compiled=$((compiled + 1)) ;;
      esac
    elif (($? <= 128)); then # the end, not the time limit
      break
    fi
    ((SECONDS - shown < 10)) || show
  done
  ((compiled == 0)) || show
}
go build "${flags[@]}" -o "$output" "$@" 2>&1 | count
