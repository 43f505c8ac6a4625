#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# examples.sh: writes .kind/cache/tutti-examples.tar, the image of
# examples/Dockerfile. Where the cluster is plain kind the engine builds it; else
# it is made of Debian's Python and TensorFlow's wheels, needing the same as the
# offline node image.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$here/offline-machine.sh"

image=tutti-examples:dev
archive=$cache/tutti-examples.tar
base=$cache/tensorflow # the image without the programs
python=3.11            # Debian 12's, and that of examples/Dockerfile

# make_base takes TensorFlow's wheels for that Python, whatever this machine's is.
make_base() {
  local key packages=$base/usr/local/lib/python$python/dist-packages
  key=$(cat "$here/examples.sh" "$root/examples/requirements.txt" | sha256sum)
  ! fresh "$base" "$key" || return 0
  say "making an image with TensorFlow: Debian's Python and the wheels"
  rm -rf --one-file-system "$base" "$base.key"
  # Unpacked, not installed: nothing of it runs before the image is whole.
  logged python setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
    mmdebstrap --variant=extract --include=base-files,netbase,busybox-static,python3-minimal,libpython3-stdlib,python3-distutils,libstdc++6 \
    bookworm "$base" $(debian_mirror)
  chroot "$base" /bin/busybox --install -s /bin
  rm -rf "$base"/usr/share/{doc,man,locale,info} "$base"/var/{lib/apt,lib/dpkg,cache} "$base"/etc/{hostname,resolv.conf}
  local platforms
  platforms=$(printf -- '--platform manylinux_2_%d_x86_64 ' {36..17})
  logged tensorflow python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile \
    --implementation cp --python-version "$python" --only-binary :all: $platforms --platform manylinux2014_x86_64 \
    --target "$packages" -r "$root/examples/requirements.txt"
  slim "$packages"
  compile
  echo "$key" >"$base.key"
  say "TensorFlow's folder is made, $(du -sh "$base" | cut -f1)"
}

# slim takes half of it away: headers, a compiler's library, a dashboard's
# server, tests, and the symbols of TensorFlow's own libraries. Nothing that
# `import tensorflow` loads.
slim() {
  rm -rf "$1"/{bin,clang,libclang-*,tensorboard_data_server*,setuptools*,_distutils_hack,pkg_resources,wheel*,distutils-precedence.pth} "$1/tensorflow/include"
  find "$1" -type d -name tests -prune -exec rm -rf {} +
  find "$1/tensorflow" -name '*.so*' -type f -size +1M -exec strip --strip-all {} +
}

# compile lets Python keep what it makes of the modules that TensorFlow loads, so
# that containers do not make it again. Images have the time 0 for all files, and
# Python compares times.
compile() {
  find "$base/usr" -name '*.py' -exec touch -h -d @0 {} +
  logged import env -u PYTHONDONTWRITEBYTECODE chroot "$base" /usr/bin/python3 -c 'import tensorflow.compat.v1 as tf; print(tf.__version__)'
}

make_archive() {
  local key folder=$cache/examples
  make -C "$root" bin/image
  key=$(cat "$base.key" "$bin/image" <(cd "$root/examples" && find . -type f | sort | xargs sha256sum) | sha256sum)
  ! fresh "$archive" "$key" || return 0
  say "writing the image $image"
  rm -rf "$folder" "$archive.key"
  cp -al "$base" "$folder"
  cp -r "$root/examples" "$folder/"
  "$bin/image" -o "$archive" -level 0 -entrypoint /usr/bin/python3 "$image=$folder"
  rm -rf "$folder"
  echo "$key" >"$archive.key"
}

mkdir -p "$cache" "$log"
if [[ $(mode) == plain ]]; then
  docker build -t "$image" "$root/examples"
  key=$(docker image inspect --format '{{.Id}}' "$image")
  if ! fresh "$archive" "$key"; then
    docker save -o "$archive" "$image"
    echo "$key" >"$archive.key"
  fi
  exit
fi
command -v mmdebstrap >/dev/null && python3 -m pip --version >/dev/null 2>&1 || install_packages
make_base
make_archive
