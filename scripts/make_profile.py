#!/usr/bin/env python3
"""Makes a simcuda device profile from recordings of a real GPU.

usage: make_profile.py api_latency.csv probe.txt --device device.txt [--calls calls.csv] [--date DATE] -o profile.json

In: api_latency.csv and --calls (api,size,n,p50_ns,p90_ns,p99_ns,max_ns,mean_ns; host time of each call), probe.txt
(memory sizes) and --device (attributes and limits). Out: one JSON file: what the device is, and per kind of call rows
[size, n, p50, p90, p99, max] in ns, with the clock's own cost taken off.
"""
import argparse
import csv
import json
import re
import sys

CHUNK = 32 << 20


def fail(message):
    sys.exit(f"make_profile.py: {message}")


def read_rows(path):
    """{api: {size: [n, p50, p90, p99, max]}} of a latency file."""
    rows = {}
    with open(path, newline="") as file:
        lines = [line for line in file if line.strip() and not line.startswith("#")]
    for row in csv.DictReader(lines):
        numbers = [row.get(key) for key in ("size", "n", "p50_ns", "p90_ns", "p99_ns", "max_ns")]
        if None in numbers:
            fail(f"{path}: wanted api,size,n,p50_ns,p90_ns,p99_ns,max_ns,..., got {row}")
        size, *values = [int(number) for number in numbers]
        rows.setdefault(row["api"], {})[size] = values
    return rows


class Recordings:
    def __init__(self, latency_path, calls_path):
        self.tables = [read_rows(latency_path)]
        if calls_path:
            self.tables.append(read_rows(calls_path))
        clock = self.tables[0].get("steady_clock", {0: [0, 0]})
        self.clock_ns = clock[0][1]

    def find(self, api):
        for table in self.tables:
            if api in table:
                return table[api]
        fail(f"no rows for {api!r}; pass the file that has them with --calls")

    def row(self, size, values):
        n, *quantiles = values
        return [size, n] + [max(0, value - self.clock_ns) for value in quantiles]

    def by_size(self, api):
        return [self.row(size, values) for size, values in sorted(self.find(api).items())]

    def flat(self, api):
        """All sizes cost the same: the row with the most samples."""
        return [self.row(0, max(self.find(api).values(), key=lambda values: values[0]))]


