#!/usr/bin/env python3
"""Goal: whatever there is to ask about speed, allocmark_bench answers by a benchmark's name, a flag or a counter. Method: runs of a
few milliseconds, read as Google Benchmark's JSON. No assertion on a time."""
import json
import subprocess
import sys

BENCH = sys.argv[1]


def ask(*words):
    command = [BENCH, "--device", "sim:h200", "--benchmark_min_time=0.001", "--benchmark_format=json", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)
    rows = json.loads(done.stdout)["benchmarks"]
    assert rows, (command, done.stderr)
    for row in rows:
        assert not row.get("error_occurred"), row
    return {row["name"]: row for row in rows}


def only(rows):
    assert len(rows) == 1, list(rows)
    return next(iter(rows.values()))


def refused(words, said):
    done = subprocess.run([BENCH, "--device", "sim:h200", *words], capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr, (words, done.returncode, done.stderr)


def expect_counters(row, *names):
    for name in names:
        assert isinstance(row.get(name), (int, float)), (row["name"], name, sorted(row))


def test_pairs():
    rows = ask("--size", "4KiB", "--threads", "1", "--benchmark_filter=^(pair|cold)/")
    assert any(name.startswith("cold/thrust_pool/conf:unset/size:4096") for name in rows)
    for row in rows.values():
        expect_counters(row, "driver_modelled_ns", "simulator_ns")
    confs = ask("--allocator", "caching@2.13", "--conf", "expandable_segments:True", "--size", "2MiB", "--threads", "2")
    pairs = [name for name in confs if name.startswith("pair/caching@2.13/")]
    assert len(pairs) == 2 and any("/conf:expandable_segments:True/size:2097152/threads:2" in name for name in pairs), pairs


def test_hits():
    row = only(ask("--benchmark_filter=^hits/caching/", "--workload", "bert_varlen_infer"))
    assert row["name"].startswith("hits/caching/conf:unset/bert_varlen_infer")
    expect_counters(row, "pair_ns", "allocate_ns_p50", "allocate_ns_p99", "free_ns_p50", "free_ns_p99")
    assert 0 < row["allocate_ns_p50"] <= row["allocate_ns_p99"]
    if any(name.startswith("hits/torch/") for name in ask("--benchmark_filter=^(clock|hits/)")):
        expect_counters(row, "c10_pair_ns", "c10_ratio_pair_ns", "target_c10_ratio")
    conf = only(ask("--benchmark_filter=^hits/caching/conf:r", "--conf", "roundup_power2_divisions:4"))
    assert conf["name"].startswith("hits/caching/conf:roundup_power2_divisions:4/gpt2_train_amp")


def test_replays():
    rows = ask("--benchmark_filter=^(replay/(null|caching)/|clock)", "--workload", "comb:count=50")
    on = rows["replay/null/conf:unset/recorder:on/comb:count=50"]
    expect_counters(on, "latency_ns_p50", "latency_ns_p99", "target_latency_ns_p50", "target_latency_ns_p99")
    off = rows["replay/caching/conf:unset/recorder:off/comb:count=50"]
    expect_counters(off, "items_per_second", "target_items_per_second", "s_per_event", "resident_bytes_peak")
    assert abs(off["items_per_second"] * off["s_per_event"] - 1) < 1e-6
    expect_counters(rows["clock"], "pair_cost_ns")


def test_streams():
    row = only(ask("--benchmark_filter=^generate/", "--workload", "comb:count=5", "--events", "1000"))
    assert row["name"].startswith("generate/comb:count=5")
    expect_counters(row, "items_per_second", "target_items_per_second", "growth_bytes", "growth_bytes_tenth", "target_growth_bytes")
    row = only(ask("--benchmark_filter=^long/", "--events", "30000"))
    expect_counters(row, "s_per_event", "growth_bytes", "resident_bytes_peak", "target_resident_bytes_peak")
    # The whole trace and no more: a second round would ask for blocks that are live.
    events = row["items_per_second"] * row["cpu_time"] / 1e3
    assert 30000 <= round(events) < 60000, events
    examples = ask("--benchmark_filter=^generate/", "--events", "1000")
    assert len(examples) > 10 and any(name.startswith("generate/train:") for name in examples)


def test_mistakes():
    refused(["--workload", "gpt2_train_am"], "unknown workload 'gpt2_train_am'")
    refused(["--workload", "cmb:"], "did you mean 'comb'")
    refused(["--workload", "comb:count=50", "--events", "5"], "a number of events from 1000 to 1000000000000")
    refused(["--allocator", "cachin"], "did you mean 'caching'")
    refused(["--conf", "max_split_size:128"], "max_split_size_mb")


for test in (test_pairs, test_hits, test_replays, test_streams, test_mistakes):
    test()
    print(f"{test.__name__}: ok")
