#!/usr/bin/env bash
# Writes the golden texts under tests/results/golden anew from what the code prints now, and results/schema.json and the
# tables of results/DEFINITIONS.md from the field table (results/fields.h). Look at the difference before you commit it: a
# golden that nobody read proves nothing. Where they are built, the tests of qualify write its schema, tables and faults, too.
# Usage: scripts/check/approve_goldens.sh [BUILD_FOLDER]   (default build/dev; it must hold bin/results_test)
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/dev}
if [[ ! -x $build/bin/results_test ]]; then
  echo "$build/bin/results_test: not there. Build it first: cmake --build $build --target results_test" >&2
  exit 2
fi
ALLOCMARK_APPROVE_GOLDENS=1 "$build/bin/results_test" "*as approved*"
for test in qualify_report_test qualify_faults_test; do
  [[ ! -x $build/bin/$test ]] || ALLOCMARK_APPROVE_GOLDENS=1 "$build/bin/$test" "*as approved*"
done
git --no-pager diff --stat -- tests/results/golden results harness/tools/qualify
