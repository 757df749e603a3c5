#!/usr/bin/env bash
# Goal: two runs never share a folder, and no cell is measured twice. Method: real processes at the same moment, some of
# which hold a folder open with a cell that hangs. Checks only; no assertion is about time. Usage: folders_test.sh PATH_OF_ALLOCMARK
. "${BASH_SOURCE[0]%/*}/../../support/user_session.sh"

program=$(realpath "$allocmark")
small=(run --workload gpt2_train_amp --allocator null native --device sim:h200 --passes 1 --no-verify)
sides=(run --workload gpt2_train_amp --device sim:h200 --passes 1 --rounds 2 --rounds-max 2 --policy "$work/exact.json" --ab caching caching)
echo '{"scope":"exact"}' >"$work/exact.json"
cell_count() { grep -c '"kind":"cell"' "$1"; }
# kept_count BEFORE AFTER: cells of one file that stand in the other as they were.
kept_count() { comm -12 <(grep '"kind":"cell"' "$1" | sort) <(grep '"kind":"cell"' "$2" | sort) | wc -l; }

# wait_for TEXT FILE: until the file holds the text; a minute at most.
wait_for() {
  local tries
  for tries in $(seq 600); do
    grep -qsF -e "$1" "$2" && return
    sleep 0.1
  done
  fail "$2 never says '$1'"
}

# holding FOLDER ARGUMENT...: starts a run that does not end by itself, and waits until it has the folder; $holder is its id.
holding() {
  local folder=$1
  shift
  MISBEHAVE=hang:${hanging:-native} LD_PRELOAD=$MISBEHAVING_RUNTIME "$allocmark" "$@" --out "$folder" >"$work/held" 2>&1 &
  holder=$!
  wait_for process "$folder/.lock"
}

end_holder() {
  kill -TERM "$holder"
  wait "$holder" 2>/dev/null
}

# at_once COUNT ARGUMENT...: that many of the same command at once, in $work; none may fail.
at_once() {
  local count=$1 pids=() pid
  shift
  for _ in $(seq "$count"); do
    (cd "$work" && exec "$program" "$@") >"$work/out" 2>"$work/err" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || fail "one of $count at once: exit code $?"; done
}

