#!/usr/bin/env bash
# A run on its way to its readers, as a user does it: reports with a comparison, charts and tables, a bundle, its check, and
# what happens with bad input. Usage: report_and_bundle_test.sh PATH_OF_ALLOCMARK
. "${BASH_SOURCE[0]%/*}/../../support/user_session.sh"

run=(run --workload gpt2_train_amp --allocator caching native --capacity 1.05x --device sim:h200)
expect 0 "2 ok" "${run[@]}" --out "$work/base"
expect 0 "2 ok" "${run[@]}" --out "$work/new"

# conditions BUSY_PROCESSORS WARNINGS: the conditions.json of a run of ten seconds.
conditions() {
  echo "{\"kind\":\"conditions\",\"schema_version\":\"1.3.0\",\"wall_s\":10,\"other_cpu_count\":$1,\"warnings\":[$2]}"
}

# Whether the machine that runs this test is quiet must not decide it.
for folder in base new; do
  sed -i '1s/"warnings":\[[^]]*\]/"warnings":[]/' "$work/$folder/results.jsonl"
  conditions 0 "" >"$work/$folder/conditions.json"
done

reports() {
  expect 0 "report:" report "$work/new" --baseline "$work/base" --baseline "$work/base/results.jsonl"
  expect 0 '"kind":"report_facts"' report "$work/new" --format facts --baseline "$work/base"
  expect 0 "charts: " report "$work/new" --no-html --svg "$work/charts" --latex "$work/tables.tex"
  [ -s "$work/charts/experiment-1-latency.svg" ] || fail "report --svg: no chart"
  grep -q toprule "$work/tables.tex" || fail "report --latex: no table"
  expect 6 "nothing" report "$work/new" --baseline "$work/nothing"
  expect 6 "nothing" report "$work/new" --baseline "$work/base" --policy "$work/nothing"
  echo '{"effect_mni": 1}' >"$work/policy.json"
  expect 2 "effect_mni" report "$work/new" --baseline "$work/base" --policy "$work/policy.json"
  expect 6 "cannot be made" report "$work/new" --no-html --svg "$work/base/plan.json/x"
}

# The page of an A/B run's side has the verdicts of its rounds, and both settings of a pair.
turns() {
  expect 1 "failed requests" run --workload gpt2_train_amp --device sim:h200 --capacity 1.05x --passes 1 --rounds 3 --rounds-max 3 \
    --ab max_split_size_mb:128 unset --out "$work/ab"
  expect 0 '"interleaved":true' report "$work/ab/B" --baseline "$work/ab" --format facts
  expect 0 "report" report "$work/ab/B" --baseline "$work/ab"
  [ ! -e "$work/ab/B/report.html" ] || grep -q 'max_split_size_mb:128</code> → ' "$work/ab/B/report.html" || fail "a pair's settings are not both named"
  expect 2 "allocmark report $work/ab" report "$work/ab/A" --baseline "$work/ab"
  expect 0 "$work/ab/comparison.txt" report "$work/ab"
  [ ! -e "$work/ab/B/report.html" ] || cmp -s "$work/ab/B/report.html" "$work/ab/report.html" || fail "the page is not in the A/B run's folder"
  expect 2 "its side B" bundle "$work/ab/A" --baseline "$work/ab" --out "$work/d.tar"
  expect 0 "can be published" bundle "$work/ab/B" --baseline "$work/ab" --out "$work/e.tar"
  # A number of one round that was edited does not fit its histogram, and changes what is compared.
  tar -C "$work" -xf "$work/e.tar" && rm "$work/e.tar"
  sed -i '1s/"reserved_bytes_peak":[0-9]/&9/' "$work/allocmark-bundle/rounds.jsonl"
  expect 1 "BROKEN       hashes-match" check "$work/allocmark-bundle"
  (cd "$work/allocmark-bundle" && sha256sum $(ls | grep -v SHA256SUMS) >SHA256SUMS)
  expect 1 "BROKEN       verdicts-recomputed" check "$work/allocmark-bundle"
  head -c -100 "$work/allocmark-bundle/rounds.jsonl" >"$work/cut" && mv "$work/cut" "$work/allocmark-bundle/rounds.jsonl"
  expect 1 "BROKEN       results-whole" check "$work/allocmark-bundle"
  head -3 "$work/ab/rounds.jsonl" >"$work/allocmark-bundle/rounds.jsonl"
  expect 1 "1 rounds of side" check "$work/allocmark-bundle"
  rm -r "$work/allocmark-bundle"
}

