#!/usr/bin/env python3
"""Records what PyTorch's allocator of pinned host memory decides, and what pinning costs on this machine.

scripts/measure/host_probe.py [--seconds 100] > host_probe.jsonl

Needs a CUDA build of PyTorch and a GPU. Each session is a process of its own with its own PYTORCH_CUDA_ALLOC_CONF.
A session runs random allocations, copies, frees, waits and cache flushes. After every operation it writes one line: what was
asked, the address that came back, and every counter of torch.cuda.host_memory_stats() that changed. A session holds at most
1.8 GiB of pinned memory, and at most four run at a time; the two that pin more run alone. No line is left out or averaged.

Whether an event has passed decides what the allocator does, so the recording must know it. A stream is either behind a kernel that
sleeps, or idle: a free that leaves an event on an idle stream is followed by a wait for that stream ("sync"). 'before' and 'after'
say which streams were asleep when the operation began and ended. A reader takes 'before', and distrusts a line where they differ.

Lines:
  {"session": NAME, "conf": TEXT or null, "seed": N, "torch": VERSION, ...}    begins a session
  {"o": "alloc", "t": TENSOR, "n": BYTES, "p": ADDRESS, ...}                   torch.empty(n, pin_memory=True)
  {"o": "copy", "t": TENSOR, "q": STREAM, ...}                                 a non-blocking copy that uses the tensor
  {"o": "free", "t": TENSOR}, {"o": "sleep", "q": STREAM}, {"o": "sync", "q": STREAM}, {"o": "wait"}, {"o": "empty"}, {"o": "reset_peak"},
  {"o": "reset_accumulated"}, {"o": "set", "conf": TEXT}, {"o": "capture", "g": GRAPH}, {"o": "captured"}, {"o": "drop", "g": GRAPH}
     every line: "s" = counters that changed, "before", "after" = streams asleep (bits), "us" = duration, "e" = error text
  {"refusals": {CONF: error text or null}}                                     what the parser says to settings
  {"cost": CALL, "mib": N, "ns": [...], "note": TEXT}                          raw durations of one runtime call
  {"end": NAME, "operations": N, "seconds": S}                                 ends a session
"""
import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time

import pin_costs

MIB = 1 << 20
PINNED_BYTES_MAX = 1800 * MIB  # of one random session, free and used
LARGEST_BLOCK_BYTES = 128 * MIB
STREAMS = 2
SLEEP_CYCLES = 60_000_000  # about 30 ms at 2 GHz; a line where a stream wakes is marked
SLEEP_SECONDS_USED = 0.012


