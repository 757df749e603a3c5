#!/usr/bin/env bash
# What decides the latency of memory calls on this machine: run.sh BUILD OUT. About three minutes on one GPU.
set -u
build=$1
out=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
tmp=$(mktemp -d)
cuda=$(sed -n 's/^CUDAToolkit_BIN_DIR[^=]*=//p' "$build/CMakeCache.txt" | head -1)/..
[ -e "$cuda/include/cuda.h" ] || cuda=/usr/local/cuda
include=$(grep -rl --include=cuda.h CUDA_VERSION "$cuda/include" "$build/cuda" "$build" 2>/dev/null | head -1)
gcc -O2 -fPIC -shared -I"$(dirname "$include")" "$here/calls.c" -o "$tmp/calls.so" -ldl || exit 1
gcc -O2 "$here/cpuspeed.c" -o "$tmp/cpuspeed" || exit 1
printf '#include <pthread.h>\n#include <unistd.h>\nstatic void*f(void*a){for(;;)pause();}\n__attribute__((constructor))static void g(void){pthread_t t;pthread_create(&t,0,f,0);}\n' > "$tmp/thread.c"
gcc -O1 -fPIC -shared "$tmp/thread.c" -o "$tmp/thread.so" -lpthread

{ lscpu; uname -a; cat /proc/loadavg /sys/kernel/mm/transparent_hugepage/enabled; nvidia-smi; ldd --version | head -1; cat /proc/self/status | grep -i cpus_allowed; cat /sys/devices/system/cpu/cpu*/topology/thread_siblings_list; } > "$out/machine.txt" 2>&1
"$tmp/cpuspeed" 15 > "$out/cpuspeed_1.txt"

allocmark=$build/bin/allocmark
cell() {  # label, LD_PRELOAD, prefix of the command, arguments
  local label=$1 preload=$2 prefix=$3
  shift 3
  rm -rf "$tmp/o"
  LD_PRELOAD=$preload $prefix "$allocmark" run --jobs 1 --timeout 60 --out "$tmp/o" "$@" > "$tmp/log.txt" 2>&1 || cat "$tmp/log.txt" >> "$out/errors.txt"
  while read -r line; do printf '{"label":"%s","t":%s,"line":%s}\n' "$label" "$(date +%s.%N)" "$line"; done < "$tmp/o/results.jsonl" >> "$out/ab.jsonl"
}
# Every call of the memory interface of some cells, one file per cell.
for workload in gpt2_train_amp bert_varlen_infer llama_lora_varlen_accum; do
  for capacity in unlimited 1.05x; do
    for what in "native --conf unset" "async --conf release_threshold_mb:max" "async --conf unset" "caching --conf expandable_segments:True" "caching --conf max_split_size_mb:32"; do
      name=${workload}_${capacity}_$(echo "$what" | tr -c 'a-z0-9\n' '_')
      rm -f "$tmp"/calls.*[0-9]
      CALLS_LOG=$tmp/calls cell "logged" "$tmp/calls.so" "" --workload $workload --capacity $capacity --allocator $what --passes 2 --device cuda:0
      biggest=$(for f in "$tmp"/calls.*[0-9]; do echo "$(tr -d '\000' < "$f" | wc -c) $f"; done | sort -n | tail -1 | cut -d' ' -f2)
      gzip -1 -c "$biggest" > "$out/$name.bin.gz"
    done
  done
done
"$tmp/cpuspeed" 15 > "$out/cpuspeed_2.txt"
# The same cells on the GPU and simulated, in turns: how much is the machine's own unrest, what does a second thread change.
for round in 1 2 3 4 5 6; do
  for workload in bert_varlen_infer gpt2_train_amp; do
    axes="--workload $workload --capacity unlimited --allocator caching thrust_pool null --conf unset --passes 4 --no-verify"
    cell gpu "" "" $axes --device cuda:0
    cell sim "" "" $axes --device sim:h200
    cell sim_thread "$tmp/thread.so" "" $axes --device sim:h200
    cell gpu_pinned "" "taskset -c 5" $axes --device cuda:0
    cell sim_thread_pinned "$tmp/thread.so" "taskset -c 5" $axes --device sim:h200
  done
done
"$tmp/cpuspeed" 15 > "$out/cpuspeed_3.txt"
rm -rf "$tmp"
du -sh "$out"
