#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test, on the simulated GPU: the release, built without what only tests
# need, as its users use it, install it and package it (packaged); and the unit tests under AddressSanitizer and
# UndefinedBehaviorSanitizer (asan). The last line counts every test.
# ALLOCMARK_TEST_PRESETS="dev" runs all of them in one build without sanitizers, where each file is compiled by itself;
# "tsan" runs the unit tests under ThreadSanitizer.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

ensure_all "${BUILD_NEEDS[@]}" "${TEST_NEEDS[@]}"
# Tests of pages, manifests and Python need packages of PyPI, some a browser; without them they are reported as skipped. They come
# while the compiler works.
tests/scripts/report/install.sh &
page_packages=$!

presets=${ALLOCMARK_TEST_PRESETS:-packaged asan}
passed=0 failed=0 skipped=0 causes= packaged=

# run_ctest PRESET: adds its counts to the totals; a run without a result file counts as one failure.
run_ctest() {
  local preset=$1 xml=$ROOT/build/$1/ctest.xml summary total fails skips
  rm -f "$xml"
  say "testing ($preset)"
  # Some tests wait, for a child that hangs or a clock: one more than there are processors keeps these busy.
  ctest --preset "$preset" -j "$(($(nproc) + 1))" --output-junit "$xml" || true
  if [ ! -s "$xml" ] || ! summary=$(python3 "$ROOT/scripts/check/ctest_summary.py" "$xml"); then failed=$((failed + 1)); return; fi
  read -r total fails skips <<<"$summary"
  failed=$((failed + fails)) skipped=$((skipped + skips)) passed=$((passed + total - fails - skips))
  causes+=$(sed "1d; s/^/  $preset, /" <<<"$summary")$'\n'
}

for preset in $presets; do
  if [ "$preset" = packaged ]; then
    hide_test_packages "$ROOT/build/hidden" build packaged
    packaged=$ROOT/build/packaged/bin/allocmark
  elif [ -n "$packaged" ]; then
    # Tests of whole programs would take too long under a sanitizer: there they run the packaged one.
    CONFIGURE_OPTIONS="-DALLOCMARK_TESTED_PROGRAM=$packaged" build "$preset"
  else
    build "$preset"
  fi
  if [ -n "$page_packages" ]; then
    wait "$page_packages" || say "no Python packages for the tests of pages, manifests and Python: they will be skipped"
    page_packages=
  fi
  run_ctest "$preset"
done

echo
[ "$skipped" = 0 ] || printf 'skipped, each with its cause:\n%s\n' "$(grep . <<<"$causes")"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
