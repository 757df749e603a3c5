#!/usr/bin/env bash
# The program as a user meets it: exit codes and messages for good and bad command lines, and runs that crash, hang, are
# interrupted, resumed and repeated. Checks only; no assertion is about time. Usage: cli_test.sh PATH_OF_ALLOCMARK
. "${BASH_SOURCE[0]%/*}/../../support/user_session.sh"
set -m # Background jobs then get Ctrl-C as in a terminal.

small=(run --workload gpt2_train_amp --allocator null native --device sim:h200 --passes 1 --no-verify)
cell_count() { grep -c '"kind":"cell"' "$(results "$1")"; }

help_and_usage() {
  expect 0 "Examples" --help
  expect 0 "allocmark 0" --version
  for subcommand in list run trace explain report compare parity qualify merge ranks threads profile simcheck fidelity; do
    expect 0 "Usage" $subcommand --help
  done
  expect 2 "--help"
  expect 2 "did you mean 'run'" rnu
  expect 2 "did you mean '--workload'" run --worklaod gpt2_train_amp
  expect 2 "stray" run stray
  expect 2 "--on-oom" run --on-oom panic
  expect 2 "--passes" run --passes 0
  expect 2 "--jobs" run --jobs 0
  expect 2 "--jobs" run --jobs many
  expect 2 "--out DIR" run --resume
  expect 2 "not for use by hand" cell
  expect 2 "not for use by hand" cell x y z
}

unknown_names() {
  expect 2 "gpt2_train_amp" run --workload gpt2_trian_amp
  expect 2 "caching" run --workload gpt2_train_amp --allocator cachnig
  expect 2 "sim:h200" run --workload gpt2_train_amp --device sim:h20
  expect 2 "cuda:N" run --workload gpt2_train_amp --device gpu0
  expect 2 "default" run --suite defualt
  expect 2 "scenario" run --scenario no_such_scenario
  expect 2 "capacity" run --workload gpt2_train_amp --capacity 2y
  expect 2 "i/n" run --workload gpt2_train_amp --shard 3/2
  expect 2 "--seeds" run --workload gpt2_train_amp --seeds 5-3
  expect 6 "nothing_here" run --workload file:nothing_here.csv
  expect 2 "caching" explain --allocator cachnig max_split_size_mb:128
  expect 6 "none" report "$work/none"
  expect 6 "none" report "$work/none" --latex "$work/none.tex"
}

parity() {
  local goldens=tests/golden/caching trace=gpt2_train_amp
  expect 2 "--live" parity $trace
  mkdir "$work/nothing_in_it"
  expect 2 "no goldens" parity $trace "$work/nothing_in_it"
  mkdir -p "$work/goldens"
  tar xzf $goldens/$trace.tar.gz -C "$work/goldens"
  local folder=$work/goldens/$trace
  expect 0 "51 of 51 cells equal" parity $trace "$folder"
  expect 0 "51 of 51 cells equal" parity --device-addresses $trace "$folder"
  expect 0 "1 of 1 cells equal" parity $trace "$folder/C00_all.txt" --conf unset
  expect 1 "0 of 1 cells equal" parity $trace "$folder/C00_all.txt" --conf max_split_size_mb:32
  cp "$folder/C00_all.txt" "$work/nameless.txt"
  expect 2 "C00 to C15" parity $trace "$work/nameless.txt"
  # Bad files are named as such, not reported as mismatches.
  expect 0 "51 of 51 cells equal" parity $trace $goldens/$trace.tar.gz
  for packed in fuzz_r1.tar.zst $trace.tar.gz; do
    head -c 5000 $goldens/$packed >"$work/short.${packed#*.}"
    expect 2 "mid-stream" parity $trace "$work/short.${packed#*.}"
    cp "$folder/C00_all.txt" "$work/plain.${packed#*.}"
    expect 2 "the archive is damaged" parity $trace "$work/plain.${packed#*.}"
  done
  head -n 100 "$folder/C00_all.txt" >"$work/C00_short.txt"
  expect 2 "cut short" parity $trace "$work/C00_short.txt"
  expect 2 "another trace" parity bert_varlen_infer "$folder/C00_all.txt"
  sed 's/^a /z /' "$folder/C00_all.txt" >"$work/C00_foreign.txt"
  expect 2 "another version" parity $trace "$work/C00_foreign.txt"
  # What a cell's allocator answered can be compared with in the same way.
  expect 0 "cells" run --workload $trace --allocator caching --device sim:h200 --passes 1 --out "$work/recorded" \
    --conf unset --conf expandable_segments:True --record-placements "$work/own"
  expect 0 "2 of 2 cells equal" parity $trace "$work/own"
}

