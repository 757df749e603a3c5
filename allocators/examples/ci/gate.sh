#!/usr/bin/env bash
# Says whether a new build of an allocator plugin is worse than the one before, on the simulated GPU. GATE.md says what it
# decides, README.md how to use it in CI. In: two shared libraries with PyTorch's pluggable interface. Out, in the folder --out: junit.xml, rules.xml,
# report.html, comparison.txt, and the raw runs. Exit codes are those of 'allocmark compare': 0 passed, 1 worse, 3 a cell cannot be compared.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<TEXT
usage: gate.sh [OPTIONS] BASE.so NEW.so [OPTIONS] [-- RUN_OPTIONS]

  --out DIR          a new folder, where everything goes [gate-results]
  --policy FILE      what a regression is [policy.json beside this script]
  --functions LIST   the library's functions: MALLOC,FREE and, where it has them, trim:SYMBOL
                     (gives cached memory back), record_stream:SYMBOL, init:SYMBOL, and as:NAME
                     (what results call it) [my_malloc,my_free]
  --rounds N         how often both builds run in turn; from 10 on, undecided cells go on up to twice as often [9]
  --history FILE     what merges added up: the file is read, and written where the gate passes (needs python3)
  --waive RULE=WHY   a rule that the new build may break; the reason is printed (may come again)
  --all              compare also where the new build breaks a rule that the old one keeps
  RUN_OPTIONS        which cells, as of 'allocmark run' [four recorded programs under three
                     capacities, and untimed ones with several streams]
  ALLOCMARK          (environment) the program [allocmark]
TEXT
}

fail() {
  echo "gate.sh: $1" >&2
  exit 2
}

allocmark=${ALLOCMARK:-allocmark} out=gate-results policy=$here/policy.json functions=my_malloc,my_free rounds=9 all=no history=
libraries=() waivers=()
cells=(--workload gpt2_train_amp gpt2_train_ckpt bert_varlen_infer llama_generate --capacity unlimited 1.05x 1.25x
  --untimed fuzz_r1 fuzz_s1 producer)
while [ $# -gt 0 ]; do
  case $1 in
    --out | --policy | --functions | --rounds | --history | --waive)
      [ $# -ge 2 ] || fail "$1 wants a value"
      if [ "$1" = --waive ]; then waivers+=(--waive "$2"); else printf -v "${1#--}" %s "$2"; fi
      shift 2
      ;;
    --all) all=yes && shift ;;
    -h | --help) usage && exit 0 ;;
    --)
      [ $# -gt 1 ] || fail "nothing stands after '--'; see gate.sh --help"
      shift
      cells=("$@")
      break
      ;;
    -*) fail "$1 is not known; options of 'allocmark run' come after '--'; see gate.sh --help" ;;
    *) libraries+=("$1") && shift ;;
  esac
done
[ ${#libraries[@]} -eq 2 ] || fail "two libraries are wanted, BASE.so and NEW.so, got ${#libraries[@]}; see gate.sh --help"
for library in "${libraries[@]}"; do [ -r "$library" ] || fail "cannot read $library"; done
base=$(realpath "${libraries[0]}") new=$(realpath "${libraries[1]}")
[ "$base" != "$new" ] || echo "gate.sh: note: both sides are the same file" >&2
IFS=, read -ra names <<<"$functions"
[ ${#names[@]} -ge 2 ] || fail "--functions wants MALLOC,FREE[,KEY:SYMBOL...], got '$functions'"
symbols=malloc:${names[0]},free:${names[1]} named=${names[0]},${names[1]}
for name in "${names[@]:2}"; do
  case $name in
    trim:?* | record_stream:?* | init:?*) symbols+=,$name named+=,$name ;;
    as:?*) symbols+=,$name ;;
    *) fail "--functions: '$name' is no trim:SYMBOL, record_stream:SYMBOL, init:SYMBOL or as:NAME" ;;
  esac
done
case $rounds in '' | *[!0-9]*) fail "--rounds wants a number, got '$rounds'" ;; esac
# Below 10 rounds a test decides that more of them hardly sharpen (VERDICTS.md).
rounds_max=$((rounds < 10 ? rounds : 2 * rounds))
[ -z "$history" ] || command -v python3 >/dev/null || fail "--history needs python3"
command -v "$allocmark" >/dev/null || fail "there is no program $allocmark; set ALLOCMARK"
# As 'allocmark run' refuses it, before anything runs.
if [ -e "$out" ] && { [ ! -d "$out" ] || [ -n "$(ls -A "$out")" ]; }; then fail "$out is not empty: name a new folder by --out"; fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
keep() { mkdir -p "$out" && cp "$scratch"/rules.* "$out"; }

# On GitHub a finding stands beside the merge request's files: lines of a text that begin with a word, as annotations.
annotate() {
  [ "${GITHUB_ACTIONS:-}" = true ] || return 0
  local text file=${libraries[1]//%/%25}
  file=${file//:/%3A} file=${file//,/%2C}
  while IFS= read -r text; do
    printf '::error file=%s,title=allocmark gate::%s\n' "$file" "${text//%/%25}"
  done < <(sed -n "s/^$1  *//p" | sed 's/   */: /g')
}

# The rules first: what an allocator that breaks one costs, says nothing.
rules=0
"$allocmark" conformance "$new,$named" --baseline "$base,$named" "${waivers[@]}" --junit "$scratch/rules.xml" \
  >"$scratch/rules.txt" || rules=$?
cat "$scratch/rules.txt"
case $rules in 0 | 1) ;; *) exit $rules ;; esac
annotate FAIL <"$scratch/rules.txt"
if [ $rules = 1 ] && [ $all = no ]; then
  keep
  cp "$scratch/rules.xml" "$out/junit.xml"
  echo "FAILED: the new build breaks rules that the old one keeps; its times are not compared (--all compares them as well)"
  exit 1
fi

side() { echo "pluggable=library:$1,$symbols"; }

# Both builds in turn, so that what disturbs the machine disturbs both.
mkdir -p "$(dirname "$out")"
code=0
"$allocmark" run --device sim:h200 --ab "$(side "$base")" "$(side "$new")" "${cells[@]}" --rounds "$rounds" \
  --rounds-max "$rounds_max" --policy "$policy" --out "$out" || code=$?
# Anything else than a verdict has been said by now.
case $code in 0 | 1 | 3) ;; *) exit $code ;; esac
keep

"$allocmark" compare "$out" --policy "$policy" --format junit --force --out "$out/junit.xml" >/dev/null || [ $? = $code ]
# For people; where its Python packages are missing the page is left out, which changes no verdict.
"$allocmark" report "$out/B" --baseline "$out" --policy "$policy" >"$out/report.txt" 2>&1 || cat "$out/report.txt" >&2
[ ! -e "$out/B/report.html" ] || cp "$out/B/report.html" "$out/report.html"
if [ $rules = 1 ]; then
  echo "FAILED: the new build breaks rules that the old one keeps"
  code=1
fi
annotate worse <"$out/comparison.txt"
if [ -n "$history" ]; then
  drift=0
  "$allocmark" compare "$out" --policy "$policy" --format json >"$scratch/comparison.json" || [ $? = $code ]
  python3 "$here/drift.py" "$history" "$scratch/comparison.json" --passed $((code == 0)) >"$scratch/drift.txt" || drift=$?
  cat "$scratch/drift.txt"
  annotate drifted <"$scratch/drift.txt"
  cp "$scratch/drift.txt" "$out/drift.txt"
  case $drift in 0) ;; 1) [ $code != 0 ] || code=1 ;; *) exit $drift ;; esac
fi
exit $code
