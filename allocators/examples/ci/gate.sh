#!/usr/bin/env bash
# Says whether a new build of an allocator plugin is worse than the one before, on the simulated GPU. GATE.md says what it
# decides, README.md how to use it in CI. In: two shared libraries with PyTorch's pluggable interface. Out, in the folder --out: junit.xml, report.html,
# comparison.txt, and the raw runs. Exit codes are those of 'allocmark compare': 0 passed, 1 worse, 3 a cell cannot be compared.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<TEXT
usage: gate.sh [--out DIR] [--policy FILE] [--functions LIST] [--rounds N] BASE.so NEW.so [-- RUN_OPTIONS]

  --out DIR          a new folder, where everything goes [gate-results]
  --policy FILE      what a regression is [policy.json beside this script]
  --functions LIST   the library's functions: MALLOC,FREE and, where it has them, trim:SYMBOL
                     (gives cached memory back) and record_stream:SYMBOL [my_malloc,my_free]
  --rounds N         how often both builds run in turn; undecided cells go on up to twice as often [16]
  RUN_OPTIONS        which cells, as of 'allocmark run' [four recorded programs under three capacities]
  ALLOCMARK          (environment) the program [allocmark]
TEXT
}

fail() {
  echo "gate.sh: $1" >&2
  exit 2
}

allocmark=${ALLOCMARK:-allocmark} out=gate-results policy=$here/policy.json functions=my_malloc,my_free rounds=16
while [ $# -gt 0 ]; do
  case $1 in
    --out | --policy | --functions | --rounds)
      [ $# -ge 2 ] || fail "$1 wants a value"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    -h | --help) usage && exit 0 ;;
    -*) fail "$1 is not known; see gate.sh --help" ;;
    *) break ;;
  esac
done
[ $# -ge 2 ] || fail "two libraries are wanted, BASE.so and NEW.so; see gate.sh --help"
base=$1 new=$2
shift 2
cells=(--workload gpt2_train_amp gpt2_train_ckpt bert_varlen_infer llama_generate --capacity unlimited 1.05x 1.25x)
if [ $# -gt 0 ]; then
  [ "$1" = -- ] && [ $# -gt 1 ] || fail "'$1' stands where '-- RUN_OPTIONS' may; see gate.sh --help"
  shift
  cells=("$@")
fi
for library in "$base" "$new"; do [ -r "$library" ] || fail "cannot read $library"; done
[ "$(realpath "$base")" != "$(realpath "$new")" ] || echo "gate.sh: note: both sides are the same file" >&2
IFS=, read -ra names <<<"$functions"
[ ${#names[@]} -ge 2 ] || fail "--functions wants MALLOC,FREE[,trim:SYMBOL][,record_stream:SYMBOL], got '$functions'"
symbols=malloc:${names[0]},free:${names[1]}
for name in "${names[@]:2}"; do
  case $name in trim:?* | record_stream:?*) symbols+=,$name ;; *) fail "--functions: '$name' is no trim:SYMBOL or record_stream:SYMBOL" ;; esac
done
case $rounds in '' | *[!0-9]*) fail "--rounds wants a number, got '$rounds'" ;; esac
command -v "$allocmark" >/dev/null || fail "there is no program $allocmark; set ALLOCMARK"

side() { echo "pluggable=library:$(realpath "$1"),$symbols"; }

# Both builds in turn, so that what disturbs the machine disturbs both.
mkdir -p "$(dirname "$out")"
code=0
"$allocmark" run --device sim:h200 --ab "$(side "$base")" "$(side "$new")" "${cells[@]}" --rounds "$rounds" \
  --rounds-max $((2 * rounds)) --policy "$policy" --out "$out" || code=$?
# Anything else than a verdict has been said by now.
case $code in 0 | 1 | 3) ;; *) exit $code ;; esac

"$allocmark" compare "$out" --policy "$policy" --format junit --force --out "$out/junit.xml" >/dev/null || [ $? = $code ]
# For people; where its Python packages are missing the page is left out, which changes no verdict.
"$allocmark" report "$out/B" --baseline "$out" --policy "$policy" >"$out/report.txt" 2>&1 || cat "$out/report.txt" >&2
[ ! -e "$out/B/report.html" ] || cp "$out/B/report.html" "$out/report.html"
exit $code
