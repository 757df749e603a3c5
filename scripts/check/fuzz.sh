#!/usr/bin/env bash
# The breakers at length, for a night: changed inputs, failing calls, hostile files, changed bundles.
# Usage: scripts/check/fuzz.sh PATH_OF_ALLOCMARK [COUNT [SEED]]   (120,000 inputs of seed 1 if not given)
# A table of the kinds of input, with tries and what became of them: ${TMPDIR:-/tmp}/allocmark-fuzz.md. JOBS=1 takes one processor.
set -u
cd "$(dirname "$0")/../.." || exit 2
program=$(realpath "${1:?the path of allocmark}")
failed=0
python3 tests/harness/cli/hostile_files_test.py "$program" || failed=1
python3 tests/harness/cli/fault_test.py "$program" --calls 40 || failed=1
python3 tests/harness/bundle/tamper_test.py "$program" || failed=1
python3 tests/harness/cli/fuzz_test.py "$program" --count "${2:-120000}" --seed "${3:-1}" --jobs "${JOBS:-$(nproc)}" \
  --keep "${TMPDIR:-/tmp}/allocmark-fuzz" --table "${TMPDIR:-/tmp}/allocmark-fuzz.md" || failed=1
exit $failed
