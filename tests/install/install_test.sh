#!/usr/bin/env bash
# `cmake --install`, moved to another folder, with the source tree gone: the program, its data, its manual pages and
# completions, and a project that finds the CMake package. Checks only. Usage: install_test.sh BUILD_FOLDER CMAKE
. "$(dirname "$0")/common.sh"

# Debug information names sources; it goes, as in the package.
"$cmake" --install "$build" --strip --prefix "$work/first" >"$work/install.txt" || { cat "$work/install.txt"; fail "install"; }
prefix=$work/moved/elsewhere
mkdir -p "$work/moved"
mv "$work/first" "$prefix"

for file in bin/allocmark lib/simcuda/libcudart.so lib/simcuda/libcuda.so.1 lib/simcuda/libnvidia-ml.so.1 \
  lib/simcuda/profiles/h200.json include/allocmark/simcu.h share/doc/*/LICENSE share/doc/*/README.md \
  share/allocmark/workloads/recorded/gpt2_train_amp.ops.csv.gz share/allocmark/report/results/README.md \
  share/allocmark/record_pytorch.py; do
  # shellcheck disable=SC2086
  ls $prefix/$file >/dev/null || fail "not installed: $file"
done
no_path_of_ours "$prefix"
program_works "$prefix"

"$cmake" -S "$root/tests/install/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCUDA_INCLUDE="$CUDA_INCLUDE" -DCUDART="$CUDART" >"$work/consumer.txt" 2>&1 &&
  "$cmake" --build "$work/consumer" >>"$work/consumer.txt" 2>&1 &&
  (cd "$work/consumer" && "$(dirname "$cmake")/ctest" --output-on-failure) >>"$work/consumer.txt" 2>&1 ||
  { cat "$work/consumer.txt"; fail "the project that uses the installed package"; }
has "$work/consumer.txt" "100% tests passed, 0 tests failed out of 3"
echo "installed, moved and used from $prefix"
