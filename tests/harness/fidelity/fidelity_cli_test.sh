#!/usr/bin/env bash
# 'allocmark fidelity' and 'allocmark trace generate' as a user meets them. Checks only; no assertion is about time.
# Usage: fidelity_cli_test.sh PATH_OF_ALLOCMARK
. "${BASH_SOURCE[0]%/*}/../../support/user_session.sh"

trace() { printf 'op,id,size,stream\nalloc,1,%s,0\nfree,1,0,0\n' "$1" >"$work/$2.csv"; }

expect 0 "Usage" fidelity --help
expect 2 "one REFERENCE" fidelity
expect 2 "--all" fidelity vit_amp --all
expect 2 "did you mean 'vit_amp'" fidelity vit_ampp
expect 2 "without --workload" fidelity --all --workload churn
expect 2 "known" fidelity vit_amp --workload train:vit-bas
expect 2 "max_split_size_mb" fidelity vit_amp --conf max_split_size:128
expect 2 "--format" fidelity vit_amp --format yaml
expect 2 "--seed" fidelity vit_amp --seed -1
expect 6 "cannot write" fidelity vit_infer --conf unset --out /dev/null/folder

# 64 MiB against 96 MiB: peaks and, of one large block each, reserved memory are half as much more.
trace 67108864 small
trace 100663296 large
expect 0 "+50.0000 %" fidelity "$work/small.csv" --workload "file:$work/large.csv" --conf unset --out "$work/pages" --format table
[ "$(grep -c '+50.0000 %' "$work/out")" = 2 ] || fail "peak and reserved peak are not both half as much more"
grep -q "caching, unset" "$work/out" || fail "the replay is not shown"
grep -q "caching, max" "$work/out" && fail "a config string was replayed that nobody asked for"
grep -q "<svg" "$work/pages/small.html" || grep -q "<svg" "$work/pages/"*.html || fail "there is no plot"
grep -q "https\?://" "$work/pages/"*.html && fail "the page needs a network"
grep -q '"size_overlap": 0.0' "$work/pages/fidelity.json" || fail "fidelity.json lacks the size overlap"

# What does not fit on the device has no reserved peak.
trace 1099511627776 huge
expect 0 "does not fit" fidelity "$work/huge.csv" --workload "file:$work/large.csv" --conf unset

expect 0 "| \`vit_amp\` | 0.00 % | 0.00 % | 1.0000 |" fidelity --all --conf unset
[ "$(grep -c '0.00 %' "$work/out")" -ge 20 ] || fail "not every recording has its row"
expect 0 '"generated": 4120903680' fidelity vit_amp --format json --conf unset

expect 0 "777 events" trace generate comb:count=2000,events=777 "$work/made.csv.gz"
expect 0 "777 events" trace convert "$work/made.csv.gz" "$work/made.csv"

run_parts
