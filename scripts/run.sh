#!/usr/bin/env bash
# Installs what is missing, builds, and runs the default suite: on a GPU if there is one, else simulated.
# Arguments go to `allocmark run`: scripts/run.sh --suite smoke
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

ensure_all "${BUILD_NEEDS[@]}"
build release allocmark simcuda simcuda-run
[ $# -gt 0 ] || set -- --suite default
exec build/release/bin/allocmark run "$@"
