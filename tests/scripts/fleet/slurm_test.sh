#!/usr/bin/env bash
# The Slurm scripts on real Slurm daemons: four nodes on this machine, simulated GPUs, planted faults, a node that hangs, a task
# that is killed. Skipped where Slurm or munge is not installed (Debian: slurm-wlm munge). Usage: slurm_test.sh PATH_OF_ALLOCMARK
# [SEEDS]; with 1667 seeds the array has 10,002 cells.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
for tool in munged slurmctld slurmd sbatch scontrol; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool (Debian: slurm-wlm munge)"; exit 77; }
done
program=$(realpath "$1")
seeds=${2:-20}
cells=$((6 * seeds))
scripts=$(cd "$(dirname "$0")/../../../scripts/fleet/slurm" && pwd)
work=$(mktemp -d)
daemons=()
end() {
  kill "${daemons[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap end EXIT

fail() {
  echo "slurm_test: $*" >&2
  tail -n 30 "$work"/*.log "$work"/q/*.log "$work"/run/*.log 2>/dev/null >&2 || true
  exit 1
}

start_daemons() {
  local host first=$((20000 + $$ % 20000)) node
  host=$(hostname -s)
  mkdir -p "$work/state" "$work/spool"
  (umask 077 && head -c 32 /dev/urandom >"$work/key")
  chmod 700 "$work"
  cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$work/socket
CryptoType=crypto/munge
SlurmctldPort=$first
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=5
MinJobAge=3600
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((first + 1))-$((first + 4))] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
  export SLURM_CONF=$work/slurm.conf
  munged --foreground --force --key-file="$work/key" --socket="$work/socket" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/seed" >"$work/munged.out" 2>&1 &
  daemons+=($!)
  for _ in $(seq 100); do [ -S "$work/socket" ] && break || sleep 0.1; done
  slurmctld -D >"$work/slurmctld.out" 2>&1 &
  daemons+=($!)
  for node in 1 2 3 4; do
    mkdir -p "$work/spool/n$node"
    slurmd -D -N "n$node" >"$work/slurmd$node.out" 2>&1 &
    daemons+=($!)
  done
  for _ in $(seq 300); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" != 4 ] || return 0
    sleep 0.2
  done
  echo "skipped: Slurm's daemons do not come up here:"
  tail -n 5 "$work"/slurmctld.out "$work"/slurmd1.out
  exit 77
}

# What runs on a node: the program, with the GPUs of that node.
make_program() {
  cat >"$work/allocmark" <<WRAPPER
#!/usr/bin/env bash
export SIMCUDA_NODE=\${SLURMD_NODENAME:-}
if [ "\$1" = qualify ]; then
  case \$SIMCUDA_NODE in
  n2) export SIMCUDA_GPU_FAULTS="0:leak_every=7" ;;
  n4) exec sleep 1000 ;;
  esac
fi
exec "$program" "\$@"
WRAPPER
  chmod +x "$work/allocmark"
  export ALLOCMARK=$work/allocmark
}

wait_for() { # JOB SECONDS
  for _ in $(seq $((5 * $2))); do
    [ -n "$(squeue -h -j "$1" 2>/dev/null)" ] || return 0
    sleep 0.2
  done
  fail "job $1 did not end within $2 s"
}

exit_code_of() { scontrol show job "$1" | grep -o "ExitCode=[0-9]*" | head -1 | cut -d= -f2; }

qualify_nodes() {
  local job
  job=$(ALLOCMARK_NODE_LIMIT=20 sbatch --parsable --nodes=4 --output="$work/qualify.log" "$scripts/qualify.sbatch" "$work/q" --device sim:h200)
  wait_for "$job" 240
  [ "$(exit_code_of "$job")" = 1 ] || fail "qualify.sbatch ended with $(exit_code_of "$job"), wanted 1"
  [ "$(cat "$work/q/fleet/drain.txt")" = n2 ] || fail "to drain: $(cat "$work/q/fleet/drain.txt"), wanted n2"
  [ "$(cat "$work/q/fleet/retry.txt")" = n4 ] || fail "to try again: $(cat "$work/q/fleet/retry.txt"), wanted n4"
  grep -q "no_answer.*n4" "$work/q/fleet/fleet.txt" || fail "nobody says that n4 never answered"
  grep -q "4 nodes: 1 drain, 0 look, 1 retry, 0 watch, 2 use" "$work/q/fleet/fleet.txt" || fail "the counts of nodes"
}

# All cells in 4 shards; the second is killed when it has some of its.
run_suite() {
  local words array merge lines begin=$SECONDS limit=$((300 + cells))
  words=(--workload comb:count=4 churn:events=4000 sawtooth:teeth=2 --allocator caching native --seeds "$seeds" --passes 1 --device sim:h200 --allow-debug --jobs 1)
  read -r array merge <<<"$("$scripts/submit_suite.sh" "$work/run" 4 "${words[@]}")"
  for _ in $(seq $((600 + cells))); do
    lines=$(wc -l 2>/dev/null <"$work/run/shards/2/results.jsonl" || echo 0)
    [ "$lines" -lt $((2 + cells / 60)) ] || break
    sleep 0.1
  done
  scancel --signal=KILL --full "${array}_2" || fail "the second task ended before it could be killed"
  scancel "${array}_2" 2>/dev/null || true
  wait_for "$array" "$limit"
  wait_for "$merge" "$limit"
  [ "$(exit_code_of "$merge")" = 3 ] || fail "merge after a killed task ended with $(exit_code_of "$merge"), wanted 3: $(tail -3 "$work/run/merge.log")"
  grep -q "cells that no shard has" "$work/run/merge.log" || fail "the missing cells are not named"
  cp "$work/run/shards/2/results.jsonl" "$work/before.jsonl"
  read -r array merge <<<"$("$scripts/submit_suite.sh" "$work/run" 4 "${words[@]}")"
  wait_for "$array" "$limit"
  wait_for "$merge" "$limit"
  [ "$(exit_code_of "$merge")" = 0 ] || fail "merge ended with $(exit_code_of "$merge"), wanted 0: $(tail -3 "$work/run/merge.log")"
  grep -q "$cells of $cells cells, from 4 shards" "$work/run/merge.log" || fail "not $cells cells: $(tail -1 "$work/run/merge.log")"
  [ "$(tail -n +2 "$work/run/whole/results.jsonl" | grep -o '"cell_id":"[0-9a-f]*"' | sort -u | wc -l)" = "$cells" ] || fail "cells twice, or lost"
  [ "$(wc -l <"$work/run/whole/results.jsonl")" = $((cells + 1)) ] || fail "lines twice, or lost"
  # What the killed task had finished was not run again.
  head -c "$(wc -c <"$work/before.jsonl")" "$work/run/shards/2/results.jsonl" | cmp -s - <(head -n "$(grep -c . "$work/before.jsonl")" "$work/before.jsonl") ||
    [ "$(head -n 3 "$work/before.jsonl")" = "$(head -n 3 "$work/run/shards/2/results.jsonl")" ] || fail "finished cells were run again"
  echo "$cells cells, the second task killed with $lines lines: $((SECONDS - begin)) s, load $(cut -d" " -f1 /proc/loadavg)"
}

start_daemons
make_program
qualify_nodes
run_suite
echo "slurm_test: 4 nodes qualified, $cells cells of an array with a killed task"
