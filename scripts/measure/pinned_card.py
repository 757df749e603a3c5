#!/usr/bin/env python3
"""Runs the requests for pinned memory of generated workloads in PyTorch on a GPU, and holds what it pins against predictions.

scripts/measure/pinned_card.py > pinned_card.jsonl                   on a GPU; needs PyTorch and nothing built; 90 s at most
scripts/measure/pinned_card.py --predict build/release/bin/allocmark  writes pinned_workloads/ anew: traces and predictions

Every event of a trace is done as it stands: pinned memory is asked for and freed, kernels sleep on their stream as long as they
say, a copy of at most 1 MiB uses the pinned block on its stream, and the host sleeps where the program works. Nothing is left out.
A workload that could pin more than half of the memory that the machine has free is skipped, and its line says so.

Lines:
  {"machine": CARD, "torch": VERSION, "mem_available_gib": X, "numa_nodes": [...]}
  {"workload": NAME, "conf": TEXT, "counters": {...}, "seconds": S}   all integer counters of torch.cuda.host_memory_stats()
  {"compare": NAME, "conf": TEXT, "what": COUNTER, "predicted": N, "measured": N}
  {"cost": CALL, "mib": N, "ns": [...], "node": NODE or null}         raw durations of one runtime call (pin_costs.py)
  {"rounding": CALL, "asked": N, "count": N, "vm_rss_kib": N, "steps": [...]}   what many exact blocks of a size take of the process's
                                                                      memory, and how far apart the first ones lie
"""
import argparse
import contextlib
import ctypes
import gzip
import itertools
import json
import os
import subprocess
import sys
import time

import pin_costs

