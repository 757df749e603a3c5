#!/usr/bin/env bash
# Makes build/report-venv, the Python environment that turns a results folder into report.html. `install.sh --tests` adds
# what the tests of the page need. Does nothing where the environment is already as requirements.txt says.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
VENV=${ALLOCMARK_REPORT_VENV:-$ROOT/build/report-venv}
WANTED=$HERE/requirements.txt
[ "${1:-}" != --tests ] || WANTED=$HERE/requirements-test.txt

fail() { printf '[allocmark] error: %s\n' "$*" >&2; exit 4; }

stamp=$(cat "$HERE/requirements.txt" "$WANTED" | sha256sum | cut -d ' ' -f 1)
if [ -x "$VENV/bin/python3" ] && grep -qsx "$stamp" "$VENV/allocmark-installed"; then exit 0; fi
command -v python3 >/dev/null || fail "python3 is missing; install it (Debian: apt-get install python3 python3-venv), then run this again"
if [ ! -x "$VENV/bin/pip" ]; then
  python3 -m venv "$VENV" || fail "python3 cannot make virtual environments; install python3-venv, then run this again"
fi
"$VENV/bin/pip" install -q --disable-pip-version-check -r "$WANTED" ||
  fail "pip could not install $WANTED; is there a network or a package mirror?"
echo "$stamp" >>"$VENV/allocmark-installed"
printf '[allocmark] %s is ready\n' "$VENV"
