#!/usr/bin/env bash
# Fetches releases of PyTorch for the allocators torch@VERSION: of each wheel only the allocator's two libraries and
# its headers (about 5 MB), and builds our plugin against exactly these. Nothing is installed.
#
#   scripts/build/fetch_torch.sh 2.12.1 2.13.0              into build/torch/VERSION, where every build of this checkout looks
#   scripts/build/fetch_torch.sh --into DIR 2.13.0          into DIR/VERSION; then set ALLOCMARK_TORCH_RELEASES=DIR
#   scripts/build/fetch_torch.sh --wheel FILE 2.13.0        from a wheel that lies here; a build of
#                                                           your own, as 2.16.0a0+git1234567, is fetched as 2.16.0
#
# Exit codes: 0 all are there; 2 wrong usage or a wheel that cannot serve; 4 something is missing on this machine.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
INTO=$ROOT/build/torch WHEEL=

source "$ROOT/scripts/build/fetch_options.sh"
[ $# -gt 0 ] || fail 2 "no version is given, as in: scripts/build/fetch_torch.sh 2.13.0"
[ -z "$WHEEL" ] || [ $# -eq 1 ] || fail 2 "--wheel holds one version, $# are given"
for version in "$@"; do
  [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] ||
    fail 2 "'$version' is no release of PyTorch; wanted three numbers, as 2.13.0"
done
for tool in python3 readelf "${CXX:-g++}"; do
  command -v "$tool" >/dev/null || fail 4 "$tool is not installed"
done

cuda_include() {
  local candidate
  for candidate in "${CUDA_ROOT:-}" /usr/local/cuda "$ROOT"/build/cuda-toolkit/*; do
    [ ! -e "$candidate/include/cuda_runtime_api.h" ] || { echo "$candidate/include"; return; }
  done
  fail 4 "no headers of CUDA are found; set CUDA_ROOT to a toolkit"
}

# The plugin of one fetched folder. Functions of CUDA are found when it is loaded. Wheels are built without
# PyTorch's debug assertions, and so are the templates in its headers here.
build_plugin() {
  local folder=$1 version=$2 include id
  if [ -d "$folder/cuda/include" ]; then include=$folder/cuda/include; else include=$(cuda_include); fi
  id=$(readelf -n "$folder/lib/libc10_cuda.so" | sed -n 's/.*Build ID: //p' | head -1)
  [ -n "$id" ] || fail 2 "$folder/lib/libc10_cuda.so has no build id to know it by"
  "${CXX:-g++}" -std=c++20 -O2 -DNDEBUG -fPIC -shared -fvisibility=hidden -w -I"$ROOT" -isystem "$folder/include" \
    -isystem "$include" -DALLOCMARK_TORCH_VERSION="\"$version\"" -DALLOCMARK_TORCH_LIBRARY_ID="\"$id\"" \
    "$ROOT"/allocators/plugins/torch_plugin/torch_{plugin,host}.cc -o "$folder/liballocmark_torch.so" \
    "$folder/lib/libc10_cuda.so" "$folder/lib/libc10.so" -Wl,--unresolved-symbols=ignore-all -Wl,-rpath,'$ORIGIN/lib'
}

mkdir -p "$INTO"
folder=
trap 'rm -rf "${folder:+$folder.part}"' EXIT
for version in "$@"; do
  folder=$INTO/$version
  rm -rf "$folder.part"
  python3 "$ROOT/scripts/build/torch_wheel.py" "$version" "$folder.part" ${WHEEL:+--wheel "$WHEEL"}
  build_plugin "$folder.part" "$version" || fail 4 "the plugin for PyTorch $version does not compile"
  rm -rf "$folder" "$folder.part/cuda/include"
  mv "$folder.part" "$folder"
  say "torch@$version: $(du -sm "$folder" | cut -f1) MiB in $folder"
done
