#!/usr/bin/env bash
# Fetches TensorFlow's own allocator for `allocmark parity random --live --bfc RULES`: of a wheel the library that has it and the
# headers it is compiled with, and builds our plugin against exactly these. Nothing is installed. The wheels have 0.3 and
# 0.6 GB, and what stays of them 0.1 and 0.8 GB.
#
#   scripts/build/fetch_tensorflow.sh tf2.21                into build/tensorflow/tf2.21, where every build of this checkout looks
#   scripts/build/fetch_tensorflow.sh --into DIR xla-2026-09    into DIR/xla-2026-09; then set ALLOCMARK_TENSORFLOW_RELEASES=DIR
#   scripts/build/fetch_tensorflow.sh --wheel FILE tf2.21   from a wheel that lies here; it must be the listed one
#
# Exit codes: 0 all are there; 2 wrong usage or a wheel that cannot serve; 4 something is missing on this machine.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
WHEELS=$ROOT/scripts/build/tensorflow_wheels.txt
INTO=$ROOT/build/tensorflow WHEEL=

source "$ROOT/scripts/build/fetch_options.sh"
[ $# -gt 0 ] || fail 2 "no rules are given, as in: scripts/build/fetch_tensorflow.sh tf2.21"
[ -z "$WHEEL" ] || [ $# -eq 1 ] || fail 2 "--wheel holds one version, $# are given"
for rules in "$@"; do
  grep -q "^$rules " "$WHEELS" || fail 2 "'$rules' is not listed; wanted one of: $(sed -n '/^#/!s/ .*//p' "$WHEELS" | tr '\n' ' ')"
done
[ "$(uname -m)" = x86_64 ] || fail 4 "the listed wheels are for x86_64, and this machine is $(uname -m)"
for tool in python3 sha256sum "${CXX:-g++}"; do
  command -v "$tool" >/dev/null || fail 4 "$tool is not installed"
done

# The wheel of a row of the list, in a folder. The same for every version of Python: only its C++ parts are used.
load() {
  local requirement=$1 folder=$2
  printf '%s\n' "$requirement" >"$folder/wheel.txt"
  python3 -m pip download --quiet --no-deps --require-hashes --only-binary :all: --implementation cp --python-version 3.11 --abi cp311 --platform manylinux_2_27_x86_64 --dest "$folder" --requirement "$folder/wheel.txt" ||
    fail 4 "pip does not get the wheel of ${requirement%% *}"
}

unpack() {
  python3 - "$1" "$2" <<'PYTHON'
import sys
import zipfile

LIBRARY = "tensorflow/libtensorflow_framework.so.2"
HEADERS = tuple(f"tensorflow/include/{name}/" for name in ("absl", "Eigen", "google/protobuf", "ml_dtypes", "tsl", "xla/tsl"))
with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = wheel.namelist()
    if LIBRARY not in names:
        sys.exit(f"[fetch_tensorflow] error: {sys.argv[1]} has no {LIBRARY}")
    wheel.extractall(sys.argv[2], [name for name in names if name == LIBRARY or name.startswith(HEADERS)])
PYTHON
}

mkdir -p "$INTO"
folder=
trap 'rm -rf "${folder:+$folder.part}"' EXIT
for rules in "$@"; do
  folder=$INTO/$rules
  requirement=$(sed -n "s/^$rules //p" "$WHEELS")
  rm -rf "$folder.part"
  mkdir "$folder.part"
  wheel=$WHEEL
  if [ -z "$wheel" ]; then
    load "$requirement" "$folder.part"
    wheel=$(echo "$folder.part"/*.whl)
  fi
  [ "$(sha256sum "$wheel" | cut -d' ' -f1)" = "${requirement##*sha256:}" ] ||
    fail 2 "$wheel is not the wheel of ${requirement%% *} that is listed"
  unpack "$wheel" "$folder.part" || fail 2 "the wheel of $rules cannot serve"
  rm -f "$folder.part"/*.whl
  "${CXX:-g++}" -std=c++20 -O2 -DNDEBUG -fPIC -shared -fvisibility=hidden -w -I"$ROOT" -isystem "$folder.part/tensorflow/include" \
    "$ROOT/allocators/plugins/bfc_plugin/bfc_plugin.cc" -o "$folder.part/liballocmark_bfc.so" \
    "$folder.part/tensorflow/libtensorflow_framework.so.2" -Wl,-rpath,'$ORIGIN/tensorflow' ||
    fail 4 "the plugin for $rules does not compile"
  rm -rf "$folder"
  mv "$folder.part" "$folder"
  say "$rules: $(du -sm "$folder" | cut -f1) MiB in $folder"
done
