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
  share/allocmark/workloads/recorded/gpt2_train_amp.ops.csv.gz share/allocmark/report/results/DEFINITIONS.md \
  share/allocmark/report/results/compare/VERDICTS.md share/allocmark/report/results/TIMES.md \
  share/allocmark/report/results/FORMAT.md share/allocmark/report/results/FAILURES.md share/allocmark/report/results/answer/ANSWER.md \
  share/allocmark/record_pytorch.py share/allocmark/capture/torch_capture.cc lib/allocmark/liballocmark_capture.so; do
  # shellcheck disable=SC2086
  ls $prefix/$file >/dev/null || fail "not installed: $file"
done
no_path_of_ours "$prefix"

has "$prefix/share/man/man1/allocmark.1" ".SS allocmark trace summary"
if command -v man >/dev/null; then
  man --warnings -l "$prefix/share/man/man1/allocmark.1" >"$work/man.txt" 2>"$work/warnings.txt"
  [ ! -s "$work/warnings.txt" ] || { cat "$work/warnings.txt"; fail "the manual page"; }
fi
# completes WORD... EXPECTED: the last word is among what bash offers for the words before it.
completes() (
  PATH=$prefix/bin:$PATH
  . "$prefix/share/bash-completion/completions/allocmark"
  COMP_WORDS=(allocmark "${@:1:$#-1}") COMP_CWORD=$(($# - 1))
  _allocmark
  case " ${COMPREPLY[*]} " in *" ${!#} "*) ;; *) fail "completion of '$*': got '${COMPREPLY[*]}'" ;; esac
)
completes ru run
completes trace "" summary
completes run --worklo --workload
completes run --workload gpt2_train_a gpt2_train_amp
completes run --conf unset other --capa --capacity
completes run --format m markdown
completes list dev devices
for shell in zsh fish; do
  file=$(ls "$prefix"/share/zsh/site-functions/_allocmark "$prefix"/share/fish/vendor_completions.d/allocmark.fish | grep $shell)
  has "$file" workload
  ! command -v $shell >/dev/null || $shell -n "$file" || fail "$file"
done

program_works "$prefix"

"$cmake" -S "$root/tests/install/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCUDA_INCLUDE="$CUDA_INCLUDE" -DCUDART="$CUDART" >"$work/consumer.txt" 2>&1 &&
  "$cmake" --build "$work/consumer" >>"$work/consumer.txt" 2>&1 &&
  (cd "$work/consumer" && "$(dirname "$cmake")/ctest" --output-on-failure) >>"$work/consumer.txt" 2>&1 ||
  { cat "$work/consumer.txt"; fail "the project that uses the installed package"; }
has "$work/consumer.txt" "100% tests passed"
echo "installed, moved and used from $prefix"
