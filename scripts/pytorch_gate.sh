#!/usr/bin/env bash
# Holds a release of PyTorch's allocator against an older one, on the simulated GPU, and says what is worse or other:
# placements, reserved memory, failures and calls of the device exactly, and latency in turns with a verdict.
#
#   scripts/pytorch_gate.sh 2.12.1 2.13.0                 fetches what is missing into build/torch
#   scripts/pytorch_gate.sh --quick 2.12.1 2.13.0         exact figures only, about a minute
#
# Options: --out DIR, a new folder [pytorch-gate]; --rounds N of the timed part [6]; --policy FILE [effects from 5 %].
# In: two releases. Out, in DIR: exact/ and timed/ with raw results, comparison texts and junit.xml in each.
# Exit codes are those of 'allocmark compare': 0 nothing is worse, 1 something is, 3 a cell cannot be compared.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ALLOCMARK=${ALLOCMARK:-$ROOT/build/release/bin/allocmark}
out=pytorch-gate rounds=6 policy= quick=no
PROGRAMS=(gpt2_train_amp bert_varlen_infer llama_lora_varlen_accum)
SETTINGS=(unset max_split_size_mb:20 max_split_size_mb:128,garbage_collection_threshold:0.8 roundup_power2_divisions:4
  expandable_segments:True expandable_segments:True,max_split_size_mb:128)

fail() { printf 'pytorch_gate.sh: %s\n' "$1" >&2; exit 2; }

while [ $# -gt 0 ]; do
  case $1 in
    --out | --rounds | --policy) [ $# -ge 2 ] || fail "$1 wants a value"; printf -v "${1#--}" %s "$2"; shift 2 ;;
    --quick) quick=yes; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) fail "there is no option '$1'; see --help" ;;
    *) break ;;
  esac
done
[ $# -eq 2 ] || fail "two releases are wanted, as in: scripts/pytorch_gate.sh 2.12.1 2.13.0"
[ "$1" != "$2" ] || fail "both sides are $1"
case $rounds in '' | *[!0-9]* | 0 | 1) fail "--rounds wants a number from 2 on, got '$rounds'" ;; esac
command -v "$ALLOCMARK" >/dev/null || fail "there is no program $ALLOCMARK; build it with scripts/run.sh, or set ALLOCMARK"
[ ! -e "$out" ] || fail "$out is there already; name another folder with --out"

FOLDER=${ALLOCMARK_TORCH_RELEASES:-$ROOT/build/torch}
for version in "$1" "$2"; do
  [ -e "$FOLDER/$version/liballocmark_torch.so" ] || "$ROOT/scripts/fetch_torch.sh" --into "$FOLDER" "$version"
done
export ALLOCMARK_TORCH_RELEASES=$FOLDER

# part NAME ROUNDS OPTIONS...: both releases in turn; keeps the worst verdict in `code`.
code=0
part() {
  local name=$1 turns=$2 ended=0
  shift 2
  "$ALLOCMARK" run --device sim:h200 --ab "torch@$old" "torch@$new" --rounds "$turns" --rounds-max "$turns" \
    ${policy:+--policy "$policy"} --min-effect 5% --out "$out/$name" "$@" | tee "$out/$name.txt" || ended=$?
  case $ended in 0 | 1 | 3) ;; *) exit $ended ;; esac
  "$ALLOCMARK" compare "$out/$name" --format junit --force --out "$out/$name/junit.xml" >/dev/null || true
  [ $ended -eq 0 ] || [ $code -eq 1 ] || code=$ended
}

old=$1 new=$2
mkdir -p "$out"
echo "== exact: $old and $new, ${#PROGRAMS[@]} recorded programs, ${#SETTINGS[@]} settings"
part exact 2 --workload "${PROGRAMS[@]}" --conf "${SETTINGS[@]}" --capacity unlimited 1.10x
if [ $quick = no ]; then
  echo "== timed: in turns, unset, $rounds rounds"
  part timed "$rounds" --workload "${PROGRAMS[@]}" --conf unset --capacity unlimited
fi
echo "results: $out"
exit $code
