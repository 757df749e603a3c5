#!/usr/bin/env python3
"""The private pools of a PyTorch memory snapshot (of CUDA graphs, MemPools), read with Python alone: a second opinion on what
`allocmark why` says of them. A row for each pool: what its segments held when the snapshot was taken, and its requests.

usage: snapshot_pools.py SNAPSHOT
"""
import bisect
import gzip
import sys

from record_pytorch import PlainUnpickler

COMMON = (0, 0)
GROWTH = ("segment_alloc", "segment_map")
REQUESTS = ("alloc", "oom", "free_requested")


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return PlainUnpickler(file).load()


def main_device(snapshot):
    """Of the devices on which a request failed, else of all, the one with the longest history."""
    traces = snapshot["device_traces"]
    return max(range(len(traces)), key=lambda at: (any(entry["action"] == "oom" for entry in traces[at]), len(traces[at])))


def pools_at_end(snapshot, device=0):
    """{pool: [reserved, live, free bytes]} of the segments."""
    pools = {}
    for segment in snapshot["segments"]:
        if segment.get("device", device) == device:
            held = pools.setdefault(tuple(segment.get("segment_pool_id", COMMON)), [0, 0, 0])
            held[0] += segment["total_size"]
            for block in segment["blocks"]:
                held[1] += block["size"] * (block["state"] == "active_allocated")
                held[2] += block["size"] * (block["state"] == "inactive")
    return pools


class Areas:
    """Which pool an address is of, while the history goes on."""

    def __init__(self, segments):
        self.begins, self.areas = [], {}
        for segment in segments:
            self.add(segment["address"], segment["total_size"], tuple(segment.get("segment_pool_id", COMMON)))

    def add(self, address, size_bytes, pool):
        if address not in self.areas:
            bisect.insort(self.begins, address)
        self.areas[address] = (address + size_bytes, pool)

    def pool_at(self, address):
        at = bisect.bisect_right(self.begins, address)
        end, pool = self.areas[self.begins[at - 1]] if at else (0, COMMON)
        return pool if address < end else COMMON


def last_growth(entries):
    """The entries that took memory which is still there at the end."""
    last = {}
    for index, entry in enumerate(entries):
        if entry["action"] in GROWTH:
            last[entry["addr"]] = index
        elif entry["action"] == "segment_free":
            last.pop(entry["addr"], None)
    return set(last.values())


def entry_pools(snapshot, device=0):
    """The pool of each entry: as it says, else of the memory that was taken for it, else of where it lies."""
    entries = snapshot["device_traces"][device]
    segments = [one for one in snapshot["segments"] if one.get("device", device) == device]
    final, areas, kept = Areas(segments), Areas(segments), last_growth(entries)
    pools, taken = [], []
    for index, entry in enumerate(entries):
        pool = COMMON
        if entry["action"] in GROWTH:
            taken.append((entry, final.pool_at(entry["addr"]) if index in kept else COMMON))
        elif entry["action"] in REQUESTS:
            if "pool_id" in entry:
                pool = tuple(entry["pool_id"])
            elif entry["action"] != "oom":
                pool = taken[0][1] if taken else areas.pool_at(entry["addr"])
            for one, _ in taken:
                areas.add(one["addr"], one["size"], pool)
            taken = []
        pools.append(pool)
    return pools


def with_stand_in_streams(snapshot, device=0):
    """The same with a stream of its own for each stream of a private pool, as the import has it."""
    pools = entry_pools(snapshot, device)

    def moved(one, pool):
        return one if pool == COMMON else {**one, "stream": (one["stream"], pool)}

    traces = list(snapshot["device_traces"])
    traces[device] = [moved(entry, pool) for entry, pool in zip(traces[device], pools)]
    segments = [moved(one, tuple(one.get("segment_pool_id", COMMON))) for one in snapshot["segments"]]
    return {**snapshot, "device_traces": traces, "segments": segments}


def main(path):
    snapshot = read(path)
    device = main_device(snapshot)
    asked = {}
    for entry, pool in zip(snapshot["device_traces"][device], entry_pools(snapshot, device)):
        if entry["action"] == "alloc":
            asked[pool] = asked.get(pool, 0) + 1
    held = pools_at_end(snapshot, device)
    print("pool\treserved_bytes\tlive_bytes\tfree_bytes\trequests")
    for pool in sorted({*asked, *held}):
        print("\t".join(map(str, (pool, *held.get(pool, (0, 0, 0)), asked.get(pool, 0)))))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    main(sys.argv[1])
