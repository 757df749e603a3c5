#!/usr/bin/env bash
# Runs the tests of the HTML report. Usage: run_tests.sh PATH_OF_ALLOCMARK [ARGUMENTS OF PYTEST]. Where the Python
# packages are not there it says how to get them and exits 77, which CTest reports as skipped.
set -euo pipefail
export ALLOCMARK_PROGRAM=$1
shift
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../../.." && pwd)
for python in "${ALLOCMARK_PYTHON:-}" "$ROOT/build/report-venv/bin/python3" python3; do
  [ -n "$python" ] && command -v "$python" >/dev/null || continue
  if "$python" -c 'import pytest' 2>/dev/null; then
    exec "$python" -B -m pytest -q -rs -p no:cacheprovider "$HERE" "$@"
  fi
done
echo "skipped: no python3 with pytest; run tests/scripts/report/install.sh"
exit 77
