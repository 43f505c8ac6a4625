#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# agent-root.sh PROGRAM FOLDER: makes the root folder of the agent's image. The
# program loads the driver's library, which the container runtime puts there and
# which needs the C library and its companions: those of this machine.
set -euo pipefail
program=$1 root=$2
rm -rf "$root"
mkdir -p "$root/etc" "$root/tmp"
cp "$program" "$root/$(basename "$program")"

loader=$(ldd "$program" | awk '/ld-linux/ {print $1}')
libraries=$(dirname "$(ldd "$program" | awk '$1 == "libc.so.6" {print $3}')")
[[ $loader && $libraries ]] || { echo "agent-root.sh: $program is not linked to glibc: build it with make agent" >&2; exit 1; }
copy() { mkdir -p "$root$(dirname "$1")" && cp -L "$1" "$root$1"; }
copy "$loader"
for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do
  copy "$libraries/$name"
done