traces_and_generators() {
  expect 0 "scenarios, folklore" list scenarios
  expect 0 "ten 1024 x 1024 fp32 tensors" list scenarios
  expect 0 "609 events" trace generate comb:count=100,rounds=3 "$work/comb.csv"
  expect 0 "609 events" trace convert "$work/comb.csv" "$work/comb.csv.zst"
  expect 0 "e14a8a5cc32ea11b" trace validate "$work/comb.csv" "$work/comb.csv.zst"
}

bad_config_strings() {
  local article='max_split_size_mb:128;garbage_interval:5'
  expect 2 "garbage_collection_threshold" run --workload gpt2_train_amp --conf "$article"
  grep -qF -e "';'" "$work/err" || fail "the wrong separator is not named"
  expect 2 "garbage_collection_threshold" explain "$article"
  expect 2 "max_split_size_mb" run --workload gpt2_train_amp --conf max_split_size:128
  expect 2 "max_split_size_mb" run --workload gpt2_train_amp --conf max_split_size_mb:zero
  expect 2 "--allocator caching" run --workload gpt2_train_amp --allocator native --conf caching=max_split_size_mb:128
  expect 2 "native" run --workload gpt2_train_amp --allocator native --conf max_split_size_mb:128
  expect 0 "max_split_size_mb" explain max_split_size_mb:128
  expect 0 "release_threshold_mb = 64" explain --allocator async release_threshold_mb:64
  expect 2 "release_threshold_mb" explain --allocator async release_treshold_mb:64
}

bad_traces() {
  printf 'op,id,size,stream\nalloc,1,512,0\nfree,1,0,0\nfree,1,0,0\n' >"$work/double_free.csv"
  expect 2 "double_free.csv:4" run --workload "file:$work/double_free.csv" --device sim:h200 --out "$work/bad"
  [ ! -e "$work/bad" ] || fail "a folder was made for a run that cannot be"
}

dry_run() {
  expect 0 "6 cells" run --workload gpt2_train_amp bert_varlen_infer --allocator null native caching --conf "" --device sim:h200 --dry-run
  expect 0 "6 cells" run --workload gpt2_train_amp bert_varlen_infer --allocator null native caching --device sim:h200 --dry-run
  expect 0 "left out: 4 combinations" run --workload gpt2_train_amp bert_varlen_infer --allocator null native caching \
    --conf unset --conf max_split_size_mb:128,garbage_collection_threshold:0.8 --device sim:h200 --dry-run
  expect 0 "3 cells" run --workload gpt2_train_amp bert_varlen_infer --allocator null native caching --device sim:h200 --shard 2/2 --dry-run
  expect 0 "120 cells on" run --suite default --device sim:h200 --dry-run
  expect 0 "7 cells on" run --suite smoke --device sim:h200 --dry-run
}

# The figures that must not depend on the machine or the moment.
steady_figures() {
  grep '"kind":"cell"' "$(results "$1")" | sort -t'"' -k4 |
    grep -oE '"(id|conf|allocator|status|placement_hash|trace_hash|modelled_driver_ns_total|oom_[a-z_]+|[a-z_]*bytes[a-z_]*|[a-z_]*driver_latency_ns_[a-z0-9]+|[a-z_]*_count)":("[^"]*"|[0-9.e+]+)' |
    grep -v '"host_taken_bytes"' | sort
}

