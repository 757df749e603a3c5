#!/usr/bin/env bash
# Finds what a build needs and installs what is missing. Sourced by run.sh and test.sh; sets CUDA_ROOT, CUDACXX.
# Nothing is done twice: what is found is left alone, and a downloaded toolkit stays in build/cuda-toolkit.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"

# needs USE...: "probe package" of every row of packages.txt for these uses ("build", "test").
needs() {
  local package use probe rest wanted
  while read -r package use probe rest; do
    for wanted in "$@"; do
      [ "$use" != "$wanted" ] || echo "$probe $package"
    done
  done < <(grep -v '^#' "$ROOT/scripts/build/packages.txt")
}
mapfile -t BUILD_NEEDS < <(needs build)
mapfile -t TEST_NEEDS < <(needs test)

say() { printf '[allocmark] %s\n' "$*"; }
fail() { printf '[allocmark] error: %s\n' "$*" >&2; exit 4; }

has_header() {
  local name
  for name in ${1//|/ }; do
    if printf '#include <%s>\n' "$name" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1; then return 0; fi
  done
  return 1
}

# missing_packages NEED...: prints the packages whose probe fails.
missing_packages() {
  local need probe package compiler=yes
  command -v g++ >/dev/null || compiler=no
  for need in "$@"; do
    probe=${need%% *} package=${need##* }
    case $probe in
      tool:*) command -v "${probe#tool:}" >/dev/null || echo "$package" ;;
      header:*) { [ "$compiler" = yes ] && has_header "${probe#header:}"; } || echo "$package" ;;
      module:*) python3 -c "import ${probe#module:}" 2>/dev/null || echo "$package" ;;
    esac
  done
}

packages_known=no # apt-get update ran
install_packages() {
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null ||
    fail "these packages (Debian names) are missing and there is no apt-get: $*. Install them, then run this again."
  if [ "$(id -u)" != 0 ]; then
    fail "not root, and these packages are missing: $*. Run: sudo apt-get install $*"
  fi
  say "installing: $*"
  export DEBIAN_FRONTEND=noninteractive
  [ "$packages_known" = yes ] || apt-get update -qq || fail "apt-get update failed; the packages wanted are: $*"
  packages_known=yes
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null || fail "apt-get could not install: $*"
}

ensure_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  install_packages "${missing[@]}"
  # Headers could not be probed before there was a compiler.
  mapfile -t missing < <(missing_packages "$@")
  install_packages "${missing[@]}"
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} = 0 ] || fail "still missing after installation: ${missing[*]}"
}