def chunk_rows(recordings):
    """Cost of mapping k new 32 MiB chunks. In the *_rel0 rows every tenth call maps, the others hit: the 90th
    percentile of all is the least of the mapping calls, the 99th their 90th. The very first row's maximum is the
    process's first use of the pool and is left out."""
    rows = []
    for size, (n, _, p90, p99, largest) in sorted(recordings.find("cudaMallocAsync_rel0").items()):
        if size < CHUNK // 2:
            continue  # all of these map one chunk; the row nearest to a chunk stands for them
        chunks = -(-size // CHUNK)
        rows.append(recordings.row(chunks, [max(n // 10, 1), p90, p99, p99, largest]))
    return rows


def release_rows(recordings):
    """Cost of giving k chunks back at a synchronisation, without the synchronisation itself."""
    idle = recordings.find("streamSync_keep")[1 << 20][1]
    rows = []
    for size, (n, *quantiles) in sorted(recordings.find("streamSync_rel0").items()):
        if size < CHUNK // 2:
            continue
        rows.append([-(-size // CHUNK), n] + [max(0, value - idle) for value in quantiles])
    return rows


def slab_rows(recordings, api):
    """4 KiB calls, most of them served by a slab that exists; every 512th needs a new one, which the 99.9th
    percentile and the maximum may show."""
    return recordings.flat(api)


def costs(recordings):
    r = recordings
    table = {
        "cudaMalloc": r.by_size("cudaMalloc"),
        "cudaMalloc.slab": slab_rows(r, "cudaMalloc_slab"),
        "cudaMalloc.out_of_memory": r.flat("cudaMalloc_oom"),
        "cudaFree": r.by_size("cudaFree"),
        "cudaFree.slab": slab_rows(r, "cudaFree_slab"),
        "cudaMallocAsync": [r.row(0, r.find("cudaMallocAsync_keep")[1 << 20])],
        "cudaMallocAsync.chunks": chunk_rows(r),
        "cudaFreeAsync": [r.row(0, r.find("cudaFreeAsync_keep")[1 << 20])],
        "release.chunks": release_rows(r),
        "cudaStreamSynchronize": [r.row(0, r.find("streamSync_keep")[1 << 20])],
        "launch": r.flat("launch_nop"),
        "cudaEventQuery": r.flat("cudaEventQuery_done"),
        "cudaEventQuery.not_ready": r.flat("cudaEventQuery_notready"),
        "cudaStreamQuery.not_ready": r.flat("cudaStreamQuery_notready"),
        "cudaMemcpy.host_to_device": r.by_size("cudaMemcpy_h2d"),
        "cudaMemcpy.device_to_host": r.by_size("cudaMemcpy_d2h"),
        "cudaMemcpy.on_device": r.by_size("d2d_and_sync"),
        "cudaMemset.on_device": r.by_size("memset_and_sync"),
    }
    for api in ("cudaDeviceSynchronize", "cudaEventSynchronize", "cudaEventCreate", "cudaEventDestroy",
                "cudaEventRecord", "cudaStreamQuery", "cudaStreamWaitEvent", "cudaStreamCreate", "cudaStreamDestroy",
                "cudaMemGetInfo", "cudaMemsetAsync", "cudaGetDevice", "cudaSetDevice", "cudaGetLastError",
                "cudaGetDeviceProperties", "cudaDeviceGetAttribute", "cudaPointerGetAttributes",
                "cudaMemPoolGetAttribute", "cudaMemPoolSetAttribute", "cudaMemPoolTrimTo", "cudaMemPoolCreate",
                "cudaMemPoolDestroy"):
        table[api] = r.flat(api)
    for api in ("cudaMallocHost", "cudaFreeHost", "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate",
                "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess"):
        table[api] = r.by_size(api)
    return table


def device(probe_path, device_path, driver):
    with open(probe_path) as file:
        probe = file.read()
    match = re.search(r"^device (.*?) total (\d+) free-after-init (\d+)", probe, re.M)
    if not match:
        fail(f"{probe_path}: wanted a line 'device NAME total BYTES free-after-init BYTES'")
    total, free = int(match.group(2)), int(match.group(3))
    attributes, limits = [], []
    with open(device_path) as file:
        for line in file:
            fields = line.strip().split("|")
            if fields[0] == "attr":
                attributes.append([int(fields[1]), int(fields[2])])
            elif fields[0] == "limit":
                limits.append([int(fields[1]), int(fields[2])])
    # One whole page less than is free fits; a chunk needs 16 pages and leaves one over (measured placement policy).
    pages = free // (2 << 20) - 1
    return {
        "name": match.group(1), "driver_version": driver, "cuda_version": 13000,
        "total_bytes": total, "free_bytes_initial": free, "page_limit": pages, "chunk_limit": pages // 16,
        "temperature_celsius": 36, "power_milliwatt": 137000, "power_limit_milliwatt": 700000,
        "attributes": attributes, "limits": limits,
    }


def to_text(profile):
    """JSON with one line per row, so that changes can be read."""
    text = json.dumps(profile, indent=1)
    return re.sub(r"\[\s+((?:-?\d+,\s+)*-?\d+)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("latency")
    parser.add_argument("probe")
    parser.add_argument("--device", required=True)
    parser.add_argument("--calls")
    parser.add_argument("--driver", default="580.159.04")
    parser.add_argument("--date", default="not recorded", help="day of the recordings")
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()
    recordings = Recordings(arguments.latency, arguments.calls)
    profile = {
        "schema": 1,
        "about": {
            "source": "host time of each call on an idle GPU, one process, one thread; memory sizes and attributes read off it",
            "driver": arguments.driver, "cuda": "13.0", "recorded": arguments.date,
            "units": "rows are [size, n, p50, p90, p99, max]: ns; size in bytes, for *.chunks in 32 MiB chunks",
            "clock_ns_taken_off": recordings.clock_ns,
        },
        "device": device(arguments.probe, arguments.device, arguments.driver),
        "costs": costs(recordings),
    }
    with open(arguments.output, "w") as file:
        file.write(to_text(profile))


if __name__ == "__main__":
    main()