same_run_twice() {
  local arguments=(run --workload gpt2_train_amp --allocator native async caching --capacity unlimited 1.05x --device sim:h200 --passes 1)
  expect 0 "report:" "${arguments[@]}" --jobs 2 --out "$work/first"
  expect 0 "report:" "${arguments[@]}" --jobs 1 --out "$work/second"
  steady_figures first >"$work/first.txt"
  steady_figures second >"$work/second.txt"
  [ -s "$work/first.txt" ] || fail "no figures to compare"
  cmp -s "$work/first.txt" "$work/second.txt" || {
    diff "$work/first.txt" "$work/second.txt" | head >&2
    fail "the same run twice gives different figures"
  }
  for file in plan.json report.md table.txt table.csv google_benchmark.json; do
    [ -s "$work/first/$file" ] || fail "$file is missing"
  done
  expect 0 "report.html" report "$work/first"
  [ -s "$work/second/report.html" ] || fail "run made no page"
  expect 0 "report:" "${arguments[@]}" --timeline --out "$work/timed"
  [ "$(ls "$work/timed/timelines" | wc -l)" = "$(cell_count timed)" ] || fail "--timeline: not one file per cell"
  python3 -c 'import json, sys; [json.load(open(path)) for path in sys.argv[1:]]' "$work/timed/timelines/"*.json || fail "--timeline: no JSON"
  ALLOCMARK_PYTHON=/nowhere/python3 expect 6 "ALLOCMARK_PYTHON" report "$work/first"
  expect 0 "report:" report "$work/first" --no-html
  # A run is complete without its page: one line on stderr says why there is none, and the answer stays last.
  rm -f "$work/second/report.html"
  env PATH=/nowhere "$allocmark" report "$work/second" >"$work/out" 2>"$work/err" || fail "report without python3: not exit code 0"
  [ "$(grep -c "report.html: not made: python3 is not on the PATH" "$work/err")" = 1 ] || fail "report without python3: not one line"
  tail -n 1 "$work/out" | grep -q "^answer: gpt2_train_amp at 1.05x" || fail "the answer is not the last line"
  [ ! -e "$work/second/report.html" ] || fail "a page without python3"
  expect 0 "latex:" report "$work/first" --no-html --latex "$work/first.tex"
  grep -q toprule "$work/first.tex" || fail "report --latex: no table"
  expect 0 '"kind":"cell"' report "$work/first" --format json
  expect 2 "not empty" "${arguments[@]}" --out "$work/first"
  expect 2 "passes" "${arguments[@]}" --passes 2 --resume --out "$work/first"
}

unwritable_folders() {
  expect 6 "/dev/null/run" "${small[@]}" --out /dev/null/run
  expect 6 "/proc/allocmark" "${small[@]}" --out /proc/allocmark
}

broken_cells_and_resume() {
  expect_of_broken crash:native 3 "SIGSEGV" "${small[@]}" --out "$work/crash"
  [ "$(cell_count crash)" = 2 ] || fail "the other cell's result is missing"
  expect 0 "2 ok" run --resume --out "$work/crash"
  expect_of_broken garbage 3 "failed" "${small[@]}" --out "$work/garbage"
  expect_of_broken exit3 3 "gave up" "${small[@]}" --out "$work/exit3"
  expect_of_broken hang 3 "timed_out" "${small[@]}" --timeout 1 --out "$work/hang"
}

wait_for() {
  for _ in $(seq 600); do
    "$@" && return
    sleep 0.05
  done
  fail "never came true: $*"
}
has_cells() { [ -e "$(results "$1")" ] && [ "$(cell_count "$1")" -ge "$2" ]; }
children_of() { cat "/proc/$1/task/$1/children"; }
has_child() { [ -n "$(children_of "$1" 2>/dev/null)" ]; }
is_gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; }

