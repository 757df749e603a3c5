#!/usr/bin/env python3
"""The table of harness/simcuda/core/pinning_costs.cc from the published recordings, and what it is off of each host.

scripts/measure/pin_middle.py   prints the rows of the table: microseconds for 1, 2, 4, ... 1024 MiB

The recordings are of five hosts. Two were measured at every size, three at 32 MiB by `allocmark profile`. A value is the middle of the
fastest and the slowest host by ratio, which keeps its largest ratio to any of them least. Pools were measured on one host.
"""
import json
import math
import statistics
from collections import defaultdict
from pathlib import Path

PUBLISHED = Path(__file__).resolve().parents[2] / "results/published"
SIZES_MIB = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SLAB_MIB = 2  # a block of up to 2 MiB takes a slab of 2 MiB where none has room
CHUNK_MIB = 32
RAW = {"2026-11-26": "2026-11-27-h200-pinned/raw/pinned_card.jsonl", "2026-11-27": "2026-11-27-h200-pinned/raw/pool_costs.jsonl"}
PROFILES = {"2026-11-23": "2026-11-23-h200/raw/profile.json", "2026-11-25": "2026-11-25-h200-two-gpus/raw/profile.json"}
# P50 in us of the host of harness/simcuda/profiles/h200.json, before that took the middle.
BUILT_IN = {("Allocate", 32): 12861.782, ("Free", 32): 3784.821}
# Our name of a call, and the beginnings of the recordings' names.
CALLS = {
    "Allocate": ("cudaHostAlloc", "cudaMallocHost"),
    "Free": ("cudaFreeHost", ),
    "Register": ("cudaHostRegister untouched", ),
    "RegisterTouched": ("cudaHostRegister touched", ),
    "Unregister": ("cudaHostUnregister", ),
    "TakeChunk": ("cudaMallocFromPoolAsync Host given back", "cudaMallocFromPoolAsync Host kept, first"),
    "ReturnChunk": ("cudaDeviceSynchronize Host given back", ),
}


def chunks(call, mib):
    """How many chunks such a request moves; 1 for what is no pool's."""
    return max(1, mib // CHUNK_MIB) if call.endswith("Chunk") else 1


def of_profile(path):
    """P50 in us of blocks of 32 MiB, by our name."""
    costs = json.loads((PUBLISHED / path).read_text())["costs"]
    row = {name: next(row for row in costs[cost] if row[0] == CHUNK_MIB << 20)
           for name, cost in (("Allocate", "cudaMallocHost"), ("Free", "cudaFreeHost"))}
    return {(name, CHUNK_MIB): values[4] / 1000 for name, values in row.items()}


def of_recording(path):
    """Medians in us by (our name, MiB): of each chunk where a pool takes several."""
    samples = defaultdict(list)
    for line in (PUBLISHED / path).read_text().splitlines():
        row = json.loads(line)
        for name, beginnings in CALLS.items():
            if "cost" in row and row["cost"].startswith(beginnings):
                samples[name, row["mib"]] += row["ns"]
    return {key: statistics.median(ns) / 1000 / chunks(*key) for key, ns in samples.items()}


def hosts():
    """What each host took, by its day."""
    profiles = {day: of_profile(path) for day, path in PROFILES.items()}
    return {"2026-11-23, profile": BUILT_IN} | profiles | {day: of_recording(path) for day, path in RAW.items()}


def middle(measured, call, mib):
    """Of the slowest and the fastest host, in us."""
    shared = {"Allocate": SLAB_MIB, "Free": SLAB_MIB, "ReturnChunk": CHUNK_MIB}.get(call, 0)  # up to there the same memory moves
    sizes = [size for size in SIZES_MIB if size <= shared] if mib <= shared else [mib]
    values = [times[call, size] for times in measured.values() for size in sizes if (call, size) in times]
    return round(math.sqrt(min(values) * max(values)))


def ratios(measured):
    """What simcuda charges of what each host took: a row for each call and host, with a cell for each size."""
    for call, names in CALLS.items():
        for day, times in measured.items():
            if (call, CHUNK_MIB) in times:
                cells = [f"{middle(measured, call, mib) / times[call, mib]:.2f}" if (call, mib) in times else "" for mib in SIZES_MIB]
                yield [", ".join(names), day, *cells]


def table_rows(measured):
    """The lines of the table."""
    return ["{" + ", ".join(str(middle(measured, call, mib)) for mib in SIZES_MIB) + "}" for call in CALLS]


if __name__ == "__main__":
    for line in table_rows(hosts()):
        print(line)
