#!/usr/bin/env python3
"""Planted races x scenarios: each is found where it happens, and the built-in allocators have none. races.tsv is the table;
`--approve` writes it anew.

Usage: races_test.py ALLOCMARK FAULTY_PLUGIN.so [--approve]
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TABLE = Path(__file__).resolve().parent / "races.tsv"
# Every scenario and recorded program whose trace has several streams in one process.
SCENARIOS = (
    "save_gathered ddp_buckets fsdp1_flat fsdp2_streams megatron_interleaved pipeline_1f1b tensor_sequence zero1_states "
    "zero3_gather churn_streams fuzz_record producer_consumer producer_unfinished fuzz_r1"
).split()
PLANTED = ["ignores_record", "wrong_stream", "early_event", "no_wait", "any_stream", "no_stream_wait"]
FUNCTIONS = "trim:my_trim"
# thrust_pool promises no order, and has none.
BUILT_IN = ["native", "caching", "async", "vmm_stitch", "cub", "planned"]
CONFS = ["unset", "caching=expandable_segments:True", "caching=backend:cudaMallocAsync"]

failures = []


def check(holds, text):
    if not holds:
        failures.append(text)
        print("FAILED:", text, file=sys.stderr)


def run(allocmark, folder, allocators, confs, scenarios):
    """{(scenario, name): cell}"""
    command = [allocmark, "run", "--device", "sim:h200", "--passes", "1", "--out", folder, "--workload", *scenarios]
    command += ["--allocator", *allocators, "--conf", *confs]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"allocmark run ended with {done.returncode}: {done.stderr}")
    cells = {}
    for line in (Path(folder) / "results.jsonl").read_text().splitlines():
        cell = json.loads(line)
        if cell["kind"] == "cell":
            name = cell["conf"].removeprefix("as:") if cell["allocator"] == "pluggable" else f"{cell['allocator']} {cell['conf']}"
            cells[cell["workload"], name] = cell
    return cells


def plant(folder, library, name, more=FUNCTIONS):
    path = Path(folder) / f"faulty_{name}.so"
    shutil.copy(library, path)
    return f"pluggable:{path},{more},as:{name}"


def traffic(allocmark, scenario, folder):
    """Allocations by stream, and how many blocks other streams use as well."""
    path = Path(folder) / "trace.csv"
    path.unlink(missing_ok=True)
    subprocess.run([allocmark, "trace", "convert", scenario, path], check=True, capture_output=True)
    rows = [line.split(",") for line in path.read_text().splitlines()]
    streams = {row[3] for row in rows if row[0] == "alloc"}
    return len(streams), sum(row[0] == "record" for row in rows)


def main():
    allocmark, library = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        # No built-in allocator that promises order has a race, and neither has the plugin without a fault.
        declared = f"{FUNCTIONS},record_stream:my_record_stream"
        cells = run(allocmark, f"{folder}/good", [*BUILT_IN, plant(folder, library, "none", declared)], CONFS, SCENARIOS)
        check(len(cells) == len(SCENARIOS) * (len(BUILT_IN) + 3), f"{len(cells)} cells of allocators without a fault")
        for (scenario, name), cell in cells.items():
            check(cell["status"] == "ok" and cell["unordered_reuse_count"] == 0, f"{scenario}, {name}: {cell['reason']}")
        # A planted race fails the cell, where it happens.
        cells = run(allocmark, f"{folder}/planted", [plant(folder, library, name, declared) for name in PLANTED], ["unset"], SCENARIOS)
        rows = ["\t".join(["scenario", *PLANTED])]
        for scenario in SCENARIOS:
            row = [scenario]
            for name in PLANTED:
                cell = cells[scenario, name]
                found = cell["status"] == "failed"
                check(found == (cell["unordered_reuse_count"] == 1), f"{scenario}, {name}: {cell}")
                check(not found or ("is not ordered before" in cell["reason"]), f"{scenario}, {name}: {cell['reason']}")
                row.append("found" if found else "-")
            rows.append("\t".join(row))
            # Where several streams ask for memory, or use each other's, some race happens.
            streams, records = traffic(allocmark, scenario, folder)
            check((streams > 1 or records > 0) == ("found" in row), f"{scenario}: {streams} streams, {records} records, {row}")
        text = "\n".join(rows) + "\n"
        if "--approve" in sys.argv:
            TABLE.write_text(text)
        check(TABLE.read_text() == text, f"the table is another one:\n{text}")
        # Without record_stream the plugin cannot know of other streams: a warning with the count.
        cells = run(allocmark, f"{folder}/silent", [plant(folder, library, "none")], ["unset"], ["fuzz_r1", "producer_consumer"])
        for (scenario, _), cell in cells.items():
            text = " ".join(cell["warnings"])
            check(cell["status"] == "ok" and cell["unordered_reuse_count"] > 0, f"{scenario}: {cell}")
            check("may still use" in text and "the first: event" in text, f"{scenario}: {text}")
    print("\n".join(rows))
    sys.exit(1 if failures else 0)


main()
