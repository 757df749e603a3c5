#!/usr/bin/env python3
"""Whether a slab of small pinned blocks goes with its last block, and what blocks in it cost. Needs a GPU and libcudart."""
import ctypes
import json

import pin_costs

KIB, MIB = 1 << 10, 1 << 20


def rss_kib():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))


def main():
    runtime = pin_costs.runtime_library()

    def take(size):
        address = ctypes.c_void_p()
        took = pin_costs.timed(runtime.cudaMallocHost, ctypes.byref(address), ctypes.c_size_t(size))
        return address, took

    def give(address):
        return pin_costs.timed(runtime.cudaFreeHost, address)

    give(take(64 * MIB)[0])  # the context
    for size in (4 * KIB, 64 * KIB, 512 * KIB, MIB, 2 * MIB):
        for company in (False, True):
            held = take(4 * KIB)[0] if company else None
            rows = [(took, give(address)) for address, took in (take(size) for _ in range(21))]
            if held:
                give(held)
            print(json.dumps({"slab": size, "company": company, "alloc_ns": [a for a, _ in rows], "free_ns": [f for _, f in rows]}))
    for size in (4 * KIB, 64 * KIB, MIB):
        before = rss_kib()
        blocks = [take(size) for _ in range(64 * MIB // size)]
        for address, _ in blocks:
            ctypes.memset(address, 1, size)
        full = rss_kib()
        free_ns = [give(address) for address, _ in blocks]
        print(json.dumps({"slabs_filled": size, "count": len(blocks), "rss_kib": [before, full, rss_kib()], "alloc_ns": sum(t for _, t in blocks),
                          "free_ns": sum(free_ns), "alloc_ns_max": max(t for _, t in blocks)}))


main()
