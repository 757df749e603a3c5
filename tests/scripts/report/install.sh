#!/usr/bin/env bash
# Makes build/report-venv, the Python environment of the tests of pages, manifests and Python's style. Does nothing where it is
# already as requirements.txt says. The page itself needs none.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../../.." && pwd)
VENV=${ALLOCMARK_REPORT_VENV:-$ROOT/build/report-venv}
WANTED=$HERE/requirements.txt

# Without it these tests are skipped, and nothing else.
fail() { printf '[allocmark] tests of pages, manifests and Python are skipped: %s\n' "$*" >&2; exit 4; }

stamp=$(sha256sum <"$WANTED" | cut -d ' ' -f 1)
if [ -x "$VENV/bin/python3" ] && grep -qsx "$stamp" "$VENV/allocmark-installed"; then exit 0; fi
command -v python3 >/dev/null || fail "python3 is missing; install it (Debian: apt-get install python3 python3-venv), then run this again"
if [ ! -x "$VENV/bin/pip" ]; then
  python3 -m venv "$VENV" || fail "python3 cannot make virtual environments; install python3-venv, then run this again"
fi
"$VENV/bin/pip" install -q --disable-pip-version-check --only-binary :all: --require-hashes -r "$WANTED" ||
  fail "pip could not install $WANTED; is there a network or a package mirror?"
echo "$stamp" >>"$VENV/allocmark-installed"
printf '[allocmark] %s is ready\n' "$VENV"