MIB = 1 << 20
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pinned_workloads")
WORKLOADS = {
    "fsdp": "offload:optimizer,library=fsdp,model=llama-3.2-1b,layers=6,steps=3",
    "torchao": "offload:optimizer,library=torchao,model=llama-3.2-1b,steps=2",
    "deepspeed": "offload:optimizer,library=deepspeed,model=llama-3.2-1b,layers=8,steps=2",
    "checkpoint_fresh": "offload:checkpoint,model=llama-3.2-1b,layers=4,staging=fresh,saves=2,write_gbs=50",
    "checkpoint_buffers": "offload:checkpoint,model=llama-3.2-1b,staging=buffers,saves=2,write_gbs=50",
    "loader": "offload:loader,spread_percent=30",
    "loader_ahead": "offload:loader,spread_percent=30,sync=0,batches=30",
    "kv_chunks": "offload:kv_cache,layout=chunks",
    "kv_5gib": "offload:kv_cache,buffer_bytes=5GiB",
    "kv_5x1.2gib": "offload:kv_cache,buffers=5,buffer_bytes=1.20GiB",
    "weights": "offload:weights,layers=14,tensor_mib=96/36/9,tensor_count=3/3/2",
}
UNSET = ""
CONFS = {
    UNSET: list(WORKLOADS),
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:8": ["weights", "kv_5gib", "kv_chunks"],
    "pinned_use_background_threads:True": ["loader_ahead", "kv_chunks"],
}
RELEASE = "2.11"
COPY_BYTES_MAX = MIB
# Sizes of exact blocks, and how many of each tell what one takes.
ROUNDED = [(1, 5000), (512, 5000), (513, 5000), (4096, 3000), (4097, 3000), (65537, 200), (300000, 100), (MIB // 2 + 1, 100), (700000, 60), (MIB, 60),
           (MIB + 1, 60), (2 * MIB, 40), (2 * MIB + 1, 40), (3 * MIB, 40), (5 * MIB + 1, 20), (32 * MIB, 8), (32 * MIB + 1, 8), (35000000, 8)]
SECONDS = 75


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def predict(program):
    """Writes the traces, and for each what the program says of it under each config string."""
    os.makedirs(FOLDER, exist_ok=True)
    predictions = {}
    for name, workload in WORKLOADS.items():
        trace = os.path.join(FOLDER, f"{name}.csv.gz")
        subprocess.run([program, "trace", "generate", workload, trace, "--force"], check=True, capture_output=True)
        for conf, names in CONFS.items():
            if name not in names:
                continue
            told = subprocess.run([program, "pinned", "--workload", workload, "--pytorch", RELEASE, "--format", "json",
                                   "--conf", conf or "unset"], check=True, capture_output=True, text=True)
            answer = json.loads(told.stdout)
            row = next(one for one in answer["rows"] if one["conf"] == conf)
            predictions.setdefault(name, {"workload": workload, "asked_bytes": answer["asked_bytes"], "by_conf": {}})
            predictions[name]["by_conf"][conf] = {key: row[key] for key in ("pinned_bytes", "pin_count", "unpin_count", "pinning_ns")}
    with open(os.path.join(FOLDER, "predictions.json"), "w", encoding="utf-8") as file:
        json.dump({"release": RELEASE, "workloads": predictions}, file, indent=1)
        file.write("\n")


def read_rows(name):
    with gzip.open(os.path.join(FOLDER, f"{name}.csv.gz"), "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split(",") for line in file if not line.startswith("#")]
    return lines[1:]


def available_bytes():
    with open("/proc/meminfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


class Card:
    """Plays traces with PyTorch. One stream of PyTorch's stands for each stream of a trace."""

    def __init__(self, torch):
        self.torch = torch
        self.streams = [torch.cuda.Stream() for _ in range(3)]
        self.there = torch.empty(COPY_BYTES_MAX, dtype=torch.uint8, device="cuda")
        self.cycles_per_ns = self.calibrate()

    def calibrate(self):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(2):  # the first one warms up
            begin.record()
            self.torch.cuda._sleep(20_000_000)
            end.record()
            self.torch.cuda.synchronize()
        return 20_000_000 / (begin.elapsed_time(end) * 1e6)

    def play(self, rows):
        torch, blocks = self.torch, {}
        for operation, block, size, stream, *_ in rows:
            if operation == "host_alloc":
                blocks[block] = torch.empty(int(size), dtype=torch.uint8, pin_memory=True)
            elif operation == "host_free":
                del blocks[block]
            elif operation == "host_record":
                with torch.cuda.stream(self.streams[int(stream)]):
                    part = blocks[block][:COPY_BYTES_MAX]
                    self.there[:part.numel()].copy_(part, non_blocking=True)
            elif operation == "kernel":
                with torch.cuda.stream(self.streams[int(stream)]):
                    torch.cuda._sleep(int(int(size) * self.cycles_per_ns))
            elif operation == "host":
                time.sleep(int(size) / 1e9)
            elif operation == "sync":
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        assert not blocks

    def counters(self):
        flat = {}

        def walk(prefix, value):
            if isinstance(value, dict):
                for key, inner in value.items():
                    walk(f"{prefix}.{key}" if prefix else key, inner)
            elif isinstance(value, int):
                flat[prefix] = value

        walk("", self.torch._C._cuda_hostMemoryStats())
        return flat

    def clear(self):
        """No pinned memory is left, and the counters begin anew."""
        self.torch.cuda.synchronize()
        self.torch._C._host_emptyCache()
        self.torch._C._cuda_resetPeakHostMemoryStats()
        self.torch._C._cuda_resetAccumulatedHostMemoryStats()


def session(conf, stop_at):
    import torch
    card = Card(torch)
    with open(os.path.join(FOLDER, "predictions.json"), encoding="utf-8") as file:
        predictions = json.load(file)["workloads"]
    if conf == UNSET:
        say({"machine": torch.cuda.get_device_name(0), "torch": torch.__version__, "mem_available_gib": round(available_bytes() / 2**30, 1),
             "cores": os.cpu_count(), "numa_nodes": numa_nodes()})
    for name in CONFS[conf]:
        predicted = predictions[name]["by_conf"][conf]
        if time.time() > stop_at or 2 * predicted["pinned_bytes"] > available_bytes():
            say({"workload": name, "conf": conf, "skipped": "out of time" if time.time() > stop_at else "too little memory"})
            continue
        card.clear()
        before = card.counters()
        began = time.perf_counter()
        card.play(read_rows(name))
        took = time.perf_counter() - began
        counters = card.counters()
        say({"workload": name, "conf": conf, "seconds": round(took, 3), "before": before, "counters": counters})
        compare(name, conf, predicted, before, counters)
    card.clear()


def compare(name, conf, predicted, before, after):
    def differ(what):
        return after.get(what, 0) - before.get(what, 0)

    pinning_ns = 1000 * (differ("host_alloc_time.total") + differ("host_free_time.total"))
    measured = {"pinned_bytes": after.get("allocated_bytes.peak", 0) - before.get("allocated_bytes.current", 0),
                "pin_count": differ("num_host_alloc"), "unpin_count": differ("num_host_free"), "pinning_ns": pinning_ns}
    for what, value in measured.items():
        say({"compare": name, "conf": conf, "what": what, "predicted": predicted[what], "measured": value})


def numa_nodes():
    with contextlib.suppress(OSError):
        return sorted(int(name[4:]) for name in os.listdir("/sys/devices/system/node") if name.startswith("node") and name[4:].isdigit())
    return []


def bind_memory(node):
    """Pages that this thread touches from here on come from the node; None undoes it. False where Linux refuses."""
    mask = ctypes.c_ulong(0 if node is None else 1 << node)
    mode, bits = (0, 0) if node is None else (2, 64)  # MPOL_DEFAULT, MPOL_BIND
    return ctypes.CDLL(None, use_errno=True).syscall(238, mode, ctypes.byref(mask) if bits else None, ctypes.c_ulong(bits)) == 0


def costs(seconds):
    """Pinning costs by size, then at 256 MiB by NUMA node, then what small exact blocks take."""
    pin_costs.costs(lambda line: say({**line, "node": None}), seconds)
    runtime = pin_costs.runtime_library()
    if runtime is None:
        return
    for node in numa_nodes():
        if not bind_memory(node):
            say({"cost": None, "node": node, "note": "this machine does not bind memory to nodes"})
            continue
        samples = {}
        for _ in range(5):
            pin_costs.one_round(runtime, 256, samples)
        for call, durations in samples.items():
            say({"cost": call, "mib": 256, "ns": durations, "node": node})
        bind_memory(None)
    for asked, count in ROUNDED:
        rounding(runtime, asked, count)


def rounding(runtime, asked, count):
    def rss_kib():
        with open("/proc/self/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

    for call in ("cudaHostAlloc", "cudaMallocHost"):
        before, addresses = rss_kib(), []
        for _ in range(count):
            address = ctypes.c_void_p()
            arguments = (ctypes.c_uint(0),) if call == "cudaHostAlloc" else ()
            pin_costs.timed(getattr(runtime, call), ctypes.byref(address), ctypes.c_size_t(asked), *arguments)
            addresses.append(address)
        steps = [later.value - earlier.value for earlier, later in itertools.pairwise(addresses[:5])]
        say({"rounding": call, "asked": asked, "count": count, "vm_rss_kib": rss_kib() - before, "steps": steps})
        for address in addresses:
            pin_costs.timed(runtime.cudaFreeHost, address)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--predict", metavar="ALLOCMARK", help="write traces and predictions with this program, and run nothing")
    options.add_argument("--session", metavar="CONF", help="run the workloads of this config string here")
    options.add_argument("--costs", action="store_true", help="measure the costs of calls here")
    options.add_argument("--stop-at", type=float, default=time.time() + SECONDS, help="begin no workload later, in seconds since 1970")
    given = options.parse_args()
    if given.predict:
        return predict(given.predict)
    if given.session is not None:
        return session(given.session, given.stop_at)
    if given.costs:
        return costs(max(2.0, min(12.0, given.stop_at - time.time())))
    # The calls first: they are short, and the workloads stop in time by themselves.
    for arguments, conf in [(["--costs"], UNSET)] + [(["--session", conf], conf) for conf in CONFS]:
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
        if conf:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = conf
        done = subprocess.run([sys.executable, os.path.abspath(__file__), *arguments, "--stop-at", str(given.stop_at - 5)],
                              env=environment, check=False, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            say({"failed": arguments, "why": done.stderr[-600:]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
