# What tests of the program as a user meets it share; sourced by them with the program's path as $1. Gives $allocmark, a folder
# $work that goes at the end, expect, expect_of_broken, fail, results, and run_parts, which ends the script.
set -uo pipefail

allocmark=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $1" >&2
  sed 's/^/    /' "$work/out" "$work/err" 2>/dev/null | head -30 >&2
  failures=$((failures + 1))
}

# expect EXIT_CODE TEXT ARGUMENT...: the program ends with the code and prints TEXT (stdout or stderr).
expect() {
  local code=$1 text=$2 got
  shift 2
  timeout 120 "$allocmark" "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" = "$code" ] || fail "allocmark $*: exit code $got, wanted $code"
  grep -qF -e "$text" "$work/out" "$work/err" || fail "allocmark $*: does not say '$text'"
}

# expect_of_broken KIND EXIT_CODE TEXT ARGUMENT...: as expect, where cells misbehave (misbehaving_runtime.c).
expect_of_broken() {
  local -x MISBEHAVE=$1 LD_PRELOAD=$MISBEHAVING_RUNTIME
  shift
  expect "$@"
}

results() { echo "$work/$1/results.jsonl"; }

# run_parts FUNCTION...: each in turn, one line for each without a failure; exit status 1 where anything failed.
run_parts() {
  local part before
  for part in "$@"; do
    before=$failures
    "$part"
    [ "$failures" = "$before" ] && echo "ok: $part"
  done
  [ "$failures" = 0 ] || exit 1
  exit 0
}
