#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# load.sh ARCHIVE...: loads images onto all nodes. An archive is what `docker
# save` or bin/image writes.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ -x $state/enter ]] || fail "there is no cluster: make kind-up"
for archive in "$@"; do
  say "loading $(basename "$archive"), $(du -h "$archive" | cut -f1)"
  "$state/enter" kind load image-archive "$archive" --name "$name"
done
