#!/bin/sh
# Builds the example "unit-test your CUDA memory code without a GPU" as its readers do, in a copy, and
# runs its tests. In: cmake, the example's folder, the folder of allocmark's package, CUDA's root.
set -eu
cmake=$1
example=$2
package=$3
toolkit=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -r "$example" "$work/source"
"$cmake" -S "$work/source" -B "$work/build" -Dallocmark_DIR="$package" -DCUDAToolkit_ROOT="$toolkit" \
  -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
(cd "$work/build" && "${cmake%cmake}ctest" --verbose --no-tests=error)