class Session:
    """One recording. Owns the pinned tensors; each lives in exactly one slot of `tensors`."""

    def __init__(self, torch, seed, operations, seconds, background=False, write=None):
        self.torch, self.random = torch, random.Random(seed)
        self.operations, self.stop_at = operations, time.monotonic() + seconds
        self.background = background  # events are processed by a thread of PyTorch: give it time
        self.write = write or (lambda line: sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n"))
        self.tensors, self.used, self.next_tensor, self.lines = {}, {}, 0, 0
        self.stats_seen = {}
        self.streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        self.markers = [None] * STREAMS
        self.asleep_since = [None] * STREAMS
        self.device = torch.empty(LARGEST_BLOCK_BYTES, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()

    # What is recorded

    def counters(self):
        """All integer counters of the host allocator, flat. Times are left out: they differ from run to run."""
        flat = {}

        def walk(prefix, value):
            if isinstance(value, dict):
                for key, inner in value.items():
                    walk(f"{prefix}.{key}" if prefix else key, inner)
            elif isinstance(value, (list, tuple)):
                for index, inner in enumerate(value):
                    walk(f"{prefix}.{index}", inner)
            elif isinstance(value, int) and (not prefix.startswith(("host_alloc_time.", "host_free_time.")) or prefix.endswith(".count")):
                flat[prefix] = value

        walk("", self.torch._C._cuda_hostMemoryStats())
        return flat

    def asleep(self):
        bits = 0
        for index, marker in enumerate(self.markers):
            if marker is not None and not marker.query():
                bits |= 1 << index
        return bits

    def step(self, line, action):
        """Does `action` and writes its line. Returns what the action gave, or None where it failed."""
        line["before"] = self.asleep()
        began = time.perf_counter_ns()
        given = None
        try:
            given = action()
        except RuntimeError as error:
            line["e"] = str(error)[:400]
        line["us"] = (time.perf_counter_ns() - began) // 1000
        if isinstance(given, self.torch.Tensor):
            line["p"] = given.data_ptr()
        line["after"] = self.asleep()
        self.settle()
        now = self.counters()
        line["s"] = {key: value for key, value in now.items() if self.stats_seen.get(key) != value}
        self.stats_seen = now
        self.write(line)
        self.lines += 1
        return given

    def settle(self):
        if self.background:
            time.sleep(0.002)

    def pinned_bytes(self):
        """Bytes that PyTorch holds pinned, free ones too."""
        stats = self.stats_seen or self.counters()
        return stats.get("allocated_bytes.current", 0)

    def alloc(self, size_bytes):
        tensor = self.next_tensor
        self.next_tensor += 1
        given = self.step({"o": "alloc", "t": tensor, "n": size_bytes},
                          lambda: self.torch.empty(size_bytes, dtype=self.torch.uint8, pin_memory=True))
        if given is not None:
            self.tensors[tensor], self.used[tensor] = given, set()

    def copy(self, tensor, stream):
        held = self.tensors[tensor]
        size_bytes = min(held.numel(), 4 * MIB)
        if size_bytes == 0:
            return
        first = self.random.randrange(held.numel() - size_bytes + 1)
        there, here = self.device[:size_bytes], held[first:first + size_bytes]
        to_device = self.random.random() < 0.6

        def action():
            with self.torch.cuda.stream(self.streams[stream]):
                (there if to_device else here).copy_(here if to_device else there, non_blocking=True)

        self.step({"o": "copy", "t": tensor, "q": stream}, action)
        self.used[tensor].add(stream)

    def free(self, tensor):
        held = [self.tensors.pop(tensor)]
        used = self.used.pop(tensor)
        self.step({"o": "free", "t": tensor}, held.clear)
        for stream in sorted(used):
            if stream < STREAMS and self.markers[stream] is None:
                # An event on an idle stream passes soon, but not at once. Wait, so that it is known.
                self.step({"o": "sync", "q": stream}, self.streams[stream].synchronize)

    def sleep(self, stream):
        def action():
            with self.torch.cuda.stream(self.streams[stream]):
                self.torch.cuda._sleep(SLEEP_CYCLES)
                self.markers[stream] = self.torch.cuda.Event()
                self.markers[stream].record(self.streams[stream])

        self.step({"o": "sleep", "q": stream}, action)
        self.asleep_since[stream] = time.monotonic()

    def wait(self):
        def action():
            self.torch.cuda.synchronize()
            self.markers, self.asleep_since = [None] * STREAMS, [None] * STREAMS

        self.step({"o": "wait"}, action)

    def empty(self):
        self.step({"o": "empty"}, self.torch._C._host_emptyCache)

    # Random programs

    def size_bytes(self, largest_bytes):
        largest_bits = largest_bytes.bit_length() - 1
        kind = self.random.random()
        if kind < 0.5:  # around a power of two, small ones as often as large ones
            return max(0, min(largest_bytes, (1 << self.random.randrange(largest_bits + 1)) + self.random.choice((-1, 0, 0, 1))))
        if kind < 0.75:
            return self.random.randrange(1, 1 << self.random.randrange(1, largest_bits + 1))
        if kind < 0.98:
            return self.random.choice((100, 513, 4096, 4097, 12345, 65536, 1_000_000, 3 * MIB, 5 * MIB + 1))
        return self.random.choice((0, 1))

    def make_room(self, size_bytes):
        """Frees and flushes until the request fits below PINNED_BYTES_MAX even if it is rounded up to twice its size."""
        while self.pinned_bytes() + 2 * size_bytes > PINNED_BYTES_MAX:
            self.wait()
            for tensor in self.random.sample(sorted(self.tensors), (len(self.tensors) + 1) // 2):
                self.free(tensor)
            self.empty()
            if not self.tensors and self.pinned_bytes() + 2 * size_bytes > PINNED_BYTES_MAX:
                return

    def run(self, settings=(), capture=False):
        while self.lines < self.operations and time.monotonic() < self.stop_at:
            if any(since is not None and time.monotonic() - since > SLEEP_SECONDS_USED for since in self.asleep_since):
                self.wait()
            blocked = any(since is not None for since in self.asleep_since)
            self.one(blocked, settings, capture)
        self.wait()
        for tensor in sorted(self.tensors):
            self.free(tensor)
        self.wait()
        self.empty()

    def one(self, blocked, settings, capture):
        """One random operation, or none where the one that was drawn does not apply."""
        kind = self.random.random()
        if kind < 0.42:
            size_bytes = self.size_bytes(4 * MIB if blocked else LARGEST_BLOCK_BYTES)
            if not blocked:
                self.make_room(size_bytes)
            self.alloc(size_bytes)
        elif kind < 0.60 and self.tensors:
            self.copy(self.random.choice(sorted(self.tensors)), self.random.randrange(STREAMS))
        elif kind < 0.90 and self.tensors:
            self.free(self.random.choice(sorted(self.tensors)))
        elif kind < 0.94:
            self.sleep(self.random.randrange(STREAMS))
        elif kind < 0.975:
            (self.wait if kind < 0.965 else self.empty)()
        elif kind < 0.985:
            self.reset("peak" if kind < 0.98 else "accumulated")
        elif kind < 0.99 and settings:
            conf = self.random.choice(settings)
            self.step({"o": "set", "conf": conf}, lambda: set_conf(self.torch, conf))
        elif kind < 0.995 and capture and not blocked:
            self.captured_part(self.lines)

    def reset(self, kind):
        calls = {"peak": self.torch._C._cuda_resetPeakHostMemoryStats, "accumulated": self.torch._C._cuda_resetAccumulatedHostMemoryStats}
        self.step({"o": f"reset_{kind}"}, calls[kind])

    def captured_part(self, name):
        """A graph that pins buffers while it is recorded, copies through some and frees them before it ends."""
        self.wait()
        graph = self.torch.cuda.CUDAGraph()
        # Copies inside run on the stream of the graph, number STREAMS.
        with self.torch.cuda.stream(self.torch.cuda.Stream()):
            self.step({"o": "capture", "g": name}, lambda: graph.capture_begin(capture_error_mode="relaxed"))
            try:
                mine = []
                for _ in range(self.random.randrange(1, 6)):
                    tensor = self.next_tensor
                    self.alloc(self.random.choice((100, 4096, 70_000, 70_000, MIB)))
                    if tensor in self.tensors:
                        mine.append(tensor)
                        if self.random.random() < 0.5:
                            self.step({"o": "copy", "t": tensor, "q": STREAMS}, lambda tensor=tensor: self.captured_copy(tensor))
                        if self.random.random() < 0.5:
                            mine.remove(tensor)
                            self.free(tensor)
            finally:
                self.step({"o": "captured"}, graph.capture_end)
        graph.replay()
        self.wait()
        for tensor in mine:
            self.free(tensor)
        self.step({"o": "drop", "g": name}, graph.reset)
        self.empty()

    def captured_copy(self, tensor):
        self.device[:self.tensors[tensor].numel()].copy_(self.tensors[tensor], non_blocking=True)

    def published(self):
        """Sizes that users reported, and the same at an eighth where the whole would be too much for a guest."""
        for sizes in ([int(2.25 * 1024) * MIB], [int(1.20 * 1024) * MIB], [154 * MIB] * 5, [96 * MIB, 36 * MIB, 9 * MIB] * 4):
            first = self.next_tensor
            for size_bytes in sizes:
                before = pinned_of_process()
                self.alloc(size_bytes)
                self.write({"process": {key: value - before.get(key, 0) for key, value in pinned_of_process().items()}})
            for tensor in range(first, self.next_tensor):
                if tensor in self.tensors:
                    self.free(tensor)
            self.empty()


def pinned_of_process():
    """VmRSS, VmLck and VmPin of this process, in KiB, as Linux counts them."""
    found = {}
    with open("/proc/self/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith(("VmRSS:", "VmLck:", "VmPin:")):
                found[line.split(":")[0]] = int(line.split()[1])
    return found


def set_conf(torch, conf):
    for name in ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"):
        if hasattr(torch._C, name):
            getattr(torch._C, name)(conf)
            return
    raise RuntimeError("this PyTorch has no call that changes settings")


# name -> (conf, seed, operations, what is special)
SESSIONS = {
    "unset": (None, 1, 5000, ""),
    "register_threads": ("pinned_use_cuda_host_register:True,pinned_num_register_threads:8", 2, 3000, ""),
    "register": ("pinned_use_cuda_host_register:True", 3, 2000, ""),
    "reserve": ("pinned_reserve_segment_size_mb:256", 4, 4000, ""),
    "reserve_small": ("pinned_reserve_segment_size_mb:1", 5, 2000, ""),
    "reserve_register": ("pinned_reserve_segment_size_mb:64,pinned_use_cuda_host_register:True,pinned_num_register_threads:4", 6, 2000, ""),
    "background": ("pinned_use_background_threads:True", 7, 2500, "background"),
    "toggle": ("pinned_use_cuda_host_register:False", 8, 2500, "toggle"),
    "capture": (None, 9, 2500, "capture"),
    "unset_again": (None, 10, 5000, ""),
    "published": (None, 11, 100, "published"),
    "costs": (None, 12, 0, "costs"),
}
ALONE = ("published", "costs")


def session_main(name, seconds):
    conf, seed, operations, special = SESSIONS[name]
    import torch

    began = time.monotonic()
    torch.cuda.init()

    def write(line):
        sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")

    write({"session": name, "conf": conf, "seed": seed, "torch": torch.__version__, "cuda": torch.version.cuda,
           "card": torch.cuda.get_device_name(0), "cores": os.cpu_count(), "streams": STREAMS})
    lines = 0
    if special == "costs":
        torch.empty(1, device="cuda")
        write({"refusals": pin_costs.refusals(lambda text: set_conf(torch, text))})
        pin_costs.costs(write, seconds)
    else:
        session = Session(torch, seed, operations, seconds, background=special == "background", write=write)
        if special == "published":
            session.published()
        else:
            settings = ("pinned_use_cuda_host_register:True", "pinned_use_cuda_host_register:False") if special == "toggle" else ()
            session.run(settings, capture=special == "capture")
        lines = session.lines
    write({"end": name, "operations": lines, "seconds": round(time.monotonic() - began, 2)})
    return 0


def run_session(name, seconds, kill_after, lock):
    """Runs one session as a process and copies its lines in one piece, so that sessions do not mix."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
    if SESSIONS[name][0] is not None:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = SESSIONS[name][0]
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--session", name, "--seconds", str(seconds)],
                              env=environment, capture_output=True, text=True, timeout=kill_after, check=False)
        text, failed = done.stdout, (f"exit code {done.returncode}: {done.stderr[-600:]}" if done.returncode else "")
    except subprocess.TimeoutExpired as late:
        text, failed = (late.stdout or b"").decode(errors="replace"), "stopped: out of time"
        text = text[:text.rfind("\n") + 1]
    with lock:
        sys.stdout.write(text)
        if failed:
            sys.stdout.write(json.dumps({"failed": name, "why": failed}) + "\n")
        sys.stdout.flush()


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--seconds", type=float, default=100, help="the most that everything may take")
    options.add_argument("--session", choices=list(SESSIONS), help="run this one here, instead of all as processes")
    given = options.parse_args()
    if given.session:
        return session_main(given.session, given.seconds)
    began, lock = time.monotonic(), threading.Lock()

    def left():
        return given.seconds - (time.monotonic() - began)

    # What runs alone comes first, so that slow sessions cannot crowd it out.
    for name in ALONE:
        run_session(name, min(14, given.seconds / 6), max(5, min(left(), given.seconds / 3)), lock)
    waiting = [name for name in SESSIONS if name not in ALONE]
    waiting.reverse()

    def worker():
        while True:
            with lock:
                if not waiting or left() < 8:
                    return
                name = waiting.pop()
            run_session(name, max(4, min(12, left() - 8)), max(5, left()), lock)

    workers = [threading.Thread(target=worker) for _ in range(4)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    for name in waiting:
        sys.stdout.write(json.dumps({"failed": name, "why": "not started: out of time"}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
