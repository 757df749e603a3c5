#!/usr/bin/env bash
# Submits a run as an array of COUNT tasks, and the merge of what they found after the last of them has ended, however it ended.
#
#   scripts/fleet/slurm/submit_suite.sh OUT COUNT [options of 'allocmark run'...]
#   SBATCH_OPTIONS="--partition=gpu --gpus-per-task=1" scripts/fleet/slurm/submit_suite.sh OUT 8 --suite default
#
# Called again with the same words, it goes on: finished cells are not run again. Prints the numbers of the two jobs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] && [[ $2 =~ ^[1-9][0-9]*$ ]] || { echo "usage: submit_suite.sh OUT COUNT [options of 'allocmark run'...]" >&2; exit 2; }
out=$1 count=$2
mkdir -p "$out"
read -ra options <<<"${SBATCH_OPTIONS:-}"
array=$(sbatch --parsable "${options[@]}" --array="1-$count" --output="$out/shard_%a.log" "$here/suite.sbatch" "$@")
merge=$(sbatch --parsable "${options[@]}" --dependency="afterany:$array" --output="$out/merge.log" "$here/merge.sbatch" "$out" ${MERGE_OPTIONS:-})
echo "$array $merge"