# One cell hangs, so that the run is certain to be under way when it is interrupted.
interrupt_and_resume() {
  MISBEHAVE=hang:native LD_PRELOAD=$MISBEHAVING_RUNTIME "$allocmark" "${small[@]}" --capacity unlimited 1.05x 2x --jobs 2 --out "$work/int" \
    >"$work/out" 2>"$work/err" &
  local run=$! code
  wait_for has_cells int 1
  wait_for has_child $run
  local cells
  cells=$(children_of $run)
  kill -INT $run
  wait $run
  code=$?
  [ $code = 3 ] || fail "an interrupted run ends with $code, wanted 3"
  grep -qF -e "--resume --out $work/int" "$work/err" || fail "an interrupted run does not say how to go on"
  for cell in $cells; do
    is_gone "$cell" || fail "cell $cell outlives the interrupted run"
  done
  local before
  before=$(cell_count int)
  expect 0 "6 ok" run --resume --out "$work/int"
  [ "$(cell_count int)" = 6 ] || fail "resume made $(cell_count int) cells of 6 (before: $before)"
}

killed_run_leaves_no_cells() {
  MISBEHAVE=hang LD_PRELOAD=$MISBEHAVING_RUNTIME "$allocmark" "${small[@]}" --jobs 2 --out "$work/killed" >"$work/out" 2>"$work/err" &
  local run=$! cells
  wait_for has_child $run
  cells=$(children_of $run)
  kill -KILL $run
  wait $run 2>/dev/null
  for cell in $cells; do
    wait_for is_gone "$cell"
  done
}

pluggable_libraries() {
  local run=(run --workload gpt2_train_amp --device sim:h200 --passes 1)
  expect 2 "no such file" "${run[@]}" --allocator pluggable:nothing.so --out "$work/none"
  expect 2 "does not load" "${run[@]}" --allocator "pluggable:$work/out" --out "$work/none"
  expect 2 "no function m" "${run[@]}" --allocator "pluggable:$PLUGGABLE_EXAMPLE,m,f" --out "$work/none"
  expect 2 "too many values" "${run[@]}" --allocator "pluggable:$PLUGGABLE_EXAMPLE,a,b,c" --out "$work/none"
  expect 2 "no library is named" "${run[@]}" --allocator pluggable --out "$work/none"
  expect 2 "takes nothing after its name" "${run[@]}" --allocator native:x --out "$work/none"
  [ ! -e "$work/none" ] || fail "a folder was made for a run that cannot be"
  expect 0 "2 ok" "${run[@]}" --allocator native "pluggable:$PLUGGABLE_EXAMPLE" --out "$work/plug"
  expect 0 "ok" "${run[@]}" --allocator "pluggable:$FAULTY_PLUGGABLE,scribble_malloc,good_free" --no-verify --out "$work/plugoff"
  expect 3 "has changed bytes at offset" "${run[@]}" --allocator "pluggable:$FAULTY_PLUGGABLE,scribble_malloc,good_free" \
    --verify whole --out "$work/plugwhole"
  expect 2 "--verify" "${run[@]}" --allocator native --verify all --out "$work/none"
  expect 2 "--no-verify" "${run[@]}" --allocator native --verify whole --no-verify --out "$work/none"
  expect 3 "SIGABRT" "${run[@]}" --allocator native "pluggable:$FAULTY_PLUGGABLE,crash_malloc,good_free" --out "$work/plugcrash"
  expect 3 "never overlap" "${run[@]}" --allocator native "pluggable:$FAULTY_PLUGGABLE,overlap_malloc,never_free" --out "$work/plugbad"
}

