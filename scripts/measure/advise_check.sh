#!/usr/bin/env bash
# Runs the settings that `allocmark advise` searches on a GPU, so that its order can be held against
# measured cells: shipped recordings at 0.98x, 1.02x, 1.05x and 1.1x, each with every setting below.
# Takes about 2 minutes on an H200 and stops by itself after 150 s; what is done by then is kept.
# Usage: scripts/measure/advise_check.sh PROGRAM FOLDER [DEVICE [WORKLOAD@CAPACITY ...]]     (DEVICE: default cuda:0)
set -euo pipefail
if (($# < 2)); then
  echo "usage: $0 PROGRAM FOLDER [DEVICE [WORKLOAD@CAPACITY ...]]" >&2
  exit 2
fi
program=$1
folder=$2
device=${3:-cuda:0}
mkdir -p "$folder"
deadline=$((SECONDS + 145))
confs=(unset expandable_segments:True backend:cudaMallocAsync max_split_size_mb:32 max_split_size_mb:128
  max_split_size_mb:512 roundup_power2_divisions:8 "expandable_segments:True,roundup_power2_divisions:8")
arguments=()
for conf in "${confs[@]}"; do arguments+=(--conf "$conf"); done
pairs=("${@:4}")
# The capacity that divides the settings comes first.
((${#pairs[@]})) || pairs=(gpt2_train_amp@1.05x gpt2_train_amp@1.02x gpt2_train_amp@1.1x gpt2_train_amp@0.98x
  llama_ckpt_amp@1.05x llama_ckpt_amp@1.02x llama_lora_varlen_accum@1.05x llama_lora_varlen_accum@1.1x
  llama_ckpt_amp@1.1x llama_ckpt_amp@0.98x llama_lora_varlen_accum@1.02x llama_lora_varlen_accum@0.98x)
for pair in "${pairs[@]}"; do
  left=$((deadline - SECONDS))
  if ((left < 5)); then
    echo "time is up before $pair" >&2
    break
  fi
  code=0
  timeout "$left" "$program" run --workload "${pair%@*}" --capacity "${pair#*@}" --allocator caching "${arguments[@]}" \
    --device "$device" --passes 3 --verify off --no-html --out "$folder/$pair" >"$folder/$pair.txt" 2>&1 || code=$?
  echo "$pair: exit code $code, $SECONDS s"
done
