#!/usr/bin/env bash
# The CI gate for plugin authors does what GATE.md says: a build passes against itself, and each planted fault is found by the
# number that it changes. Timed numbers are judged with a floor that no load on the machine reaches.
# Usage: gate_test.sh PATH_OF_ALLOCMARK EXAMPLE.so FOLDER_OF_FAULTY_BUILDS
set -uo pipefail

export ALLOCMARK=$1
example=$2 faulty=$3
gate=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)/allocators/examples/ci/gate.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $1" >&2
  tail -n 30 "$work/log" | sed 's/^/    /' >&2
  failures=$((failures + 1))
}

# gated NAME EXIT_CODE TEXT ARGUMENT...: the gate ends with the code and says TEXT.
gated() {
  local name=$1 code=$2 text=$3 got
  shift 3
  timeout 600 "$gate" --out "$work/$name" "$@" >"$work/log" 2>&1
  got=$?
  if [ "$got" = "$code" ] && grep -qE -e "$text" "$work/log"; then
    echo "ok: $name: $code"
  else
    fail "$name: exit code $got, wanted $code and '$text'"
  fi
}

# junit NAME ATTRIBUTE: the number that the artifact's first element gives.
junit() { sed -n "s/.*<testsuite .* $2=\"\([0-9]*\)\".*/\1/p" "$work/$1/junit.xml"; }

cells=(-- --workload gpt2_train_ckpt bert_varlen_infer --capacity unlimited 1.05x)
sed 's/"effect_min": [0-9.]*/"effect_min": 2/' "$(dirname "$gate")/policy.json" >"$work/coarse.json"
grep -qE '"effect_min": 2[,}[:space:]]*$' "$work/coarse.json" || { echo "FAILED: the policy has another floor" >&2 && exit 1; }
timed=(--rounds 4 --policy "$work/coarse.json") exact=(--rounds 2 --policy "$work/coarse.json")

gated same 0 '^passed' "${timed[@]}" "$example" "$example" "${cells[@]}"
{ [ "$(junit same tests)" = 5 ] && [ "$(junit same failures)" = 0 ]; } || fail "junit.xml of a pass"
[ -s "$work/same/report.html" ] || grep -q "report.html: not made" "$work/same/report.txt" || fail "there is no report"

gated spins 1 '^worse .* (allocate|time per step)' "${timed[@]}" "$example" "$faulty/gated_plugin_1.so" "${cells[@]}"
[ "$(junit spins failures)" -gt 0 ] || fail "junit.xml of a regression"
grep -q 'message="worse: ' "$work/spins/junit.xml" || fail "junit.xml does not say what is worse"
# Rules end the gate before anything is timed, and --all compares all the same.
gated takes_more 1 '^FAIL +rounding' "${exact[@]}" "$example" "$faulty/gated_plugin_2.so" "${cells[@]}"
[ "$(junit takes_more failures)" = 1 ] && [ ! -e "$work/takes_more/A" ] || fail "the gate went on after a broken rule"
gated takes_more_all 1 '^worse .* failed requests' --all "${exact[@]}" "$example" "$faulty/gated_plugin_2.so" "${cells[@]}"
gated waits 1 '^worse .* cudaStreamSynchronize calls 0 -> ' --all "${exact[@]}" "$example" "$faulty/gated_plugin_3.so" "${cells[@]}"
gated fails_at_random 1 '^worse .* failed requests 0 -> ' --all "${exact[@]}" "$example" "$faulty/gated_plugin_4.so" "${cells[@]}"
gated crashes 1 'result ok -> crashed' --all "${exact[@]}" "$example" "$faulty/gated_plugin_5.so" "${cells[@]}"
# A waived rule does not end the gate: the comparison that follows sees what the rule would have said.
gated waived 1 '^worse .* reserved peak' --waive 'rounding=it is known to be generous' --functions my_malloc,my_free,trim:my_trim,as:mine \
  "$example" "$faulty/gated_plugin_2.so" --rounds 2 --policy "$work/coarse.json" -- --workload churn:live_bytes=256MiB,events=20000 --capacity unlimited --min-effect 900%

gated unreadable 2 'cannot read' "$example" "$work/nothing.so"
gated alone 2 'two libraries' "$example"
gated option 2 'not known' --fast "$example" "$example"
gated stray 2 'got 3' "$example" "$example" "$example"
gated nothing 2 'nothing stands after' "$example" "$example" --
gated waiver 2 'waives no rule' --waive rounding "$example" "$example"
gated functions 2 'no function' --functions a,b "$example" "$example"
# Options stand anywhere.
gated symbols 0 '^passed' --policy "$work/coarse.json" "$example" "$example" --functions my_malloc,my_free,trim:my_trim --rounds 2 -- \
  --workload gpt2_train_ckpt --capacity unlimited --untimed fuzz_r1
gated no_symbol 2 'is no trim:SYMBOL' --functions my_malloc,my_free,my_trim "$example" "$example"
gated one_function 2 'MALLOC,FREE' --functions a "$example" "$example"
gated rounds 2 'wants a number' --rounds many "$example" "$example"
if [ -e "$faulty/static_plugin.so" ]; then
  gated static 2 'carries the static CUDA runtime' "$example" "$faulty/static_plugin.so"
  served=$faulty/served_plugin.so
  gated served 2 'static_plugin.so, which carries the static' --functions served_malloc,served_free "$served" "$served"
  "$ALLOCMARK" run --device sim:h200 --allocator "pluggable:$served,served_malloc,served_free" --workload gpt2_train_ckpt --allow-debug \
    --out "$work/served" >"$work/served.txt" 2>&1
  grep -q 'static_plugin.so, which carries the static' "$work/served/results.jsonl" || fail "run does not name the static runtime: $(tail -3 "$work/served.txt")"
  # That a library beside it carries one is not why requests fail.
  "$ALLOCMARK" run --device sim:h200 --allocator "pluggable:$served,carried_malloc,carried_free" --workload gpt2_train_ckpt --capacity 500MiB \
    --allow-debug --out "$work/carried" >"$work/carried.txt" 2>&1
  grep -q '"oom_count":[1-9]' "$work/carried/results.jsonl" || fail "requests that find no memory: $(tail -3 "$work/carried.txt")"
fi
gated used 2 'not empty' --out "$work/same" "$example" "$example"
ALLOCMARK=/nothing/allocmark gated program 2 'there is no program' "$example" "$example"

[ "$failures" = 0 ] || exit 1
