#!/usr/bin/env bash
# Holds a release of PyTorch's allocator against an older one, on the simulated GPU, and says what is worse or other:
# placements, reserved memory, failures and calls of the device exactly, and latency in turns with a verdict.
#
#   scripts/gate/pytorch_gate.sh 2.12.1 2.13.0                 fetches what is missing into build/torch
#   scripts/gate/pytorch_gate.sh --quick 2.12.1 2.13.0         exact figures only, half the time
#   scripts/gate/pytorch_gate.sh --wheel dist/torch-2.16.0a0+git1234567-cp312-linux_x86_64.whl 2.15.0 2.16.0
#                                                              NEW is a build of your own
#
# Options: --out DIR, a new folder [pytorch-gate]; --rounds N of the timed part [6]; --policy FILE [effects from 5 %];
# --program W, as often as you like, a recorded program or a workload of your own [three recorded programs]; --conf C, as often
# as you like, a setting [six]. The timed part runs unset alone.
# In: two releases; the same one twice says what the gate reports where nothing changed.
# Out: what changed, on one screen; in DIR exact/ and timed/ with raw results, comparisons and junit.xml in each.
# Exit codes are those of 'allocmark compare': 0 nothing is worse, 1 something is, 3 a cell cannot be compared.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ALLOCMARK=${ALLOCMARK:-$ROOT/build/release/bin/allocmark}
out=pytorch-gate rounds=6 policy= quick=no wheel=
OWN=() OWN_SETTINGS=() PROGRAMS=(gpt2_train_amp bert_varlen_infer llama_lora_varlen_accum)
SETTINGS=(unset max_split_size_mb:20 max_split_size_mb:128,garbage_collection_threshold:0.8 roundup_power2_divisions:4
  expandable_segments:True expandable_segments:True,max_split_size_mb:128)

fail() { printf 'pytorch_gate.sh: %s\n' "$1" >&2; exit 2; }

while [ $# -gt 0 ]; do
  case $1 in
    --out | --rounds | --policy | --wheel)
      [ $# -ge 2 ] || fail "$1 wants a value"
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    --program) [ $# -ge 2 ] || fail "$1 wants a value"; OWN+=("$2"); shift 2 ;;
    --conf) [ $# -ge 2 ] || fail "$1 wants a value"; OWN_SETTINGS+=("$2"); shift 2 ;;
    --quick) quick=yes; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) fail "there is no option '$1'; see --help" ;;
    *) break ;;
  esac
done
[ $# -eq 2 ] || fail "two releases are wanted, as in: scripts/gate/pytorch_gate.sh 2.12.1 2.13.0"
[ -z "$wheel" ] || [ "$1" != "$2" ] || fail "--wheel holds NEW, and OLD is $1, too; name the release that OLD is"
[ ${#OWN[@]} -eq 0 ] || PROGRAMS=("${OWN[@]}")
[ ${#OWN_SETTINGS[@]} -eq 0 ] || SETTINGS=("${OWN_SETTINGS[@]}")
case $rounds in '' | *[!0-9]* | 0 | 1) fail "--rounds wants a number from 2 on, got '$rounds'" ;; esac
command -v "$ALLOCMARK" >/dev/null || fail "there is no program $ALLOCMARK; build it with scripts/run.sh, or set ALLOCMARK"
[ ! -e "$out" ] || fail "$out is there already; name another folder with --out"

FOLDER=${ALLOCMARK_TORCH_RELEASES:-$ROOT/build/torch}
[ -z "$wheel" ] || "$ROOT/scripts/build/fetch_torch.sh" --into "$FOLDER" --wheel "$wheel" "$2"
export ALLOCMARK_TORCH_RELEASES=$FOLDER
for version in "$1" "$2"; do
  "$ALLOCMARK" list allocators | grep -q "^ *torch@$version .*PyTorch $version\$" || "$ROOT/scripts/build/fetch_torch.sh" --into "$FOLDER" "$version"
done

# part SCOPE ROUNDS OPTIONS...: both releases in turn, judged by that kind of numbers; keeps the worst verdict in `code`.
code=0
part() {
  local scope=$1 turns=$2 ended=0
  shift 2
  local judge=("$ALLOCMARK" compare "$out/$scope" --only "$scope" ${policy:+--policy "$policy"})
  [ -n "$policy" ] || judge+=(--min-effect 5%)
  "$ALLOCMARK" run --device sim:h200 --ab "torch@$old" "torch@$new" --rounds "$turns" --rounds-max "$turns" --out "$out/$scope" "$@" \
    >"$out/$scope.run.txt" || ended=$?
  case $ended in 0 | 1 | 3) ;; *) exit $ended ;; esac
  ended=0
  "${judge[@]}" --format json --force --out "$out/$scope/judged.json" >"$out/$scope.txt" || ended=$?
  "${judge[@]}" --format junit --force --out "$out/$scope/junit.xml" >/dev/null || [ $? = $ended ]
  case $ended in 0 | 1 | 3) ;; *) exit $ended ;; esac
  [ $ended -eq 0 ] || [ $code -eq 1 ] || code=$ended
}

old=$1 new=$2
mkdir -p "$out"
echo "exact: ${#PROGRAMS[@]} programs, ${#SETTINGS[@]} settings"
part exact 2 --passes 1 --workload "${PROGRAMS[@]}" --conf "${SETTINGS[@]}" --capacity unlimited 1.10x
if [ $quick = no ]; then
  echo "timed: in turns, unset, $rounds rounds"
  part timed "$rounds" --workload "${PROGRAMS[@]}" --conf unset --capacity unlimited
fi
judged=("$out/exact/judged.json")
[ $quick = yes ] || judged+=("$out/timed/judged.json")
"$ROOT/scripts/gate/pytorch_gate_summary.py" "$old" "$new" "${judged[@]}"
echo "results: $out"
exit $code
