#!/usr/bin/env bash
# Two sides in turn, confirmation and passes until an interval is narrow, as a user meets them. Checks only; no assertion is
# about time: what depends on it is left out by policy. Usage: two_sides_test.sh PATH_OF_ALLOCMARK
. "${BASH_SOURCE[0]%/*}/../../support/user_session.sh"

two_sides() {
  local run=(run --workload gpt2_train_amp --device sim:h200 --passes 1 --rounds 2 --rounds-max 2 --policy "$work/exact.json")
  local plugin="library:$PACED_PLUGGABLE,free:base_free,trim:paced_trim"
  echo '{"scope":"exact"}' >"$work/exact.json"
  echo '{"scope":"exact","fail_on_changed":true}' >"$work/placements.json"
  expect 0 "passed" "${run[@]}" --ab caching caching --out "$work/ab"
  for file in interleaved.json rounds.jsonl conditions.json comparison.txt comparison.json A/report.md B/results.jsonl; do
    [ -s "$work/ab/$file" ] || fail "run --ab: $file is missing"
  done
  [ "$(wc -l <"$work/ab/rounds.jsonl")" = 4 ] || fail "run --ab: not two rounds of two sides"
  [ "$(grep -c '"in_turns":true' "$work/ab/rounds.jsonl")" = 4 ] || fail "run --ab: the sides' passes do not alternate"
  expect 0 "passed" "${run[@]}" --ab caching caching --turns process --out "$work/apart"
  [ "$(grep -c '"in_turns":false' "$work/apart/rounds.jsonl")" = 4 ] || fail "run --ab --turns process: passes alternate"
  expect 2 "--turns" "${run[@]}" --ab caching caching --turns never --out "$work/none"
  expect 0 "rounds of 3 to 16 passes" run --workload gpt2_train_amp --device sim:h200 --ab caching caching --dry-run
  expect 0 "rounds of 1 to 1 passes" "${run[@]}" --ab caching caching --dry-run
  expect 0 "1 cells compared" compare "$work/ab" --only exact
  for format in json junit github bencher; do
    expect 0 "gpt2_train_amp" compare "$work/ab" --only exact --format $format
  done
  expect 1 "failed requests" "${run[@]}" --capacity 1.05x --ab max_split_size_mb:128 unset --out "$work/abconf"
  expect 1 "failed requests" compare "$work/abconf" --only exact
  expect 1 "oom_count" compare "$work/abconf" --only exact --details
  expect 1 "B: native [unset]" "${run[@]}" --ab caching native --out "$work/aballocator"
  # A single block that lies elsewhere is found, every time.
  expect 0 "placements differ" "${run[@]}" --ab "pluggable=$plugin,malloc:base_malloc" "pluggable=$plugin,malloc:moved_malloc" --out "$work/moved"
  expect 1 "placements differ" compare "$work/moved" --policy "$work/placements.json"
  # ... and named, also when the folder is read again.
  expect 0 "differ first at request 3 " compare "$work/moved" --only exact
  # Programs: this one under two names.
  printf '#!/bin/sh\nexec %s "$@"\n' "$allocmark" >"$work/one.sh"
  cp "$work/one.sh" "$work/other.sh" && chmod +x "$work/one.sh" "$work/other.sh"
  expect 0 "passed" "${run[@]}" --allocator native caching --ab "$work/one.sh" "$work/other.sh" --out "$work/abprogram"
  expect 0 "2 pairs of cells" "${run[@]}" --allocator native caching --ab "$work/one.sh" "$work/other.sh" --dry-run

  # What starts a side may close the socket for turns: then the processes run one after the other.
  printf '#!/bin/sh\nexec %s "$@" 4>&-\n' "$allocmark" >"$work/closes.sh" && chmod +x "$work/closes.sh"
  expect 0 "passed" "${run[@]}" --ab "$work/one.sh" "$work/closes.sh" --allocator caching --out "$work/closed"
  [ "$(grep -c '"in_turns":false.*"pass_count":1,' "$work/closed/rounds.jsonl")" = 4 ] || fail "run --ab: a side without a socket does not run by itself"

  expect 2 "--ab" "${run[@]}" --ab caching
  expect 2 "no such program" "${run[@]}" --ab "$work/nothing" "$work/one.sh" --out "$work/none"
  expect 4 "does not work" "${run[@]}" --ab "$work/one.sh" /bin/true --out "$work/none"
  expect 2 "different cells" "${run[@]}" --allocator caching native --ab unset max_split_size_mb:32 --out "$work/none"
  expect 2 "max_split_size_mb" "${run[@]}" --ab max_split_size:1 unset --out "$work/none"
  expect 2 "--resume" "${run[@]}" --ab caching native --resume --out "$work/ab"
  expect 2 "table or json" "${run[@]}" --ab caching native --format csv --out "$work/none"
  [ ! -e "$work/none" ] || fail "a folder was made for a run that cannot be"
  expect 2 "not empty" "${run[@]}" --ab caching caching --out "$work/ab"
  expect_of_broken crash:native 1 "SIGSEGV" "${run[@]}" --ab caching native --out "$work/abcrash"
  # Nothing is compared with a side A that died, which is no pass.
  expect_of_broken crash:caching 3 "not comparable" "${run[@]}" --ab caching native --out "$work/abdead"
  expect 1 "SIGSEGV" compare "$work/abcrash" --only exact

  # The report of the folder is that of side B held against side A, by the rounds.
  rm -f "$work/ab/B/report.md" "$work/ab/A/table.csv"
  cp "$work/ab/comparison.json" "$work/comparison.json"
  expect 0 "$work/ab/comparison.txt" report "$work/ab" --no-html
  for file in A/table.csv B/report.md; do [ -s "$work/ab/$file" ] || fail "report of an A/B run: $file is missing"; done
  cmp -s "$work/ab/comparison.json" "$work/comparison.json" || fail "report of an A/B run changes its verdicts"
  expect 0 "1 cells compared" report "$work/ab" --format table --policy "$work/exact.json"
  expect 0 '"passed": true' report "$work/ab" --format json --policy "$work/exact.json"
  "$allocmark" report "$work/ab" --format facts >"$work/facts"
  "$allocmark" report "$work/ab/B" --baseline "$work/ab" --format facts | cmp -s - "$work/facts" || fail "report AB is not report AB/B --baseline AB"
  expect 2 "report $work/ab/B --format csv" report "$work/ab" --format csv
  expect 2 "allocmark report $work/ab" report "$work/ab/A" --baseline "$work/ab" --format facts

  cp -r "$work/ab" "$work/abbad"
  head -c -99 "$work/ab/rounds.jsonl" >"$work/abbad/rounds.jsonl"
  expect 3 "still being written" compare "$work/abbad" --only exact
  sed '2s/"side":[01]/"side":5/' "$work/ab/rounds.jsonl" >"$work/abbad/rounds.jsonl"
  expect 2 "rounds.jsonl:2" compare "$work/abbad" --only exact
  head -2 "$work/ab/rounds.jsonl" >"$work/abbad/rounds.jsonl"
  expect 3 "broken off" compare "$work/abbad" --only exact
  head -1 "$work/ab/rounds.jsonl" >"$work/abbad/rounds.jsonl"
  expect 3 "the cell is missing" compare "$work/abbad" --only exact
  : >"$work/abbad/rounds.jsonl"
  expect 3 "nothing was compared" compare "$work/abbad" --only exact
  rm "$work/abbad/rounds.jsonl"
  expect 6 "rounds.jsonl" compare "$work/abbad" --only exact
}

