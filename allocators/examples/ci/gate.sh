#!/usr/bin/env bash
# Says whether a new build of an allocator plugin is worse than the one before, on the simulated GPU. README.md says how to use
# it in CI. In: two shared libraries with PyTorch's pluggable interface. Out, in the folder --out: junit.xml, report.html,
# comparison.txt, and the raw runs. Exit codes are those of 'allocmark compare': 0 passed, 1 worse, 3 a cell has no result.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<TEXT
usage: gate.sh [--out DIR] [--policy FILE] [--functions MALLOC,FREE] BASE.so NEW.so

  --out DIR                where everything goes [gate-results]; runs of BASE that it holds are used again
  --policy FILE            what a regression is [policy.json beside this script]
  --functions MALLOC,FREE  the library's two functions [my_malloc,my_free]
  ALLOCMARK                (environment) the program [allocmark]
TEXT
}

fail() {
  echo "gate.sh: $1" >&2
  exit 2
}

allocmark=${ALLOCMARK:-allocmark} out=gate-results policy=$here/policy.json functions=my_malloc,my_free
while [ $# -gt 0 ]; do
  case $1 in
    --out | --policy | --functions)
      [ $# -ge 2 ] || fail "$1 wants a value"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    -h | --help) usage && exit 0 ;;
    -*) fail "$1 is not known; see gate.sh --help" ;;
    *) break ;;
  esac
done
[ $# = 2 ] || fail "two libraries are wanted, BASE.so and NEW.so; see gate.sh --help"
for library in "$1" "$2"; do [ -r "$library" ] || fail "cannot read $library"; done
command -v "$allocmark" >/dev/null || fail "there is no program $allocmark; set ALLOCMARK"
base=$(realpath "$1") new=$(realpath "$2") policy=$(realpath "$policy") allocmark=$(realpath "$(command -v "$allocmark")")
mkdir -p "$out"
cd "$out"

# A cell is named by all that was asked for, the library's path included, so both builds run from the same path.
run() {
  local library=$1 folder=$2
  cp "$library" plugin.so.part && mv plugin.so.part plugin.so
  rm -rf "$folder.part"
  "$allocmark" run --device sim:h200 --passes 5 --out "$folder.part" \
    --workload gpt2_train_amp gpt2_train_ckpt bert_varlen_infer llama_generate --capacity unlimited 1.05x 1.25x \
    --allocator "pluggable:./plugin.so,$functions" >"$folder.log" 2>&1 || {
    local code=$?
    tail -n 30 "$folder.log" >&2
    # 3 is a cell without a result: the comparison says which, and fails.
    [ $code = 3 ] || exit $code
  }
  rm -rf "$folder" && mv "$folder.part" "$folder"
}

# Three runs of BASE: one to compare with, and all of them to see how far apart runs of the same thing come on this machine.
state=$({ cat "$base" && echo "$functions" && "$allocmark" --version; } | sha256sum)
if [ "$(cat base.sha256 2>/dev/null)" != "$state" ]; then
  rm -f base.sha256
  for i in 1 2 3; do run "$base" "base-$i"; done
  "$allocmark" compare --calibrate calibration.json base-1 base-2 base-3 >calibration.txt
  echo "$state" >base.sha256
fi
run "$new" new

code=0
"$allocmark" compare base-1 new --policy "$policy" --calibration calibration.json --format junit --out junit.xml >comparison.txt || code=$?
cat comparison.txt
# For people; where its Python packages are missing the page is left out, which changes no verdict.
"$allocmark" report new --baseline base-1 --policy "$policy" --calibration calibration.json >report.txt 2>&1 || cat report.txt >&2
[ ! -e new/report.html ] || cp new/report.html report.html
exit $code
