#!/usr/bin/env python3
"""Says on one screen what 'allocmark compare' found between two releases of PyTorch's allocator; used by scripts/gate/pytorch_gate.sh.

scripts/gate/pytorch_gate_summary.py OLD NEW EXACT.json [TIMED.json]     comparisons as 'allocmark compare --format json' writes them
"""
import argparse
import json
import sys
from pathlib import Path

WIDTH = 150
CALLS = "driver_calls."
CALLS_SHOWN = 5
MEMORY = (("reserved_bytes_peak", "reserved peak"), ("allocated_bytes_peak", "allocated peak"))
TIMES = (
    ("allocate_own_ns_p50", "allocate, P50"),
    ("allocate_own_ns_p99", "allocate, P99"),
    ("deallocate_own_ns_p50", "free, P50"),
    ("deallocate_own_ns_p99", "free, P99"),
)


class Experiment:
    """A cell of the comparison: a program under a setting, with so much memory."""

    def __init__(self, cell):
        self.name = f"{cell['workload']}, {cell['conf'] or 'unset'}, {cell['capacity']}"
        self.program = cell["workload"]
        self.placed = cell.get("first_difference", "")
        self.verdict, self.reason = cell["verdict"], cell["reason"]
        self.numbers = {number["number"]: number for number in cell["numbers"]}

    def both(self, name):
        """The two values; None where a side has none."""
        number = self.numbers.get(name)
        if number is None or number["base"] is None or number["new"] is None:
            return None
        return number["base"], number["new"]


def entry(label, lines):
    """A label, and its lines below each other beside it."""
    for index, line in enumerate(lines):
        text = f"  {label if index == 0 else '':16}{line}"
        print(text if len(text) <= WIDTH else text[: WIDTH - 3] + "...")


def changes(experiments, name):
    """(experiment, old, new) where the number differs."""
    found = [(experiment, experiment.both(name)) for experiment in experiments]
    return [(experiment, *values) for experiment, values in found if values and values[0] != values[1]]


def placements(experiments, options):
    differing = [e for e in experiments if e.numbers.get("placement_hash", {}).get("verdict") == "changed"]
    if not differing:
        entry("placements", [f"alike in all {len(experiments)} experiments"])
        return
    lines = [f"differ in {len(differing)} of {len(experiments)} experiments: free blocks are chosen by another rule"]
    shown = next((e for e in differing if e.placed), None)
    if shown:
        lines += [f"{shown.name} (A: {options.old}, B: {options.new}):", shown.placed]
    entry("placements", lines)


def failures(experiments):
    values = [pair for pair in (e.both("oom_count") for e in experiments) if pair]
    old, new = (int(sum(side)) for side in zip(*values)) if values else (0, 0)
    lines = [f"{old} -> {new}" if old != new else f"{old} in both"]
    lines += [f"{e.name}: {int(a)} -> {int(b)}" for e, a, b in changes(experiments, "oom_count")]
    entry("failed requests", lines)


def memory(experiments):
    for name, label in MEMORY:
        lines = []
        for word, sign in (("more", 1), ("less", -1)):
            of_kind = [change for change in changes(experiments, name) if (change[2] - change[1]) * sign > 0]
            if not of_kind:
                continue
            worst, old, new = max(of_kind, key=lambda change: (change[2] / change[1] - 1) * sign if change[1] else 0)
            share = f"{(new / old - 1) * 100:+.1f} %" if old else "from 0"
            lines.append(f"{word} in {len(of_kind)}, at most {share}: {old / 2**20:,.1f} -> {new / 2**20:,.1f} MiB, of {worst.name}")
        entry(label, lines or ["alike everywhere"])


def calls(experiments):
    names = sorted({name for e in experiments for name in e.numbers if name.startswith(CALLS)})
    rows = []
    for name in names:
        changed = changes(experiments, name)
        if changed:
            old, new = int(sum(change[1] for change in changed)), int(sum(change[2] for change in changed))
            rows.append((abs(new - old), f"{name[len(CALLS):]}: {old:,} -> {new:,} in the {len(changed)} experiments that differ"))
    rows.sort(key=lambda row: -row[0])
    lines = [text for _, text in rows[:CALLS_SHOWN]]
    if len(rows) > CALLS_SHOWN:
        lines.append(f"and {len(rows) - CALLS_SHOWN} more functions")
    entry("calls", lines or ["equally many of every function"])


def times(experiments):
    for name, label in TIMES:
        lines = []
        for experiment in experiments:
            number = experiment.numbers.get(name)
            if number is None or number.get("change_low") is None:
                continue
            low, high = number["change_low"] * 100, number["change_high"] * 100
            lines.append(
                f"{experiment.program:26}{number['verdict']:11}{number['base']:5.0f} -> {number['new']:5.0f} ns,"
                f" {number['change'] * 100:+.0f} % ({low:+.0f} .. {high:+.0f})"
            )
        entry(label, lines or ["not measured"])


def next_steps(options):
    print()
    entry(
        "every number",
        [f"allocmark compare {part.parent} --only {part.parent.name} --details" for part in (options.exact, options.timed) if part],
    )
    entry("a placement", [f"allocmark run --allocator torch@{options.new} --record-placements DIR, with program, setting and capacity"])
    if options.timed:
        plugin = f"build/torch/{options.new}/liballocmark_torch.so"
        entry("a slower call", [f"ALLOCMARK_TORCH_PLUGIN={plugin} perf record allocmark_bench --workload PROGRAM --benchmark_filter=^hits/caching"])
    entry("a change meant", ["--policy FILE says which numbers may differ: results/compare/VERDICTS.md"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("exact", type=Path)
    parser.add_argument("timed", type=Path, nargs="?")
    options = parser.parse_args()
    parts = [json.loads(path.read_text()) for path in (options.exact, options.timed) if path]
    codes = [part["exit_code"] for part in parts]
    word = "WORSE" if 1 in codes else "NOT DECIDED" if any(codes) else "nothing is worse"
    print(f"\nPyTorch's allocator, {options.old} -> {options.new}, on the simulated H200: {word}\n")
    exact = [Experiment(cell) for cell in parts[0]["cells"]]
    placements(exact, options)
    for part in (failures, memory, calls):
        part(exact)
    if len(parts) > 1:
        times([Experiment(cell) for cell in parts[1]["cells"]])
    lost = [f"{cell['workload']}, {cell['conf'] or 'unset'}, {cell['capacity']}: {cell['reason']}" for part in parts for cell in part["incomplete"]]
    lost += [f"{e.name}: {e.reason}" for e in exact if e.verdict == "not comparable"]
    if lost:
        entry("not compared", lost[:5])
    if any(codes):
        next_steps(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
