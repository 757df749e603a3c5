#!/usr/bin/env bash
# Holds C++ files to the rules of .clang-tidy: unused includes, long functions, bugs of known kinds. A file takes 3 s, so
# it is for files that change; pre-commit calls it. Usage: scripts/check/tidy.sh [FILE.cc...]   Reads how each is compiled in
# build/dev (ALLOCMARK_TIDY_BUILD names another folder), and configures that where it is not there. Only the pinned version
# is taken, since another one finds other things. Exit code 1 where a rule is broken, 77 where clang-tidy is not there.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${ALLOCMARK_TIDY_BUILD:-build/dev}
wanted=$(sed -n 's/^clang-tidy==\([0-9.]*\).*/\1/p' tests/scripts/report/requirements.txt)
tidy=${ALLOCMARK_REPORT_VENV:-build/report-venv}/bin/clang-tidy
if ! "$tidy" --version 2>/dev/null | grep -qF "LLVM version $wanted"; then
  echo "tidy: skipped: no clang-tidy $wanted; run tests/scripts/report/install.sh"
  exit 77
fi
[ $# -gt 0 ] || exit 0
[ -e "$build/compile_commands.json" ] || cmake --preset dev -B "$build" >/dev/null
# clang would take the newest folder of a compiler, which may have no C++ headers.
gcc=$(dirname "$(g++ -print-libgcc-file-name)")
printf '%s\0' "$@" | { xargs -0 -r -n 1 -P "$(nproc)" "$tidy" -p "$build" --quiet --extra-arg=--gcc-install-dir="$gcc" \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument 2>/dev/null || exit 1; } | sed "s#$PWD/##"
