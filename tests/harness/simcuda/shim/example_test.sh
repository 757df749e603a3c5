#!/bin/sh
# Builds the example "unit-test your CUDA memory code without a GPU" as its readers do, in a copy, with
# an installed allocmark, and runs its tests. In: the build folder, cmake, the example's folder, CUDA's root.
set -eu
build=$1
cmake=$2
example=$3
toolkit=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH

quiet() {
  "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

quiet "$cmake" --install "$build" --prefix "$work/installed"
cp -r "$example" "$work/source"
quiet "$cmake" -S "$work/source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/installed" \
  -DCUDAToolkit_ROOT="$toolkit" -DCMAKE_BUILD_TYPE=Release
quiet "$cmake" --build "$work/build"
(cd "$work/build" && "${cmake%cmake}ctest" --output-on-failure --no-tests=error)

# The launcher is installed, and finds simcuda there.
"$work/installed/bin/simcuda-run" "$work/build/block_ring_test" time
