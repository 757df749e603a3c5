#!/usr/bin/env bash
# Goal: scripts/gate/pytorch_gate.sh says of two releases of PyTorch what differs, and of one release twice that nothing does.
# Method: what is wrong on its command line needs no release, nor does the summary, which is made of two releases' rules in
# `caching`; the rest runs a small program on releases that are fetched.
# usage: pytorch_gate_test.sh ALLOCMARK; exit code 77 where fewer than two releases are fetched.
set -uo pipefail
export ALLOCMARK=$1
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export ALLOCMARK_TORCH_RELEASES=${ALLOCMARK_TORCH_RELEASES:-$ROOT/build/torch}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failures=0

# expect WHAT CODE TEXT ARGUMENTS...
expect() {
  local what=$1 code=$2 text=$3 said ended=0
  shift 3
  said=$("$ROOT/scripts/gate/pytorch_gate.sh" "$@" 2>&1) || ended=$?
  if [ $ended -ne "$code" ] || ! grep -qF -- "$text" <<<"$said"; then
    printf '%s: wanted exit code %s and "%s", got %s:\n%s\n' "$what" "$code" "$text" "$ended" "$said" >&2
    failures=$((failures + 1))
  fi
}

expect "no release" 2 "two releases are wanted"
expect "one release" 2 "two releases are wanted" 2.13.0
expect "an unknown option" 2 "there is no option '--slow'" --slow 2.12.1 2.13.0
expect "one round" 2 "--rounds wants a number from 2 on" --rounds 1 2.12.1 2.13.0
expect "a folder that is there" 2 "is there already" --out "$place" 2.12.1 2.13.0
expect "a wheel of OLD" 2 "name the release that OLD is" --wheel "$place/none.whl" 2.13.0 2.13.0
expect "a wheel that is none" 2 "no wheel can be read" --wheel "$place/none.whl" --out "$place/wheel" 2.12.1 2.13.0

# summary WHAT OLD NEW TEXT: what is said of a comparison of caching@OLD with caching@NEW.
summary() {
  local what=$1 old=$2 new=$3 text=$4 said
  "$ALLOCMARK" run --device sim:h200 --ab "caching@$old" "caching@$new" --rounds 2 --rounds-max 2 --passes 1 --capacity unlimited \
    --workload churn:events=4000,live_bytes=256MiB,streams=1 --allow-debug --out "$place/$what" >"$place/$what.txt" 2>&1
  said=$("$ROOT/scripts/gate/pytorch_gate_summary.py" "$old" "$new" "$place/$what/comparison.json" 2>&1)
  if ! grep -qF -- "$text" <<<"$said"; then
    printf '%s: wanted "%s" in the summary, got:\n%s\n' "$what" "$text" "$said" >&2
    failures=$((failures + 1))
  fi
}
summary rules_alike 2.14 2.15 "alike in all 1 experiments"
summary rules_differ 2.12 2.13 "first at request"

shopt -s nullglob
fetched=("$ALLOCMARK_TORCH_RELEASES"/*/liballocmark_torch.so)
if [ ! -e "$ALLOCMARK_TORCH_RELEASES/2.12.1/liballocmark_torch.so" ] || [ ! -e "$ALLOCMARK_TORCH_RELEASES/2.13.0/liballocmark_torch.so" ]; then
  [ $failures -eq 0 ] || exit 1
  echo "skipped: 2.12.1 and 2.13.0 are not both fetched (${#fetched[@]} in $ALLOCMARK_TORCH_RELEASES); run: scripts/build/fetch_torch.sh 2.12.1 2.13.0"
  exit 77
fi

small=(--quick --program churn:events=4000,live_bytes=256MiB,streams=1 --conf unset)
expect "one release twice" 0 "alike in all 2 experiments" "${small[@]}" --out "$place/same" 2.13.0 2.13.0
expect "two releases" 1 "differ in 2 of 2 experiments" "${small[@]}" --out "$place/two" 2.12.1 2.13.0
for side in same two; do
  if ! grep -q "<testsuite" "$place/$side/exact/junit.xml" 2>/dev/null; then
    echo "$side: there is no junit.xml" >&2
    failures=$((failures + 1))
  fi
done
[ $failures -eq 0 ]
