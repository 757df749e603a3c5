#!/usr/bin/env bash
# Holds Python to the rules of ruff.toml; run by CTest as `ruff`. Usage: scripts/check/ruff.sh [FILE...]   (all files if none is
# given). Only the pinned version is taken, since another one finds other things. Exit code 77 where it is not there.
set -euo pipefail
cd "$(dirname "$0")/../.."
wanted=$(sed -n 's/^ruff==\([0-9.]*\).*/\1/p' tests/scripts/report/requirements.txt)
for ruff in "${ALLOCMARK_REPORT_VENV:-build/report-venv}/bin/ruff" ruff; do
  [ "$("$ruff" --version 2>/dev/null)" != "ruff $wanted" ] || exec "$ruff" check --quiet --force-exclude --output-format concise "$@"
done
echo "ruff: skipped: no ruff $wanted; run tests/scripts/report/install.sh"
exit 77