# Suspects are run again. The suspects here are damage, which does not come again.
confirmation() {
  local run=(run --workload gpt2_train_amp --allocator caching native --device sim:h200 --passes 2 --no-verify)
  local compare=(compare "$work/base" --only exact --confirm)
  expect 0 "2 ok" "${run[@]}" --out "$work/base"
  expect 0 "2 ok" "${run[@]}" --out "$work/new"
  sed -E 's/"reserved_bytes_peak":[0-9]/&9/' "$(results new)" >"$work/worse.jsonl"
  expect 2 "the same run" compare "$work/base" "$work/base"
  expect 2 "the same run" compare "$work/base/results.jsonl" "$work/base/../base/results.jsonl"
  expect 0 "nothing was run again" "${compare[@]}" "$work/new"
  cp -r "$work/new" "$work/suspect" && cp "$work/worse.jsonl" "$(results suspect)"
  expect 1 "reserved_bytes_peak" compare "$work/base" "$work/suspect" --only exact --details
  expect 0 "did not come again" "${compare[@]}" "$work/suspect" --confirm-out "$work/confirmed"
  [ -s "$work/confirmed/rounds.jsonl" ] || fail "compare --confirm stores no rounds"
  expect 0 "did not come again" "${compare[@]}" "$work/suspect" --base-program "$work/one.sh" --confirm-out "$work/confirmed2"
  expect 2 "plan.json" "${compare[@]}" "$work/worse.jsonl"
  expect 2 "no such program" "${compare[@]}" "$work/suspect" --new-program "$work/nothing"
  sed -i -E 's/("hash": ")[0-9a-f]{16}/\10123456789abcdef/' "$work/suspect/plan.json"
  expect 2 "--new-program PATH" "${compare[@]}" "$work/suspect"
  grep -qF "built anew" "$work/err" || fail "compare --confirm runs another program than the one recorded"
  sed -i -E '/"hash"|"path"/d; s/"program": \{/"program": null,/; /^ \},$/d' "$work/suspect/plan.json"
  expect 2 "plan.json" "${compare[@]}" "$work/suspect"
}

until_width() {
  local run=(run --workload gpt2_train_amp --allocator native --device sim:h200 --no-verify)
  expect 2 "--until-width" "${run[@]}" --until-width 0%
  expect 2 "--until-width" "${run[@]}" --until-width narrow
  expect 0 "1 ok" "${run[@]}" --until-width 900% --out "$work/wide"
  grep -qF '"pass_count":10' "$(results wide)" || fail "--until-width does not end at the first look"
  expect 0 "1 ok" "${run[@]}" --until-width 0.00001% --passes-max 12 --out "$work/narrow"
  grep -qF '"pass_count":12' "$(results narrow)" || fail "--until-width does not go on to --passes-max"
  grep -qF 'until-width was not reached' "$(results narrow)" || fail "an interval that stays wide is not named"
  expect 2 "until width" "${run[@]}" --until-width 5% --resume --out "$work/narrow"
  for field in wall_s other_cpu_count steal_share load_average_begin throttled_s warnings; do
    grep -qF "\"$field\"" "$work/wide/conditions.json" || fail "conditions.json has no $field"
  done
  # Warnings of the time after the first line are shown wherever the environment's are.
  echo '{"warnings":["a neighbour was loud"]}' >"$work/wide/conditions.json"
  expect 0 "report:" report "$work/wide" --no-html
  grep -qF "a neighbour was loud" "$work/wide/report.md" || fail "report.md does not show the conditions' warnings"
  expect 0 "a neighbour was loud" compare "$work/wide" "$work/narrow" --only exact
  grep -qF "another number of passes" "$work/out" || fail "compare does not say that the plans differ"
  echo '{' >"$work/wide/conditions.json"
  expect 2 "conditions.json" compare "$work/wide" "$work/narrow"
}

run_parts two_sides confirmation until_width
