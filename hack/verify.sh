#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# verify.sh: generating, tidying and formatting must change nothing, and must not
# leave a file that git does not know. Compared with the state before, so that
# it can be run with changes not yet committed.
set -euo pipefail
cd "$(dirname "$0")/.."

# A program built into the root is not to be committed with the rest.
large=$(git ls-tree -r --format='%(objectsize) %(path)' HEAD | awk '$1 > 1024 * 1024')
if [[ -n $large ]]; then
  echo "verify: too large for this repository (1 MiB): $large" >&2
  exit 1
fi

state() {
  git diff HEAD
  git ls-files --others --exclude-standard -z | xargs -0r sha256sum
}
before=$(state)
make generate tidy fmt
after=$(state)
if ! diff <(echo "$before") <(echo "$after"); then
  echo >&2
  echo "verify: the files above were not up to date; they are now: commit them" >&2
  exit 1
fi
