# For install_test.sh and package_test.sh: a work folder, checks, and a shell in which the source tree is gone.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1 cmake=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH ALLOCMARK_DATA ALLOCMARK_PROFILES SIMCUDA_PROFILE

fail() { echo "FAILED: $*" >&2; exit 1; }

# has FILE TEXT
has() { grep -qF -- "$2" "$1" || { tail -n 40 "$1" >&2; fail "no '$2' in $1"; }; }

# hidden COMMAND...: with an empty folder where the sources and the build folder were. Where this system lets nobody do
# that, only without being told of them: no_path_of_ours then says alone that nothing is read from there.
mkdir "$work/empty"
hidden() {
  if unshare -rm true 2>/dev/null; then
    unshare -rm sh -c 'mount --bind "$1" "$2" && shift 2 && cd / && exec "$@"' sh "$work/empty" "$root" "$@"
  else
    (cd / && "$@")
  fi
}

# no_path_of_ours FOLDER: no installed file names the source or the build folder.
no_path_of_ours() {
  ! grep -rlF -e "$root" -e "$build" "$1" || fail "these files name $root or $build"
}

# program_works PREFIX: what a user does first.
program_works() {
  local program=$1/bin/allocmark data=$work/out
  hidden "$program" list >"$work/list.txt" || fail "list"
  has "$work/list.txt" gpt2_train_amp
  has "$work/list.txt" sim:h200
  has "$work/list.txt" gpt2_generated # a scenario
  hidden "$program" qualify --print-thresholds >/dev/null || fail "qualify --print-thresholds"
  hidden "$program" run --workload gpt2_train_amp --allocator caching native --device sim:h200 --passes 1 \
    --out "$data" >"$work/run.txt" 2>&1 || { cat "$work/run.txt" >&2; fail "run"; }
  [ -s "$data/report.md" ] || fail "run made no report.md"
  hidden "$program" report "$data" >"$work/report.txt" 2>&1 || { cat "$work/report.txt" >&2; fail "report"; }
  ! grep -q "share/allocmark/report is not" "$work/report.txt" || fail "the report's scripts are not found"
}