bundles() {
  echo '{"calibration_required": false, "effect_min": 0.5}' >"$work/policy.json"
  expect 0 "can be published" bundle "$work/new" --baseline "$work/base" --policy "$work/policy.json" --out "$work/a.tar.zst"
  expect 0 "can be published" bundle "$work/new" --baseline "$work/base" --policy "$work/policy.json" --out "$work/b.tar.zst"
  cmp -s "$work/a.tar.zst" "$work/b.tar.zst" || fail "the same run gives two different bundles"
  expect 0 "verdicts-recomputed" check "$work/a.tar.zst"
  expect 0 '"publishable": true' check "$work/a.tar.zst" --format json
  expect 0 "can be published" bundle "$work/new" --out "$work/c.tar.gz"
  tar -C "$work" -xf "$work/c.tar.gz" || fail "tar cannot unpack a bundle"
  (cd "$work/allocmark-bundle" && sha256sum --quiet -c SHA256SUMS) || fail "sha256sum does not agree with SHA256SUMS"
  expect 0 "can be published" check "$work/allocmark-bundle"
  ln -s /etc/hostname "$work/allocmark-bundle/link"
  expect 1 "names-safe" check "$work/allocmark-bundle"
}

busy_machine() {
  cp -r "$work/new" "$work/busy"
  conditions 1000 '"other programs kept 1000.0 of 1 processors busy during the run"' >"$work/busy/conditions.json"
  sed -i '1s/"cpu_count":[0-9]*/"cpu_count":1/' "$work/busy/results.jsonl"
  "$allocmark" bundle "$work/busy" --out "$work/busy.tar" >"$work/out" 2>"$work/err"
  grep -q "every rule is kept" "$work/out" && fail "a run on a busy machine has no reservation"
  grep -qE "(reservation: )?other programs kept 1000.0 of 1 processors busy" "$work/out" || fail "a busy machine is not named"
  # With the words taken out the numbers still say it.
  conditions 1000 "" >"$work/busy/conditions.json"
  expect 1 "lacks the warning of its own numbers" bundle "$work/busy" --force --out "$work/busy.tar"
}

# As BUNDLES.md says: a stranger sees who made a bundle, and that it is the one that was signed.
signatures() {
  command -v ssh-keygen >/dev/null || return 0
  ssh-keygen -q -t ed25519 -N "" -f "$work/key" -C "" || fail "ssh-keygen makes no key"
  cp "$work/a.tar.zst" "$work/signed.tar.zst"
  ssh-keygen -q -Y sign -f "$work/key" -n allocmark "$work/signed.tar.zst" 2>/dev/null || fail "a bundle cannot be signed"
  echo "me@example.org $(cat "$work/key.pub")" >"$work/allowed_signers"
  local verify=(ssh-keygen -Y verify -f "$work/allowed_signers" -I me@example.org -n allocmark -s "$work/signed.tar.zst.sig")
  "${verify[@]}" <"$work/signed.tar.zst" >"$work/out" 2>&1 || fail "the signature of a bundle does not fit: $(cat "$work/out")"
  echo >>"$work/signed.tar.zst"
  "${verify[@]}" <"$work/signed.tar.zst" >/dev/null 2>&1 && fail "a bundle that was changed has a signature that fits"
  return 0
}

# What a bundle says of the machine and the person that made it.
privacy() {
  expect 0 "can be published" check "$work/c.tar.gz"
  tar -C "$work" -xOf "$work/c.tar.gz" allocmark-bundle/plan.json >"$work/plan"
  grep -q "\"path\": \"[^\"]*/" "$work/plan" && fail "the plan in a bundle has paths: $(grep path "$work/plan")"
  tar -C "$work" -xOf "$work/c.tar.gz" allocmark-bundle/results.jsonl >"$work/published"
  grep -q '"argv":\["allocmark","run"' "$work/published" || fail "the program's path is in the results"
  expect 0 "1 ok" run --workload "file:$(realpath tests/regressions/caching_destroyed_segment.csv)" --allocator native --device sim:h200 --out "$work/named"
  "$allocmark" bundle "$work/named" --out "$work/named.tar" >"$work/out" 2>"$work/err"
  grep -q "names '/.*caching_destroyed_segment.csv'" "$work/err" || fail "a path that is published is not named: $(cat "$work/err")"
}

bad_input() {
  head -c 5000 "$work/a.tar.zst" >"$work/short.tar.zst"
  expect 1 "BROKEN       archive-whole" check "$work/short.tar.zst"
  cp "$work/new/results.jsonl" "$work/plain.tar.zst"
  expect 1 "BROKEN       archive-whole" check "$work/plain.tar.zst"
  expect 6 "no bundle" check "$work/nothing.tar.zst"
  expect 2 "no bundle" check "$work/new/results.jsonl"
  expect 2 ".tar.zst" bundle "$work/new" --out "$work/a.rar"
  expect 2 "one run" bundle "$work/new" --baseline "$work/base" --baseline "$work/base" --out "$work/d.tar"
  expect 6 "nothing" bundle "$work/nothing" --out "$work/d.tar"
  expect 6 "" bundle "$work/new" --out /proc/d.tar
  mkdir "$work/torn"
  cp "$work/new/plan.json" "$work/torn"
  head -c -200 "$work/new/results.jsonl" >"$work/torn/results.jsonl"
  expect 2 "still being written" bundle "$work/torn" --out "$work/d.tar"
  [ ! -e "$work/d.tar" ] || fail "a bundle was left behind by a refusal"
}

run_parts reports turns bundles signatures privacy busy_machine bad_input