default_folders_are_each_ones_own() {
  at_once 6 "${small[@]}"
  local folders=("$work"/allocmark-results/*Z-run*)
  [ "${#folders[@]}" = 6 ] || fail "6 runs made ${#folders[@]} folders"
  for folder in "${folders[@]}"; do
    [ "$(cell_count "$folder/results.jsonl")" = 2 ] || fail "$folder: not the 2 cells of one run"
    [ ! -e "$folder/.lock" ] || fail "$folder: the lock is left"
  done
  at_once 3 "${sides[@]}"
  folders=("$work"/allocmark-results/*-ab*)
  [ "${#folders[@]}" = 3 ] || fail "3 A/B runs made ${#folders[@]} folders"
}

a_running_folder_is_refused() {
  holding "$work/busy" "${small[@]}"
  expect 4 "a run is writing to this folder" "${small[@]}" --out "$work/busy"
  expect 4 "process $holder on $(hostname), since 20" run --resume --out "$work/busy"
  end_holder
  # What was broken off is gone on with, and what was killed as well: no lock is stale.
  expect 0 "2 ok" run --resume --out "$work/busy"
  [ "$(cell_count "$work/busy/results.jsonl")" = 2 ] || fail "a cell was measured twice"
  expect 2 "not empty" "${small[@]}" --out "$work/busy"
  holding "$work/killed" "${small[@]}"
  wait_for title "$work/killed/plan.json"
  kill -KILL "$holder"
  wait "$holder" 2>/dev/null
  [ -e "$work/killed/.lock" ] || fail "a killed run took its lock with it: the test shows nothing"
  expect 0 "2 ok" run --resume --out "$work/killed"
}

one_of_many_gets_a_folder() {
  local codes
  for _ in 1 2 3 4 5 6; do
    (timeout 120 "$allocmark" "${small[@]}" --out "$work/one" >/dev/null 2>&1; echo $? >>"$work/codes") &
  done
  wait
  codes=$(grep -c '^0$' "$work/codes")
  [ "$codes" = 1 ] || fail "$codes of 6 runs got the same folder: $(tr '\n' ' ' <"$work/codes")"
  # The others came while it ran (4) or later (2).
  grep -qv '^[024]$' "$work/codes" && fail "exit codes $(tr '\n' ' ' <"$work/codes")"
  [ "$(cell_count "$work/one/results.jsonl")" = 2 ] || fail "cells of two runs in one folder"
}

many_resume_at_once() {
  MISBEHAVE=crash LD_PRELOAD=$MISBEHAVING_RUNTIME "$allocmark" "${small[@]}" --out "$work/again" >/dev/null 2>&1
  for _ in 1 2 3 4; do
    timeout 120 "$allocmark" run --resume --out "$work/again" >/dev/null 2>&1 &
  done
  wait
  expect 0 "2 ok" run --resume --out "$work/again"
  [ "$(grep -c '"status":"ok"' "$work/again/results.jsonl")" = 2 ] || fail "resumed at once: a cell was measured twice"
}

a_scenario_that_was_edited_is_measured_anew() {
  local scenario=$work/data/scenarios/mine/combed.toml
  local combed=(run --workload combed churn:live_bytes=1MiB,size_max=4KiB,events=1000 --allocator null native --device sim:h200 --passes 1 --no-verify)
  define() { printf '# mine\nworkload = "comb:%s"\n' "$1" >"$scenario"; }
  mkdir -p "${scenario%/*}"
  export ALLOCMARK_DATA=$work/data
  define count=4
  expect 0 "4 ok" "${combed[@]}" --out "$work/combed"
  cp -r "$work/combed" "$work/named"
  cp -r "$work/combed" "$work/before"
  expect 0 "4 ok" run --resume --out "$work/combed"
  [ "$(cell_count "$work/combed/results.jsonl")" = 4 ] || fail "a cell whose scenario is as before was measured again"
  define count=6
  expect 0 "the scenario 'combed' was edited since this run began" run --resume --out "$work/combed"
  [ "$(cell_count "$work/combed/results.jsonl") $(kept_count "$work/before/results.jsonl" "$work/combed/results.jsonl")" = "4 2" ] || fail "not just the 2 cells of the edited scenario were measured"
  expect 0 "4 ok" "${combed[@]}" --resume --out "$work/named"
  [ "$(grep -c 'comb:count=6' "$work/named/results.jsonl")" = 2 ] || fail "resumed with its axes, the edited scenario was not measured"
  expect 3 "the scenario 'combed' is not the same in both runs" compare "$work/before" "$work/combed"
  unset ALLOCMARK_DATA
}

# Its content is another and its work too; then its content alone.
a_trace_file_that_was_edited_is_measured_anew() {
  local trace=$work/job.csv
  local traced=(run --workload "file:$trace" churn:live_bytes=1MiB,size_max=4KiB,events=1000 --allocator null native --device sim:h200 --passes 1 --no-verify)
  write_trace() { printf 'op,id,size,stream\nalloc,1,%s,0\nfree,1,0,0\n' "$1" >"$trace"; }
  write_trace 4096
  expect 0 "4 ok" "${traced[@]}" --out "$work/traced"
  cp -r "$work/traced" "$work/axes"
  cp -r "$work/traced" "$work/first"
  expect 0 "4 ok" run --resume --out "$work/traced"
  [ "$(cell_count "$work/traced/results.jsonl")" = 4 ] || fail "a cell whose trace file is as before was measured again"
  write_trace 8192
  # One word of the note, which is wrapped: cells are measured "anew:".
  expect 0 "anew:" run --resume --out "$work/traced"
  [ "$(cell_count "$work/traced/results.jsonl") $(kept_count "$work/first/results.jsonl" "$work/traced/results.jsonl")" = "4 2" ] || fail "not just the 2 cells of the edited trace were measured"
  expect 0 "anew:" "${traced[@]}" --resume --out "$work/axes"
  expect 3 "the trace file differs: its content had hash" compare "$work/first" "$work/traced"
  cp -r "$work/traced" "$work/second"
  printf '# a remark\n' | cat - "$trace" >"$trace.new" && mv "$trace.new" "$trace"
  expect 0 "4 ok" "${traced[@]}" --out "$work/remark"
  expect 0 "the trace file of 'file:$trace' is not the same in both runs" compare "$work/second" "$work/remark" --policy "$work/exact.json"
}

two_sides_and_confirmations() {
  hanging=caching holding "$work/ab" "${sides[@]}"
  expect 4 "a run is writing to this folder" "${sides[@]}" --out "$work/ab"
  # A side has a folder of its own, made after the lock.
  wait_for title "$work/ab/A/plan.json"
  expect 4 "a run is writing to this folder" run --resume --out "$work/ab/A"
  end_holder
  local confirm=(compare "$work/base" "$work/new" --confirm --rounds 2 --rounds-max 2 --passes 1 --policy "$work/exact.json")
  expect 0 "1 ok" run --workload gpt2_train_amp --allocator caching --device sim:h200 --passes 1 --out "$work/base"
  # Another count in one result makes a suspect of the cell.
  cp -r "$work/base" "$work/new"
  sed -i '2s/"retry_count":[0-9]*/"retry_count":77/' "$work/new/results.jsonl"
  at_once 2 "${confirm[@]}"
  local folders=("$work"/new-confirm-*)
  [ "${#folders[@]}" = 2 ] || fail "2 confirmations made ${#folders[@]} folders"
  hanging=caching holding "$work/confirmed" "${sides[@]}"
  expect 4 "a run is writing to this folder" "${confirm[@]}" --confirm-out "$work/confirmed"
  end_holder
}

run_parts default_folders_are_each_ones_own a_running_folder_is_refused one_of_many_gets_a_folder many_resume_at_once \
  a_scenario_that_was_edited_is_measured_anew a_trace_file_that_was_edited_is_measured_anew two_sides_and_confirmations