# Two runs of the same thing have the same exact numbers; what else differs here is damage.
compare_runs() {
  local run=(run --workload gpt2_train_amp --allocator caching native --device sim:h200 --passes 2 --no-verify)
  expect 0 "2 ok" "${run[@]}" --out "$work/base"
  expect 0 "2 ok" "${run[@]}" --out "$work/new"
  expect 0 "passed" compare "$work/base" "$work/new" --only exact
  expect 0 "2 cells compared" compare "$work/base" "$(results new)" --only exact
  for format in json junit github bencher; do
    expect 0 "gpt2_train_amp" compare "$work/base" "$work/new" --only exact --format $format
    expect 0 "passed" compare "$work/base" "$work/new" --only exact --format $format --force --out "$work/compared"
    [ -s "$work/compared" ] || fail "compare --out writes nothing as $format"
  done
  sed -E 's/"reserved_bytes_peak":[0-9]/&9/' "$(results new)" >"$work/worse.jsonl"
  expect 1 "reserved_bytes_peak" compare "$work/base" "$work/worse.jsonl" --details
  echo '{"report_only":["reserved_bytes_peak"]}' >"$work/policy.json"
  expect 0 "reserved_bytes_peak" compare "$work/base" "$work/worse.jsonl" --only exact --details --policy "$work/policy.json"
  echo '{"report_onyl":[]}' >"$work/policy.json"
  expect 2 "report_onyl" compare "$work/base" "$work/worse.jsonl" --policy "$work/policy.json"
  expect 2 "BASE NEW" compare "$work/base"
  expect 2 "--min-effect" compare "$work/base" "$work/new" --min-effect lots
  expect 2 "too few cells" compare --calibrate "$work/calibration.json" "$work/base" "$work/new"
  expect 6 "none" compare "$work/base" "$work/none"
  # A part of the very run: two runs of one thing can differ in time.
  head -2 "$(results base)" >"$work/short.jsonl"
  expect 3 "the cell is missing" compare "$work/base" "$work/short.jsonl"
  head -1 "$(results base)" >"$work/short.jsonl"
  expect 3 "nothing was compared" compare "$work/base" "$work/short.jsonl"
  head -c -200 "$(results base)" >"$work/torn.jsonl"
  expect 3 "still being written" compare "$work/base" "$work/torn.jsonl"
  sed 's/"schema_version":"1/"schema_version":"2/' "$(results new)" >"$work/other.jsonl"
  expect 2 "schema version" compare "$work/base" "$work/other.jsonl"
  sed '2s/"oom_count":0/"oom_count":-1/' "$(results new)" >"$work/corrupt.jsonl"
  expect 2 "oom_count" compare "$work/base" "$work/corrupt.jsonl"
  cp "$(results new)" "$work/twice.jsonl" && tail -1 "$(results new)" >>"$work/twice.jsonl"
  expect 0 "more than once" compare "$work/base" "$work/twice.jsonl" --only exact
}

# What the program prints and writes; what it finds is qualify_test's matter.
qualify_gpus() {
  local qualify=(qualify --device sim:h200)
  expect 0 "exit code 0" "${qualify[@]}" --gpus 2 --out "$work/qualified"
  for file in qualify.txt qualify.json qualify.xml tests.jsonl allocmark_qualify.prom; do
    [ -s "$work/qualified/$file" ] || fail "qualify --out writes no $file"
  done
  expect 0 '"verdict": "PASS"' "${qualify[@]}" --format json
  expect 0 '<testsuite name="node"' "${qualify[@]}" --format junit
  expect 0 "capacity.share" qualify --print-thresholds
  echo '{"capacity.share": {"min": {"fail": 1.5}}}' >"$work/thresholds.json"
  expect 1 "wanted at least 1.5 (capacity.share)" "${qualify[@]}" --thresholds "$work/thresholds.json"
  echo '{"capacity.shard": {"min": {"fail": 1.5}}}' >"$work/thresholds.json"
  expect 2 "did you mean 'capacity.share'" "${qualify[@]}" --thresholds "$work/thresholds.json"
  expect 6 "none" "${qualify[@]}" --thresholds "$work/none"
  expect 6 "none" "${qualify[@]}" --baseline "$work/none"
  expect 2 "no baseline" "${qualify[@]}" --baseline "$work/thresholds.json"
  expect 2 "--fail-on" "${qualify[@]}" --fail-on skip
  expect 2 "--one-line" "${qualify[@]}" --one-line --format json
  expect 2 "--time-budget" "${qualify[@]}" --time-budget 0
  expect 2 "did you mean 'long'" "${qualify[@]}" --level lnog
  expect 2 "sim:h200" qualify --device sim:h20
  expect 2 "--gpus" qualify --device cuda:0 --gpus 2
  expect 2 "--gpus" "${qualify[@]}" --gpus 17
  expect 4 "no GPU to qualify" qualify --device cuda:999
  : >"$work/file"
  expect 6 "file/folder" "${qualify[@]}" --out "$work/file/folder"
  SIMCUDA_GPU_FAULTS=0:foreign_bytes=1000000 expect 4 "not tried" "${qualify[@]}"
  SIMCUDA_GPU_FAULTS=0:no_such_key=1 expect 4 "SIMCUDA_GPU_FAULTS" "${qualify[@]}"
}