# toolkit_at DIR: DIR holds nvcc, the runtime's shared library, its headers and CCCL, version 12 or newer.
toolkit_at() {
  local dir=$1 version
  [ -x "$dir/bin/nvcc" ] || return 1
  version=$("$dir/bin/nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  [ "${version:-0}" -ge 12 ] || return 1
  [ -n "$(find -L "$dir" -name cuda_runtime_api.h -print -quit 2>/dev/null)" ] || return 1
  [ -n "$(find -L "$dir" -path '*cub/util_allocator.cuh' -print -quit 2>/dev/null)" ] || return 1
  [ -n "$(find -L "$dir" -name 'libcudart.so*' -print -quit 2>/dev/null)" ]
}

# The compile-time parts of the toolkit from PyPI's wheels, laid out as nvcc and CMake expect them.
fetch_toolkit() {
  local target=$ROOT/build/cuda-toolkit
  CUDA_ROOT=$target/nvidia/cu13
  [ -e "$target/complete" ] && return 0
  say "no CUDA toolkit found: taking its compile-time parts from PyPI into build/cuda-toolkit (about 270 MB)"
  rm -rf "$target"
  python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps --target "$target" \
    --only-binary :all: --require-hashes -r scripts/build/cuda_wheels.txt ||
    fail "pip could not fetch what scripts/build/cuda_wheels.txt names; install a CUDA toolkit (12 or 13) and set CUDA_HOME"
  [ -d "$CUDA_ROOT/lib" ] || fail "the wheels in $target hold no toolkit; delete the folder and try again"
  [ -e "$CUDA_ROOT/lib64" ] || ln -s lib "$CUDA_ROOT/lib64"
  [ -e "$CUDA_ROOT/lib/libcudart.so" ] || ln -s libcudart.so.13 "$CUDA_ROOT/lib/libcudart.so"
  toolkit_at "$CUDA_ROOT" || fail "the wheels in $target do not make a working toolkit; delete the folder and try again"
  touch "$target/complete"
}

# Sets CUDA_ROOT to an installed toolkit; false where there is none.
find_toolkit() {
  local nvcc dir
  nvcc=$(command -v nvcc || true)
  for dir in "${CUDA_HOME:-}" "${CUDA_PATH:-}" "${nvcc:+$(dirname "$(dirname "$(readlink -f "${nvcc:-/}")")")}" /usr/local/cuda /opt/cuda; do
    if [ -n "$dir" ] && toolkit_at "$dir"; then CUDA_ROOT=$dir; return 0; fi
  done
  return 1
}

# ensure_all NEED...: packages and toolkit; every missing package is named at once. Root gets pip first, and the toolkit
# comes while the other packages are installed.
ensure_all() {
  local fetching=
  if find_toolkit; then
    ensure_packages "$@"
  else
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      ensure_packages "tool:python3 python3" "tool:pip3 python3-pip"
      fetch_toolkit &
      fetching=$!
      trap "kill $fetching 2>/dev/null || true" EXIT
    fi
    ensure_packages "$@" "tool:pip3 python3-pip"
    if [ -n "$fetching" ]; then
      wait "$fetching" || exit 4
      trap - EXIT
    fi
    fetch_toolkit
  fi
  export CUDA_ROOT CUDACXX=$CUDA_ROOT/bin/nvcc
}

# hide_test_packages FOLDER COMMAND...: runs it where whatever is needed only by the tests cannot be used, as on a machine
# that has none of it: their headers are errors, pkg-config and CMake do not find them, and their tools fail. What the
# build of the program takes by mistake then shows here, although this machine has it. Fills FOLDER.
hide_test_packages() {
  local folder=$1 package use probe how header name hidden=()
  shift
  rm -rf "$folder"
  mkdir -p "$folder/include" "$folder/pkgconfig" "$folder/bin"
  while read -r package use probe how; do
    [ "$use" = test ] || continue
    case $probe in
      tool:*) printf '#!/bin/sh\necho "$0: hidden, %s is only for tests" >&2\nexit 127\n' "$package" >"$folder/bin/${probe#tool:}"
              chmod +x "$folder/bin/${probe#tool:}" ;;
      header:*) for header in $(tr '|' ' ' <<<"${probe#header:}"); do
                  mkdir -p "$folder/include/$(dirname "$header")"
                  echo "#error $header is hidden: $package is only for tests" >"$folder/include/$header"
                done ;;
    esac
    case $how in
      find:*) name=${how#find:} hidden+=("-DCMAKE_DISABLE_FIND_PACKAGE_${name%@*}=ON") ;;
      pkg:*) printf 'Name: %s\nDescription: hidden\nVersion: 0\nRequires: hidden_from_this_build\n' "$package" \
               >"$folder/pkgconfig/${how#pkg:}.pc" ;;
    esac
  done < <(grep -v '^#' "$ROOT/scripts/build/packages.txt")
  HIDDEN_OPTIONS="${hidden[*]}" CPATH="$folder/include" PKG_CONFIG_PATH="$folder/pkgconfig" PATH="$folder/bin:$PATH" "$@"
}

# build PRESET [TARGET...]: configures once, and again for CONFIGURE_OPTIONS, then builds with a compiler a core. Ninja's
# own choice is two more, which takes longer where the cores are two.
build() {
  local preset=$1 log
  shift
  mkdir -p build
  log=build/$preset.log
  if [ ! -e "build/$preset/build.ninja" ] || [ -n "${CONFIGURE_OPTIONS:-}" ]; then
    # shellcheck disable=SC2086
    cmake --preset "$preset" ${HIDDEN_OPTIONS:-} ${CONFIGURE_OPTIONS:-} ${CUDA_ROOT:+-DCUDAToolkit_ROOT="$CUDA_ROOT"} >"$log" 2>&1 ||
      { cat "$log" >&2; fail "configuring failed (preset $preset); the output is above and in $log"; }
  fi
  say "building ($preset); the log is $log"
  cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"} >>"$log" 2>&1 ||
    { tail -n 60 "$log" >&2; fail "the build failed (preset $preset); the end of the log is above, all of it in $log"; }
}
