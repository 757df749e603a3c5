#!/usr/bin/env bash
# The CI gate for plugin authors does what its README says: a build passes against itself, and each planted fault is found by the
# number that it changes. Usage: gate_test.sh PATH_OF_ALLOCMARK EXAMPLE.so FOLDER_OF_FAULTY_BUILDS
set -uo pipefail

export ALLOCMARK=$1
example=$2 faulty=$3
gate=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/allocators/examples/ci/gate.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# gated EXIT_CODE TEXT ARGUMENT...: the gate ends with the code and says TEXT.
gated() {
  local code=$1 text=$2 got
  shift 2
  timeout 300 "$gate" --out "$work/out" "$@" >"$work/log" 2>&1
  got=$?
  if [ "$got" != "$code" ] || ! grep -qE -e "$text" "$work/log"; then
    echo "FAILED: gate.sh $*: exit code $got, wanted $code and '$text'" >&2
    tail -n 30 "$work/log" | sed 's/^/    /' >&2
    failures=$((failures + 1))
  else
    echo "ok: $(basename "${!#}"): $code"
  fi
}

# junit ATTRIBUTE: the number that the artifact's first element gives.
junit() { sed -n "s/.*<testsuite .* $1=\"\([0-9]*\)\".*/\1/p" "$work/out/junit.xml"; }

gated 0 '^passed$' "$example" "$example"
{ [ "$(junit tests)" = 13 ] && [ "$(junit failures)" = 0 ]; } || { echo "FAILED: junit.xml of a pass" >&2 && failures=$((failures + 1)); }
[ -s "$work/out/report.html" ] || grep -q "report.html: not made" "$work/out/report.txt" || { echo "FAILED: no report" >&2 && failures=$((failures + 1)); }
kept=$(stat -c %Y "$work/out/base-1/results.jsonl")

gated 1 '^worse +allocate_latency_ns_p50' "$example" "$faulty/gated_plugin_1.so"
[ "$(junit failures)" -gt 0 ] || { echo "FAILED: junit.xml of a regression" >&2 && failures=$((failures + 1)); }
gated 1 '^worse +oom_count' "$example" "$faulty/gated_plugin_2.so"
gated 1 '^worse +modelled_driver_ns_total' "$example" "$faulty/gated_plugin_3.so"
gated 1 '(worse|undecided) +oom_count' "$example" "$faulty/gated_plugin_4.so"
gated 3 'crashed' "$example" "$faulty/gated_plugin_5.so"
[ "$(stat -c %Y "$work/out/base-1/results.jsonl")" = "$kept" ] || { echo "FAILED: runs of BASE were not used again" >&2 && failures=$((failures + 1)); }

gated 2 'cannot read' "$example" "$work/nothing.so"
gated 2 'two libraries' "$example"
gated 2 'not known' --fast "$example" "$example"
gated 2 'no function' --functions a,b "$example" "$example"
ALLOCMARK=/nothing/allocmark gated 2 'there is no program' "$example" "$example"

[ "$failures" = 0 ] || exit 1