profiles_and_kernels() {
  local other=(run --workload gpt2_train_amp --allocator null native --passes 1 --no-verify)
  mkdir -p "$work/profiles"
  expect 0 "use it with: --device sim:" profile --device sim:h200 --repeats 1 --out "$work/profiles/mine.json"
  expect 2 "there is no device 'sim:mine'" "${other[@]}" --device sim:mine --out "$work/mine"
  ALLOCMARK_PROFILES=$work/profiles expect 0 "2 ok" "${other[@]}" --device sim:mine --out "$work/mine"
  expect 0 "2 ok" "${other[@]}" --device "sim:$work/profiles/mine.json" --out "$work/mine_by_path"
  expect 6 "does not exist" profile --device sim:h200 --out "$work/nowhere/mine.json"
  expect 2 "there is no device" profile --device sim:h2000 --out "$work/mine.json"
  expect 2 "--out" profile --device sim:h200
  expect 2 "--repeats" profile --device sim:h200 --repeats 0 --out "$work/mine.json"
  sed 's/"schema": 3/"schema": 2/' "$work/profiles/mine.json" >"$work/old.json"
  expect 2 "schema: wanted 3, got 2" "${other[@]}" --device "sim:$work/old.json" --out "$work/old"
  expect 0 "2 ok" "${small[@]}" --kernels 20us --out "$work/busy"
  grep -q '"kernel_ns_total":136060000' "$(results busy)" || fail "a kernel of 20 us after each of 6803 requests is not there"
  expect 2 "says nothing about kernels" "${small[@]}" --kernels often --out "$work/often"
}

servers_on_cards() {
  local server=(run --workload serve:gpt2-124m,requests=8 --allocator null --passes 1 --no-verify)
  for card in l4 h200 b200; do expect 0 "1 ok" "${server[@]}" --device "sim:$card" --out "$work/on_$card"; done
  grep -q '"workload_definition":"serve:gpt2-124m,requests=8,tflops=121,bandwidth=300"' "$(results on_l4)" || fail "the L4's figures are not in its results"
  ! grep -q 'tflops=' "$(results on_h200)" || fail "an H200's figures are the preset and need not be said"
  python3 - "$(results on_l4)" "$(results on_h200)" "$(results on_b200)" <<'END' || fail "request P99 does not follow the card"
import json, sys
p99 = [json.loads(line)["requests"]["ideal_latency_ns_p99"] for path in sys.argv[1:] for line in open(path) if '"kind":"cell"' in line]
sys.exit(not (p99[0] > 2 * p99[1] and p99[1] > p99[2]))
END
}

run_parts servers_on_cards help_and_usage unknown_names parity traces_and_generators bad_config_strings bad_traces dry_run same_run_twice unwritable_folders \
  broken_cells_and_resume interrupt_and_resume killed_run_leaves_no_cells pluggable_libraries compare_runs qualify_gpus profiles_and_kernels
