#!/usr/bin/env python3
# lint: long. One file, since users copy it to the machine where their job runs, and import it there.
"""Records what a PyTorch program asks of the CUDA memory allocator, as a trace that allocmark replays.

usage: record_pytorch.py --out T.ops.csv.gz script.py ARGS...            a whole script
       record_pytorch.py --out T.ops.csv.gz -m package.module ARGS...    a module
       record_pytorch.py --out T.ops.csv.gz --snapshot dump.pickle       a snapshot that was recorded with history

or from Python, around the part that matters:

    from record_pytorch import record
    with record("T.ops.csv.gz") as recording:
        for step in range(4):
            recording.mark(f"step{step}")
            train_step()

In: the allocator's own history (torch.cuda.memory._record_memory_history), one device. Out: the text format of
workloads/TRACES.md: unrounded request sizes, frees where the owner gave the block back, streams numbered from 0 (the
default stream), blocks that were live before the recording as its first allocs. A whole script gets a mark after every
optimizer step; `record_pytorch.mark("label")` anywhere adds one, and does nothing while nobody records.

Marks, record_stream and empty_cache are placed exactly: the allocator's counters say how many requests came before
them. The same counters tell at the end whether the history is complete; if not, nothing is written. Calls of
record_stream from C++ (DistributedDataParallel's reducer, NCCL) leave no trace and are missing.
Private pools are placed likewise: torch.cuda.MemPool, use_mem_pool, and captures, replays and ends of torch.cuda.CUDAGraph.
A pool that was there before the recording is made at its first row; requests of other threads go to it, too.

What happens between requests is recorded too; the head says from what: `# device work: marks`, `kernels` or `none`.

marks, the preset: host rows come from the history's times, less the time in the driver's calls, which the history shows
only roughly: a gap that ends in a new segment counts as the usual gap before a request, and a gap behind a cudaFree not
at all. Waits by synchronize, item, tolist and cpu are seen. CUDA events at the marks say how long the device took for a
step. Its time is spread over the step's host rows: the device counts as working from mark to mark, idle time included.
kernels, by --kernels or record(path, kernels=True): torch.profiler (CUPTI) gives every kernel, copy and wait and the
driver's calls. A wait after which earlier work still runs is host time; where the launch queue is full, the wait for a
place in it is left out. A launch takes longer under CUPTI; how much is measured at the beginning and left out.
Kernels of one stream are summed over 10 us of host time. A program that keeps the device busy takes 0 to 5 % longer by it, one
that is slow to launch 10 to 60 % (29 programs, NVIDIA H100, PyTorch 2.11). record(path, kernels=True, plain_ns=N) says how long the
part from the first mark to the end takes unrecorded: host times are then scaled until the recorded work takes as long.
Work that is impossible (times that go backwards, records that are lost) is named, and the trace is written without any.
Needs PyTorch 2.2 or later with the native allocator; no other package.
"""
import argparse
import bisect
import contextlib
import errno
import fcntl
import gzip
import importlib
import io
import itertools
import os
import pickle
import runpy
import stat
import statistics
import sys
import time
import weakref

ENTRIES_MAX = 16_000_000  # the history's ring; about 2 GiB of host memory if it fills
LABEL_CHARACTERS_MAX = 256
RELEASES = ("segment_free", "segment_unmap")
DRIVER_ENTRIES = (*RELEASES, "segment_alloc", "segment_map")
ROW_NS_MIN = 10_000  # host time below this waits for more, and so do kernels
BACKWARDS_NS_MAX = 50_000  # two clocks may differ by this much
QUEUED_GAP_NS_MAX = 5_000  # between a kernel and the next that was queued before it ended
SCALE_MIN = 0.5  # of host times
QUEUE_LAUNCHES_MIN = 512  # so many that have not begun fill the queue of launches
LOST_SHARE_MAX = 0.01
CALIBRATION_LAUNCHES = 200
WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cuCtxSynchronize",
         "cuStreamSynchronize", "cuEventSynchronize")
DRIVER_CALLS = ("cudaMalloc", "cudaFree", "cuMem", "cudaHostAlloc")
COPIES = ("cudaMemcpy", "cuMemcpy")


class RecordError(Exception):
    """Says what went wrong, what was wanted and what to do next."""


class BadWork(Exception):
    """Says where recorded times are impossible. The trace is then written without host and device work."""


class Position:
    """A place in the history: how many allocs and frees came before it."""

    def __init__(self, count, kind, value=None, time_ns=None):
        self.count = count
        # "mark" (value: label), "record" (value: (address, raw stream)), "empty_cache", "pool" (value: (call of PoolRows, key, more)),
        # "pool_trim" (value: key)
        self.kind = kind
        self.value = value
        self.time_ns = time_ns  # of the host's clock; None: not known

    def place(self):
        return f"mark {self.value!r}" if self.kind == "mark" else f"{self.kind} behind {self.count} allocs and frees"


def check_label(label):
    label = str(label)
    if not label or len(label) > LABEL_CHARACTERS_MAX or "," in label or not label.isprintable():
        raise RecordError(f"mark {label!r}: wanted 1 to {LABEL_CHARACTERS_MAX} printable characters without comma")
    return label


class Streams:
    """Raw stream values to indexes: the default stream is 0, others count up as they appear."""

    def __init__(self):
        self.indexes = {0: 0}

    def index(self, raw):
        return self.indexes.setdefault(raw, len(self.indexes))


COMMON_POOL = (0, 0)
TRIMS = ("empty_cache", "pool_trim")


class Pool:
    """A private pool as the rows have it so far."""

    def __init__(self, number):
        self.number = number
        self.uses = 0
        self.is_begun = self.is_on_oom = self.has_graph = self.is_released = False
        self.captured = None  # the index of the stream, while a graph is captured into it


class PoolRows:
    """Rows of private pools: of MemPools and graphs. Keys are any names of theirs. Calls that came before the recording are
    missing, so what a valid trace needs of them is put in."""

    def __init__(self, converter):
        self.converter = converter
        self.pools = {}  # key -> the last Pool of that key
        self.number_last = 0

    def add(self, row):
        return self.converter.add(row)

    def stream(self, raw):
        return self.converter.streams.index(raw)

    def used(self, key):
        """The pool of that key, or a new one where there is none or its last use has ended."""
        if key not in self.pools or self.pools[key].is_released:
            self.number_last += 1
            self.pools[key] = Pool(self.number_last)
        return self.pools[key]

    def create(self, key):
        pool = self.used(key)
        pool.uses += self.add(f"pool_create,{pool.number},0,0")

    def set_on_oom(self, key, is_on):
        pool = self.pools.get(key)
        if pool is not None and pool.is_on_oom != is_on and self.add(f"pool_on_oom,{pool.number},{is_on:d},0"):
            pool.is_on_oom = is_on

    def set_no_split(self, key):
        if key in self.pools:
            self.add(f"pool_no_split,{self.pools[key].number},0,0")

    def begin(self, key, raw_stream=None):
        """Routes the requests of that stream to the pool; without one those of all streams."""
        pool = self.used(key)
        if pool.is_begun:
            return
        columns = "1,0" if raw_stream is None else f"0,{self.stream(raw_stream)}"
        if self.add(f"pool_begin,{pool.number},{columns}"):
            pool.uses += 1
            pool.is_begun = True

    def begin_mem_pool(self, key):
        if self.used(key).uses == 0:  # made before the recording
            self.create(key)
        self.begin(key)

    def end(self, key):
        pool = self.pools.get(key)
        if pool is not None and pool.is_begun and self.add(f"pool_end,{pool.number},0,0"):
            pool.is_begun = False

    def release(self, key):
        pool = self.pools.get(key)
        if pool is None or pool.uses == 0:
            return
        if pool.uses == 1:
            self.end_capture(key)
            self.end(key)
            self.set_on_oom(key, False)
        if self.add(f"pool_release,{pool.number},0,0"):
            pool.uses -= 1
            pool.is_released = pool.uses == 0

    def trim(self, key):
        if key in self.pools:
            self.add(f"empty_cache,{self.pools[key].number},0,0")

    def begin_capture(self, key, raw_stream, is_alone):
        """`is_alone`: no other stream asks while it is captured."""
        self.begin(key, raw_stream if is_alone else None)
        pool = self.pools.get(key)
        if pool.captured is None and self.add(f"capture_begin,{pool.number},0,{self.stream(raw_stream)}"):
            pool.captured = self.stream(raw_stream)

    def end_capture(self, key):
        pool = self.pools.get(key)
        if pool is not None and pool.captured is not None and self.add(f"capture_end,{pool.number},0,{pool.captured}"):
            pool.captured = None
            pool.has_graph = True
            self.end(key)

    def replay(self, key, raw_stream):
        pool = self.pools.get(key)
        if pool is not None and pool.has_graph and not pool.is_released:  # else captured before the recording
            self.add(f"graph_replay,{pool.number},0,{self.stream(raw_stream)}")

    def finish(self):
        """What was begun ends with the trace, which may be cut."""
        for pool in self.pools.values():
            if pool.captured is not None:
                self.converter.rows.append(f"capture_end,{pool.number},0,{pool.captured}")
            if pool.is_begun:
                self.converter.rows.append(f"pool_end,{pool.number},0,0")


def blocks_of(segments, device):
    """Blocks that their owner still holds, as {address: (requested bytes, raw stream, pool)}."""
    live = {}
    for segment in segments:
        if segment.get("device", device) != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            address = block.get("address", address)
            if block["state"] == "active_allocated":
                pool = tuple(segment.get("segment_pool_id", COMMON_POOL))
                live[address] = (block.get("requested_size", block["size"]), segment["stream"], pool)
            address += block["size"]
    return live


def preamble(entries, segments, device):
    """Blocks that were live before the first entry, by address: those freed without an alloc before, and those that
    the segments still show and the entries never mention."""
    before, allocated = {}, set()
    for entry in entries:
        if entry["action"] == "alloc":
            allocated.add(entry["addr"])
        elif entry["action"] == "free_requested":
            if entry["addr"] not in allocated:
                before.setdefault(entry["addr"], (entry["size"], entry["stream"], tuple(entry.get("pool_id", COMMON_POOL))))
            # The address may be allocated and freed again; only the first free can be of an older block.
            allocated.add(entry["addr"])
    for address, block in blocks_of(segments, device).items():
        if address not in allocated:
            before[address] = block
    return sorted(before.items())


def is_empty_cache(entries, index, needless=frozenset()):
    """Whether a burst of releases ends before `index` and stands alone. Inside a malloc a new segment or a failure
    follows in the same locked section."""
    while index < len(entries) and entries[index]["action"] == "free_completed":
        index += 1
    return index == len(entries) or index in needless or entries[index]["action"] not in (*RELEASES, "segment_alloc", "segment_map", "oom")


def needless_ends(snapshot, entries):
    """Where bursts of releases end that the segments behind them did not need: the device once gave as much as both together.
    Then the program emptied the cache. Garbage collection releases for reasons of its own."""
    if snapshot.get("allocator_settings", {}).get("garbage_collection_threshold", 0) > 0:
        return set()
    changes = [{"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}.get(entry["action"], 0) * entry.get("size", 0)
               for entry in entries]
    reserved = list(itertools.accumulate(changes, initial=0))
    most, found, before = max(reserved), set(), None
    for index, change in enumerate(changes):
        if change < 0:
            before = reserved[index] if before is None else before
        elif entries[index]["action"] != "free_completed":
            wanted = sum(itertools.takewhile(lambda one: one > 0, changes[index:index + 10_000]))
            if before is not None and wanted > 0 and before + wanted <= most:
                found.add(index)
            before = None
    return found


class Converter:
    """Turns history entries and positions into rows; `rows` and the figures below are the result."""

    def __init__(self, operation_count_max, work=None):
        self.operation_count_max = operation_count_max
        self.work = work  # what happens between the events; None: not known
        self.rows = []
        self.positions = []  # not placed yet
        self.streams = Streams()
        self.pools = PoolRows(self)
        self.ids = {}  # address -> (id, bytes)
        self.host_ids = {}  # of pinned blocks of the host: number -> id
        self.id_last = 0
        self.operation_count = 0
        self.live_bytes = 0
        self.live_bytes_peak = 0
        self.failed_count = 0
        self.is_cut = False

    def add(self, row):
        """Returns False once the trace is as long as it may be."""
        if self.operation_count_max is not None and self.operation_count >= self.operation_count_max:
            self.is_cut = True
            return False
        self.operation_count += not row.startswith(("mark,", "host,", "kernel,", "sync,"))
        self.rows.append(row)
        return True

    def advance(self, time_ns, place, in_full=False):
        if self.work is not None and time_ns is not None:
            self.work.advance(self, time_ns, place, in_full)

    def alloc(self, address, size_bytes, stream):
        if address in self.ids:
            raise RecordError(f"the block at {address:#x} is allocated twice without a free in between: wanted a complete "
                              "history; record again, without the program restarting the history itself")
        if self.add(f"alloc,{self.id_last + 1},{size_bytes},{self.streams.index(stream)}"):
            self.id_last += 1
            self.ids[address] = (self.id_last, size_bytes)
            self.live_bytes += size_bytes
            self.live_bytes_peak = max(self.live_bytes_peak, self.live_bytes)

    def free(self, address):
        if address not in self.ids:
            raise RecordError(f"a free of {address:#x}, which is not live: wanted a complete history; record again")
        block, size_bytes = self.ids.pop(address)
        if self.add(f"free,{block},0,0"):
            self.live_bytes -= size_bytes

    def failed_alloc(self, entry):
        """A request that failed is marked so, and given back at once: its owner never had it."""
        self.failed_count += 1
        if self.add(f"alloc,{self.id_last + 1},{entry['size']},{self.streams.index(entry['stream'])},failed"):
            self.id_last += 1
            self.add(f"free,{self.id_last},0,0")

    def place(self, position):
        self.advance(position.time_ns, position.place, position.kind not in (*TRIMS, "pool"))
        if position.kind == "mark":
            self.add(f"mark,{position.value},0,0")
        elif position.kind == "empty_cache":
            self.add("empty_cache,0,0,0")
        elif position.kind == "pool_trim":
            self.pools.trim(position.value)
        elif position.kind == "pool":
            call, *arguments = position.value
            getattr(self.pools, call)(*arguments)
        elif position.kind == "host":
            self.place_host(*position.value)
        else:
            address, stream = position.value
            if address in self.ids:  # else a view into memory that this allocator does not own
                self.add(f"record,{self.ids[address][0]},0,{self.streams.index(stream)}")

    def place_host(self, what, number, value=0):
        """A step of a pinned block of the host: "alloc" of so many bytes, "use" by a raw stream, "free"."""
        if what == "alloc":
            if self.add(f"host_alloc,{len(self.host_ids) + 1},{value},0"):
                self.host_ids[number] = len(self.host_ids) + 1
        elif number in self.host_ids:  # else the trace was cut before it
            stream = self.streams.index(value) if what == "use" else 0
            self.add(f"host_record,{self.host_ids[number]},0,{stream}" if what == "use" else f"host_free,{self.host_ids[number]},0,0")

    def place_until(self, count, kinds=()):
        """Places the positions up to `count`; with `kinds` those up to the first of these kinds, if there is one."""
        due = 0
        while due < len(self.positions) and self.positions[due].count <= count:
            due += 1
            if self.positions[due - 1].kind in kinds:
                break
        else:
            due = 0 if kinds else due
        for position in self.positions[:due]:
            self.place(position)
        del self.positions[:due]
        return due > 0

    def convert(self, entries, positions, needless=frozenset()):
        self.positions = sorted(positions, key=lambda position: position.count)  # stable: equal counts keep their order
        count = 0
        for index, entry in enumerate(entries):
            if self.is_cut:
                return
            action = entry["action"]
            counts = action in ("alloc", "free_requested")
            # What the program did between two requests comes before anything that the second one caused.
            if counts:
                self.place_until(count)
            count += counts
            if action in ENTRIES_KEPT:
                self.advance(entry.get("time_us", 0) * 1000, lambda index=index, action=action: place_of(index, action))
            if action == "alloc":
                self.alloc(entry["addr"], entry["size"], entry["stream"])
            elif action == "free_requested":
                self.free(entry["addr"])
            elif action == "oom":
                self.failed_alloc(entry)
            # A call of empty_cache that was seen has its own position; others show by their releases alone.
            elif action in RELEASES and is_empty_cache(entries, index + 1, needless) and not self.place_until(count, TRIMS):
                self.place(Position(count, "empty_cache"))
        self.place_until(count)
        if self.work is not None and not self.is_cut:
            self.work.finish(self)

    def convert_all(self, entries, positions, blocks, needless):
        """`blocks`: those that were live before the first entry, as preamble() gives them. Their pools are told where any are."""
        tells_pools = any(position.kind == "pool" for position in positions)
        for address, (size_bytes, stream, pool) in blocks:
            if tells_pools and pool != COMMON_POOL:
                self.pools.begin_mem_pool(pool)
            self.alloc(address, size_bytes, stream)
            if tells_pools and pool != COMMON_POOL:
                self.pools.end(pool)
                self.pools.release(pool)
        self.convert(entries, positions, needless)
        self.pools.finish()


ENTRIES_KEPT = ("alloc", "free_requested", "oom")


def place_of(index, action):
    return f"entry {index} of the history ({action})"


class Spans:
    """Spans of time that may overlap, and how much of them lies before a time."""

    def __init__(self, spans):
        self.begins, self.ends, self.sums = [], [], [0]
        for begin, end in sorted(spans):
            if self.ends and begin <= self.ends[-1]:
                self.sums[-1] += max(0, end - self.ends[-1])
                self.ends[-1] = max(end, self.ends[-1])
            else:
                self.begins.append(begin)
                self.ends.append(end)
                self.sums.append(self.sums[-1] + end - begin)

    def before(self, time_ns):
        count = bisect.bisect_right(self.begins, time_ns)
        return self.sums[count] - (max(0, self.ends[count - 1] - time_ns) if count else 0)


class Work:
    """What the program and the device do between the allocator's events; gives rows `host`, `kernel` and `sync`.

    items: (time, "sync", 0, 0) and (time, "kernel", ns, raw stream), where the host starts them.
    away: spans that are not the program's own time. shares: (mark's time, ns, raw stream): the device's time from this
    mark to the next, to be spread over the host's. extra: (time, ns): what recording itself took there."""

    def __init__(self, kind, begin_ns, end_ns=None, items=(), away=(), shares=(), extra=()):
        self.kind = kind
        self.time_ns = begin_ns
        self.place = lambda: "the beginning"
        self.end_ns = end_ns
        self.items = sorted((item for item in items if item[0] >= begin_ns and (end_ns is None or item[0] <= end_ns)),
                            key=lambda item: item[0])
        self.next_item = 0
        self.away = Spans(away)
        self.extra_times, self.extra_sums = [], [0]
        for time_ns, cost_ns in sorted(extra):
            self.extra_times.append(time_ns)
            self.extra_sums.append(self.extra_sums[-1] + cost_ns)
        self.shares = list(shares)
        self.share_left = 0  # of the device's time, in this step
        self.share_rate = 0.0
        self.own_last = self.own(begin_ns)
        self.host_ns = 0  # gathered, no row yet
        self.kernels = {}  # raw stream -> ns, no row yet
        if self.shares:
            self.begin_share()

    def own(self, time_ns):
        """The program's own time up to then."""
        return time_ns - self.away.before(time_ns) - self.extra_sums[bisect.bisect_left(self.extra_times, time_ns)]

    def begin_share(self):
        begin, self.share_left, _ = self.shares[0]
        end = self.shares[1][0] if len(self.shares) > 1 else self.end_ns
        self.share_rate = self.share_left / max(1, self.own(end) - self.own(begin))

    def gather(self, time_ns):
        own = self.own(time_ns)
        self.host_ns += max(0, own - self.own_last)
        self.own_last = max(own, self.own_last)

    def advance(self, converter, time_ns, place, in_full=False):
        """Rows for everything up to this time. `in_full`: nothing is held back for a later row."""
        if time_ns < self.time_ns - BACKWARDS_NS_MAX:
            raise BadWork(f"{place()}: its time is {(self.time_ns - time_ns) / 1e6:.3f} ms before that of {self.place()}: "
                          "wanted times that do not go backwards")
        self.time_ns, self.place = max(time_ns, self.time_ns), place
        while self.next_item < len(self.items) and self.items[self.next_item][0] <= time_ns:
            begin, kind, duration_ns, stream = self.items[self.next_item]
            self.next_item += 1
            self.gather(begin)
            if kind == "sync":
                self.flush(converter, True)
                converter.add("sync,0,0,0")
            else:
                if self.host_ns >= ROW_NS_MIN:
                    self.flush(converter)
                self.kernels[stream] = self.kernels.get(stream, 0) + duration_ns
        self.gather(time_ns)
        self.flush(converter, in_full)
        if self.shares and len(self.shares) > 1 and time_ns >= self.shares[1][0]:
            self.add_kernel(converter, self.shares[0][2], self.share_left)
            self.shares.pop(0)
            self.begin_share()

    def add_kernel(self, converter, stream, duration_ns):
        if duration_ns > 0:
            converter.add(f"kernel,0,{duration_ns},{converter.streams.index(stream)}")

    def flush(self, converter, in_full=False):
        if not in_full and self.host_ns < ROW_NS_MIN and max(self.kernels.values(), default=0) < ROW_NS_MIN:
            return
        # Less than a row's host time was gathered when they were launched.
        for stream, duration_ns in self.kernels.items():
            self.add_kernel(converter, stream, duration_ns)
        self.kernels = {}
        if self.host_ns and (in_full or self.host_ns >= ROW_NS_MIN):
            converter.add(f"host,0,{self.host_ns},0")
            if self.shares:
                share = min(self.share_left, round(self.host_ns * self.share_rate))
                self.share_left -= share
                self.add_kernel(converter, self.shares[0][2], share)
            self.host_ns = 0

    def finish(self, converter):
        """Up to the end, where the recorder waited for the device."""
        if self.end_ns is None:
            return
        self.advance(converter, max(self.end_ns, self.time_ns), lambda: "the end", True)
        if self.shares:
            self.add_kernel(converter, self.shares[0][2], self.share_left)
        converter.add("sync,0,0,0")


def driver_spans(entries, maps_alone=False):
    """Spans of driver calls as far as a history shows them: new segments are entered behind their call, cudaFree before it.
    A gap before the first entry of a burst counts as the usual gap before a request, and those inside not at all.
    `maps_alone`: only those of expandable segments."""
    watched = ("segment_map", "segment_unmap") if maps_alone else (*DRIVER_ENTRIES, "oom")
    pairs = [(before, after, (after["time_us"] - before["time_us"]) * 1000) for before, after in zip(entries, entries[1:])]
    usual_ns = statistics.median_low([gap for before, after, gap in pairs if after["action"] == "alloc" and before["action"]
                                      not in DRIVER_ENTRIES] or [0])
    spans = []
    for before, after, gap_ns in pairs:
        end_ns = after["time_us"] * 1000
        if before["action"] in watched and after["action"] in ("alloc", *watched):
            spans.append((end_ns - gap_ns, end_ns))
        elif (after["action"] in watched and after["action"] != "segment_free") or (before["action"] == "segment_free" and not maps_alone):
            spans.append((end_ns - max(0, gap_ns - usual_ns), end_ns))
    return [(begin, end) for begin, end in spans if end > begin]


class Activity:
    """A record of the profiler: a call of the host (`stream` is None) or something that ran on the device."""

    def __init__(self, name, begin_ns, end_ns, correlation, stream=None):
        self.name, self.begin_ns, self.end_ns, self.correlation, self.stream = name, begin_ns, end_ns, correlation, stream

    def is_launch(self):
        return "Launch" in self.name or self.name.startswith((*COPIES, "cudaMemset", "cuMemset"))


def busy_ns_of(on_device, launched_ns):
    """{correlation: ns}: for how long each launch keeps its stream: without overlap, and with the short gap between a kernel
    and the next one that was in the queue already."""
    found, ends = {}, {}
    for one in sorted(on_device, key=lambda one: one.begin_ns):
        end = ends.get(one.stream, one.begin_ns)
        begin = max(one.begin_ns, end)
        if begin - end <= QUEUED_GAP_NS_MAX and launched_ns[one.correlation] < end:
            begin = end
        found[one.correlation] = found.get(one.correlation, 0) + max(0, one.end_ns - begin)
        ends[one.stream] = max(end, one.end_ns)
    return found


def check_records(launches, on_device, calls_by_id, begin_ns):
    """Raises BadWork where the profiler lost records. A copy of nothing has none, nor have some memsets of cuBLAS and cuDNN."""
    ran = {one.correlation for one in on_device}
    launches = [one for one in launches if "Launch" in one.name]
    lost = [one for one in launches if one.correlation not in ran]
    orphans = [one for one in on_device if one.correlation not in calls_by_id]
    for found, all_count, what, missing in ((lost, len(launches), "launches", "record on the device"),
                                            (orphans, len(on_device), "records on the device", "launch")):
        if len(found) > max(2, LOST_SHARE_MAX * all_count):
            raise BadWork(f"{found[0].name} {(found[0].begin_ns - begin_ns) / 1e6:.3f} ms after the beginning has no {missing}, like "
                          f"{len(found)} of {all_count} {what}: the profiler lost records; wanted all; record a shorter part")


def check_device_times(on_device, begin_ns, end_ns, waited_ns):
    """Raises BadWork where the device worked for longer than there was time, or goes on behind the last wait."""
    sums, names = {}, {}
    for one in on_device:
        if one.end_ns > waited_ns + BACKWARDS_NS_MAX:
            raise BadWork(f"{one.name} on stream {one.stream} ends {(one.end_ns - waited_ns) / 1e6:.3f} ms behind the last wait for the "
                          "device: nobody waits for its stream; wanted work that ends before the recording does")
        sums[one.stream] = sums.get(one.stream, 0) + one.end_ns - one.begin_ns
        names.setdefault(one.stream, one.name)
    span_ns = max(end_ns, waited_ns) - begin_ns
    for stream, sum_ns in sums.items():
        if sum_ns > 1.05 * span_ns + 1_000_000:
            raise BadWork(f"stream {stream} (first {names[stream]}) worked {sum_ns / 1e6:.3f} ms in a recording of {span_ns / 1e6:.3f} ms: "
                          "wanted work that fits into it")


def full_queue_spans(launches, on_device):
    """Where a launch waited because the queue of launches was full."""
    begins = sorted(one.begin_ns for one in on_device)
    usual_ns = statistics.median_low([one.end_ns - one.begin_ns for one in launches] or [0])
    return [(one.begin_ns + usual_ns, one.end_ns) for index, one in enumerate(launches)
            if one.end_ns - one.begin_ns > 10 * usual_ns and index - bisect.bisect_right(begins, one.begin_ns) >= QUEUE_LAUNCHES_MIN]


def work_of_profile(activities, streams, begin_ns, end_ns, waited_ns, launch_ns=0, extra=()):
    """Work of kind kernels. `streams`: {stream of the profiler: raw stream}; end_ns: where the program ended; waited_ns: when
    the recorder had waited for the device after it."""
    calls = sorted((one for one in activities if one.stream is None and begin_ns <= one.begin_ns <= end_ns), key=lambda one: one.begin_ns)
    launches = [one for one in calls if one.is_launch()]
    by_id = {one.correlation: one for one in launches}
    launched_ns = {one.correlation: one.begin_ns for one in launches}
    early_ids = {one.correlation for one in activities if one.stream is None and not begin_ns <= one.begin_ns <= end_ns}
    on_device = [one for one in activities if one.stream is not None and one.correlation not in early_ids]
    check_records(launches, on_device, by_id, begin_ns)
    on_device = [one for one in on_device if one.correlation in by_id]
    check_device_times(on_device, begin_ns, end_ns, waited_ns)
    last_ends, stream_of = {}, {}
    for one in on_device:
        last_ends[one.correlation] = max(one.end_ns, last_ends.get(one.correlation, 0))
        stream_of[one.correlation] = streams.get(one.stream, f"profiler's {one.stream}")
    items = [(launched_ns[key], "kernel", duration_ns, stream_of[key]) for key, duration_ns in busy_ns_of(on_device, launched_ns).items()]
    away = [(one.begin_ns, one.end_ns) for one in calls if one.name.startswith(DRIVER_CALLS) and not one.is_launch()]
    away += full_queue_spans(launches, on_device)
    running_until = 0
    for one in calls:
        waits = one.name in WAITS or (one.name.startswith(COPIES) and last_ends.get(one.correlation, one.end_ns + 1) <= one.end_ns)
        if waits and running_until <= one.end_ns + ROW_NS_MIN:
            items.append((one.begin_ns + (one.name not in WAITS), "sync", 0, 0))
            away.append((one.begin_ns, one.end_ns))
        running_until = max(running_until, last_ends.get(one.correlation, 0))
    return Work("kernels", begin_ns, end_ns, items, away, extra=[*extra, *((time_ns, launch_ns) for time_ns in launched_ns.values())])


def two_clocks_ns(work, scale=1.0):
    """How long recorded work takes where the host waits for the device at each sync alone. work: (row's kind, ns, stream)."""
    host_ns, ends = 0.0, {}
    for kind, duration_ns, stream in work:
        if kind == "host":
            host_ns += scale * duration_ns
        elif kind == "kernel":
            ends[stream] = max(ends.get(stream, 0.0), host_ns) + duration_ns
        else:
            host_ns = max([host_ns, *ends.values()])
    return host_ns


def scale_host(rows, plain_ns):
    """(rows, scale): host times made shorter until what follows the first mark of the program takes `plain_ns`, as unrecorded."""
    first = next((index for index, row in enumerate(rows) if row.startswith("mark,") and row != "mark,begin,0,0"), 0)
    fields = [row.split(",") for row in rows[first:] if row.startswith(("host,", "kernel,", "sync,"))]
    work = [(kind, int(value), stream) for kind, _, value, stream in fields]
    low, high = SCALE_MIN, 1.0
    if two_clocks_ns(work) <= plain_ns:
        return rows, 1.0
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (low, middle) if two_clocks_ns(work, middle) > plain_ns else (middle, high)
    scale = round(low, 3)
    scaled = [f"host,0,{max(1, round(scale * int(row.split(',')[2])))},0" if row.startswith("host,") else row for row in rows]
    return scaled, scale


def check_shares(shares, end_ns, waited_ns, labels):
    """Raises BadWork where the device's time between two marks is more than there was."""
    for index, (time_ns, duration_ns, _) in enumerate(shares):
        span_ns = max(end_ns, waited_ns) - time_ns
        if duration_ns < 0 or duration_ns > 1.02 * span_ns + 1_000_000:
            raise BadWork(f"{labels[index]}: the device took {duration_ns / 1e6:.3f} ms up to the next mark, and the recording ended "
                          f"{span_ns / 1e6:.3f} ms after it: wanted device work that fits into the recording")


def work_of_history(entries):
    """Work of kind none: the program's own time between the entries."""
    if any("time_us" not in entry for entry in entries):
        raise BadWork("the history has no times: wanted time_us in every entry, as PyTorch 2.2 and later write it")
    return Work("none", entries[0]["time_us"] * 1000, away=driver_spans(entries))


def positions_of(entries, positions):
    """The same, with what is known of captures only when they have ended: the pool, and whether other streams asked."""
    streams = [entry["stream"] if entry["action"] == "alloc" else None for entry in entries if entry["action"] in ("alloc", "free_requested")]
    ends = {position.value[1]: position.count for position in positions if position.kind == "pool" and position.value[0] == "end_capture"}
    found = []
    for position in positions:
        if position.kind == "pool" and isinstance(position.value[1], Graph):
            call, graph, *more = position.value
            if call == "begin_capture":
                asked = set(streams[position.count:ends.get(graph, len(streams))]) - {None}
                more.append(asked <= {more[0]})
            position = Position(position.count, "pool", (call, graph.key(), *more), position.time_ns)
        found.append(position)
    return found


def convert(snapshot, device=0, positions=(), expected_count=None, operation_count_max=None, remarks=None, make_work=None, plain_ns=None):
    """Returns (Converter, text of the trace file) for one device of a snapshot dictionary. `expected_count`: allocs and
    frees that the allocator counted while recording. `make_work` gets the entries and returns Work; `plain_ns`: scale_host."""
    traces = snapshot.get("device_traces")
    if not traces or device >= len(traces) or not traces[device]:
        raise RecordError(f"the snapshot has no history for device {device}: wanted device_traces[{device}] with entries; "
                          "record with history on, around code that uses the GPU, or name another device")
    entries = traces[device]
    found_count = sum(entry["action"] in ("alloc", "free_requested") for entry in entries)
    if expected_count is not None and found_count != expected_count:
        raise RecordError(f"the history holds {found_count} allocs and frees, the allocator counted {expected_count}: the "
                          "ring overflowed or the program restarted the history itself; wanted all of them; use a larger "
                          "--max-entries, or record a shorter part")

    def made(work):
        converter = Converter(operation_count_max, work)
        converter.add("mark,begin,0,0")
        # While a program is recorded its calls of empty_cache are seen.
        needless = frozenset() if expected_count is not None else needless_ends(snapshot, entries)
        converter.convert_all(entries, positions_of(entries, positions), preamble(entries, snapshot.get("segments", []), device), needless)
        return converter

    remarks = {} if remarks is None else remarks
    try:
        converter = made(make_work(entries) if make_work else None)
    except BadWork as error:
        print(f"record_pytorch.py: {error}; the trace has no device work", file=sys.stderr)
        converter = made(None)
        remarks["left out"] = f"{error}"
    if plain_ns is not None and converter.work is not None:
        converter.rows, scale = scale_host(converter.rows, plain_ns)
        remarks["host time"] = f"scaled by {scale}, since the part from the first mark to the end takes {plain_ns / 1e6:.3f} ms unrecorded"
    return converter, render(converter, remarks)


def render(converter, remarks):
    lines = [f"# {key}: {value}" for key, value in remarks.items()]
    lines.append(f"# device work: {converter.work.kind if converter.work else 'none'}")
    lines.append("# generator: recorded")
    lines.append(f"# streams: {len(converter.streams.indexes)}")
    lines.append(f"# events: {len(converter.rows)}")
    if converter.is_cut:
        lines.append(f"# cut: after {converter.operation_count} operations")
    if converter.failed_count:
        lines.append(f"# failed: {converter.failed_count} requests failed while recording; they are marked so")
    if not converter.failed_count:
        return "\n".join([*lines, "op,id,size,stream", *converter.rows]) + "\n"
    rows = [row if row.endswith(",failed") else row + "," for row in converter.rows]
    return "\n".join([*lines, "op,id,size,stream,tensor", *rows]) + "\n"


def descriptor_of(path):
    """The open descriptor that it names (/dev/stdout, /dev/fd/N), by links or not; None for any other path."""
    for _ in range(40):
        folder, name = os.path.split(os.path.abspath(path))
        if name.isdigit() and (folder == "/dev/fd" or (folder.startswith("/proc/") and folder.endswith("/fd"))):
            return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def open_pipe(path, wait_s=15):
    """A device or a pipe, which opens once somebody reads it."""
    for attempts_left in range(int(wait_s * 50), -1, -1):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
            return descriptor
        except OSError as error:
            if error.errno != errno.ENXIO or attempts_left == 0:
                raise
            time.sleep(0.02)
    raise AssertionError("the loop returns or raises")


def open_part(target):
    """(name, descriptor) of the file beside it, empty and locked: a new one, or what a writer that was killed left behind. Where another
    process writes it, or it is no plain file of this user's own, one with this process's number in its name."""
    folder, name = os.path.split(target)
    part, flags = os.path.join(folder, f".{name}.part"), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    while True:
        try:
            descriptor = os.open(part, flags, 0o666)
        except OSError:
            break
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode) or opened.st_uid != os.geteuid() or opened.st_nlink > 1:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its writer may have given it its name, or taken it away, before it was locked here.
            if os.path.exists(part) and os.path.samestat(os.lstat(part), opened):
                os.ftruncate(descriptor, 0)
                return part, descriptor
            os.close(descriptor)
        except OSError:
            os.close(descriptor)
            break
    part = os.path.join(folder, f".{name}.{os.getpid()}.part")
    return part, os.open(part, flags | os.O_EXCL, 0o666)


def write_file(path, data):
    """Writes bytes as allocmark's own files are written. A regular file is replaced whole or not at all: its bytes go to a file beside it, to
    the disk, and then take its name. A link stays, and the file that it leads to is replaced. A device, a pipe and an open descriptor are
    written straight through."""
    path = os.fspath(path)
    descriptor = descriptor_of(path)
    is_there = os.path.exists(path)
    if descriptor is not None or (is_there and not os.path.isfile(path) and not os.path.isdir(path)):
        with open(open_pipe(path) if descriptor is None else os.dup(descriptor), "wb") as file:
            file.write(data)
        return
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    part, descriptor = open_part(target)
    with open(descriptor, "wb") as file:
        try:
            if is_there:
                os.fchmod(descriptor, os.stat(target).st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
            os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise


def write_trace(path, text):
    """The same text gives the same bytes."""
    data = text.encode()
    if path.endswith(".gz"):
        packed = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
            file.write(data)
        data = packed.getvalue()
    try:
        write_file(path, data)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}; name a file in a folder that exists") from error


def trace_name(path):
    name = os.path.basename(path)
    for ending in (".gz", ".csv", ".ops"):
        name = name[:-len(ending)] if name.endswith(ending) else name
    return name or "recorded"


def import_torch():
    try:
        import torch
    except ImportError as error:
        raise RecordError(f"PyTorch cannot be imported ({error}): wanted PyTorch 2.2 or later with CUDA; run with the "
                          "Python that has it") from error
    if not torch.cuda.is_available():
        raise RecordError("this PyTorch sees no CUDA device (torch.cuda.is_available() is False): wanted a GPU, since the "
                          "trace is what its allocator is asked; run on a machine with one, or give --snapshot")
    return torch


class Watch:
    """Sees what the host and the device do while a recording runs; work() tells it afterwards."""

    sees_waits = True  # without wrapping functions of PyTorch

    def __init__(self, torch, device):
        self.torch, self.device = torch, device
        self.begin_ns = self.end_ns = self.waited_ns = 0
        self.entry_ns = 0  # what the history takes for an entry
        self.away = []

    def begin(self):
        self.begin_ns = time.time_ns()

    def mark(self, label):
        pass

    def leave_out(self, begin_ns):
        self.away.append((begin_ns, time.time_ns()))

    def extra(self, entries):
        return [(entry["time_us"] * 1000, self.entry_ns) for entry in entries if entry["action"] in ENTRIES_KEPT]

    def wait_at_end(self):
        self.end_ns = time.time_ns()
        self.torch.cuda.synchronize(self.device)
        self.waited_ns = time.time_ns()

    def end(self, raw_streams):
        pass


class MarkWatch(Watch):
    """CUDA events at the marks, and waits that Python asks for."""

    sees_waits = False

    def __init__(self, torch, device):
        super().__init__(torch, device)
        self.marks = []  # (time, event, raw stream, label)
        self.waits = []

    def begin(self):
        super().begin()
        self.mark("the beginning")

    def mark(self, label):
        stream = self.torch.cuda.current_stream(self.device)
        event = self.torch.cuda.Event(enable_timing=True)
        event.record(stream)
        self.marks.append((time.time_ns(), event, stream.cuda_stream, label))

    def wait(self, begin_ns):
        self.waits.append((begin_ns, "sync", 0, 0))
        self.leave_out(begin_ns)

    def wait_at_end(self):
        self.mark("the end")
        super().wait_at_end()

    def work(self, entries, remarks):
        shares = [(time_ns, round(event.elapsed_time(after[1]) * 1e6), stream)
                  for (time_ns, event, stream, _), after in zip(self.marks, self.marks[1:])]
        check_shares(shares, self.end_ns, self.waited_ns, [one[3] for one in self.marks])
        return Work("marks", self.begin_ns, self.end_ns, self.waits, self.away + driver_spans(entries), shares, self.extra(entries))


class KernelWatch(Watch):
    """Kernels, copies, waits and the driver's calls by CUPTI."""

    def __init__(self, torch, device):
        super().__init__(torch, device)
        self.profile = None
        self.activities, self.streams, self.launch_ns, self.tagged_ns = [], {}, 0, 0

    def launch_cost_ns(self):
        """Of one launch, the least of three times many."""
        costs = []
        for _ in range(3):
            self.torch.cuda.synchronize(self.device)
            begin_ns = time.perf_counter_ns()
            for _ in range(CALIBRATION_LAUNCHES):
                self.torch.cuda._sleep(1)
            costs.append((time.perf_counter_ns() - begin_ns) / CALIBRATION_LAUNCHES)
        self.torch.cuda.synchronize(self.device)
        return min(costs)

    def begin(self):
        from torch.autograd import profiler
        with self.torch.cuda.device(self.device):
            cost_ns = self.launch_cost_ns()
            try:
                self.profile = profiler.profile(use_device="cuda", use_cpu=False, use_kineto=True)
                self.profile.__enter__()
            except (AssertionError, RuntimeError, TypeError) as error:
                raise RecordError(f"the profiler does not start ({error}): wanted PyTorch 2.3 or later with CUPTI; record without kernels") from error
            self.launch_ns = max(0, round(self.launch_cost_ns() - cost_ns))
        super().begin()

    def end(self, raw_streams):
        """Stops the profiler. A kernel on each known stream in turn tells which number it has there."""
        cuda = self.torch.cuda
        self.tagged_ns = time.time_ns()
        with cuda.device(self.device):
            for raw in raw_streams:
                with cuda.stream(cuda.ExternalStream(raw) if raw else cuda.default_stream(self.device)):
                    cuda._sleep(1)
                cuda.synchronize(self.device)
        self.profile.__exit__(None, None, None)
        self.activities = activities_of(self.profile.kineto_results.events(), self.device)
        tags = sorted((one.begin_ns, one.stream) for one in self.activities if one.stream is not None and one.begin_ns >= self.tagged_ns)
        if len(tags) == len(raw_streams):
            self.streams = {tag[1]: raw for tag, raw in zip(tags, raw_streams)}

    def work(self, entries, remarks):
        if not self.streams:
            raise BadWork("the kernels that name the streams at the end are not among the profiler's records: it lost records; wanted all; "
                          "record a shorter part")
        remarks["clocks"] = check_clocks(self.activities, entries, self.end_ns, self.waited_ns)
        remarks["recording"] = (f"a launch took {self.launch_ns} ns longer under the profiler and a request or free {self.entry_ns} ns longer "
                                "with the history, which is left out")
        work = work_of_profile(self.activities, self.streams, self.begin_ns, self.end_ns, self.waited_ns, self.launch_ns,
                               self.extra(entries))
        work.away = Spans([*zip(work.away.begins, work.away.ends), *self.away, *driver_spans(entries, maps_alone=True)])
        return work


def activities_of(events, device):
    """The profiler's records of one device and of the host."""
    found = []
    for event in events:
        is_on_device = str(event.device_type()).endswith("CUDA")
        if is_on_device and event.device_index() != device:
            continue
        found.append(Activity(event.name(), event.start_ns(), event.start_ns() + event.duration_ns(), event.correlation_id(),
                              event.device_resource_id() if is_on_device else None))
    return found


def check_clocks(activities, entries, end_ns, waited_ns):
    """What shows that the profiler, the history and this process mean the same time; raises BadWork where they do not."""
    waits = [one for one in activities if one.name == "cudaDeviceSynchronize"]
    if not waits:
        raise BadWork("the recorder's own wait at the end is not among the profiler's records: it lost records; wanted all; record a shorter part")
    nearest = min(waits, key=lambda one: abs(one.begin_ns - end_ns))
    outside_ns = max(0, end_ns - nearest.begin_ns, nearest.end_ns - waited_ns)
    if outside_ns > BACKWARDS_NS_MAX:
        raise BadWork(f"the recorder's own wait at the end lies {outside_ns / 1e6:.3f} ms outside the times of this process: wanted a profiler "
                      "with the same clock")
    ends = sorted(one.end_ns for one in activities if one.name == "cudaMalloc")
    behind = [entry["time_us"] * 1000 - ends[index - 1] for entry in entries if entry["action"] == "segment_alloc"
              for index in [bisect.bisect_right(ends, entry["time_us"] * 1000 + 1000)] if index]
    text = f"the wait at the end lies {outside_ns} ns outside its bracket"
    if behind:
        behind_ns = statistics.median_low(behind)
        if behind_ns > 1_000_000:
            raise BadWork(f"new segments are in the history {behind_ns / 1e6:.3f} ms (median) behind the cudaMalloc that the profiler saw: "
                          "wanted a history and a profiler with the same clock")
        text += f"; segments enter the history {behind_ns} ns behind their cudaMalloc (median of {len(behind)})"
    return text


class Graph:
    """A graph that was captured, by its pool. PyTorch tells the pool when the capture has ended."""

    def __init__(self, pool):
        self.pool = pool  # None: not known
        self.is_over = False

    def key(self):
        return self if self.pool is None else self.pool


class PoolWatch:
    """Notes what a program does with private pools while it is recorded."""

    def __init__(self, recording):
        self.recording = recording
        self.torch = recording.torch
        self.graphs = weakref.WeakKeyDictionary()  # CUDAGraph -> Graph
        self.finalizers = []

    def note(self, *value):
        self.recording.note("pool", value)

    def begin(self):
        wrap, memory = self.recording.wrap, self.torch.cuda.memory
        # Both are called: by use_mem_pool, and by torch.compile's trees of graphs.
        for owner in (memory, self.torch._C):
            for name in ("_cuda_beginAllocateCurrentThreadToPool", "_cuda_beginAllocateToPool"):
                wrap(owner, name, lambda device, pool, *_: self.of_device(device) and self.note("begin_mem_pool", tuple(pool)))
            wrap(owner, "_cuda_endAllocateToPool", lambda device, pool, *_: self.of_device(device) and self.note("end", tuple(pool)))
            wrap(owner, "_cuda_releasePool", lambda device, pool, *_: self.of_device(device) and self.note("release", tuple(pool)))
        if hasattr(memory, "MemPool"):
            wrap(memory.MemPool, "__init__", lambda *_, **__: None, None, self.made)
        graph = self.torch.cuda.CUDAGraph
        # It makes blocks of its own before it routes any request.
        wrap(graph, "capture_begin", lambda *_, **__: None, None, self.capture_began)
        wrap(graph, "capture_end", self.capture_ends, self.capture_ended)
        wrap(graph, "replay", self.replays)
        wrap(graph, "reset", lambda graph, *_: self.graph_ends(self.graphs.get(graph)))

    def of_device(self, device):
        return device == self.recording.device

    def made(self, pool, *arguments, **options):
        given = dict(zip(("allocator", "use_on_oom", "no_split"), arguments), **options)
        key = tuple(pool.id)
        self.note("create", key)
        if given.get("use_on_oom"):
            self.note("set_on_oom", key, True)
        if given.get("no_split"):
            self.note("set_no_split", key)
        self.finalizers.append(weakref.finalize(pool, self.mem_pool_ends, key))

    def mem_pool_ends(self, key):
        self.note("release", key)
        self.recording.note("pool_trim", key)

    def capture_began(self, graph, pool=None, *_, **__):
        self.graph_ends(self.graphs.get(graph))
        known = self.graphs[graph] = Graph(None if pool is None else tuple(pool))
        self.finalizers.append(weakref.finalize(graph, self.graph_ends, known))
        self.note("begin_capture", known, self.torch.cuda.current_stream().cuda_stream)

    def capture_ends(self, graph, *_, **__):
        if graph in self.graphs:
            self.note("end_capture", self.graphs[graph])

    def capture_ended(self, _, graph, *__):
        if graph in self.graphs and self.graphs[graph].pool is None:
            with contextlib.suppress(RuntimeError):  # the capture failed
                self.graphs[graph].pool = tuple(graph.pool())

    def replays(self, graph, *_, **__):
        if graph in self.graphs:
            self.note("replay", self.graphs[graph], self.torch.cuda.current_stream().cuda_stream)

    def graph_ends(self, known):
        if known is not None and not known.is_over:
            known.is_over = True
            self.note("release", known)

    def end(self):
        for finalizer in self.finalizers:
            finalizer.detach()


class HostWatch:
    """Notes pinned memory of the host that a program asks PyTorch for, and its copies that do not wait."""

    FACTORIES = ("empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "rand", "rand_like",
                 "randn", "randn_like", "randint", "arange", "tensor")

    def __init__(self, recording):
        self.recording = recording
        self.torch = recording.torch
        self.numbers = {}  # address of a pinned block -> its number
        self.number_last = 0
        self.finalizers = []

    def begin(self):
        def nothing(*_, **__):
            pass

        wrap, tensor = self.recording.wrap, self.torch.Tensor
        # `with torch.device(...)` knows these functions from a set that PyTorch makes once, so it must not be made of wrapped ones.
        make_set = getattr(getattr(getattr(self.torch, "utils", None), "_device", None), "_device_constructors", None)
        if make_set is not None:
            make_set()
        for name in self.FACTORIES:
            wrap(self.torch, name, nothing, given=lambda answer, *_, **options: options.get("pin_memory") and self.made(answer))
        wrap(tensor, "pin_memory", nothing, given=lambda answer, source, *_, **__: answer is not source and self.made(answer))
        for name in ("to", "cuda"):
            wrap(tensor, name, nothing, given=self.moved)
        wrap(tensor, "copy_", nothing, given=self.copied)

    def made(self, tensor):
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address == 0 or address in self.numbers:
            return
        self.number_last += 1
        self.numbers[address] = self.number_last
        self.note("alloc", self.number_last, storage.nbytes())
        self.finalizers.append(weakref.finalize(storage, self.gone, address))

    def gone(self, address):
        self.note("free", self.numbers.pop(address))

    def note(self, *value):
        self.recording.note("host", value)

    def used(self, tensor):
        number = None if tensor.is_cuda else self.numbers.get(tensor.untyped_storage().data_ptr())
        if number is not None:
            self.note("use", number, self.torch.cuda.current_stream().cuda_stream)

    def moved(self, answer, source, *_, non_blocking=False, **__):
        """A copy from the device that does not wait has a pinned block of its own."""
        if not non_blocking or answer is source or source.is_cuda == answer.is_cuda:
            return
        if source.is_cuda and answer.is_pinned():
            self.made(answer)
        self.used(source if answer.is_cuda else answer)

    def copied(self, _, target, source, non_blocking=False, **__):
        if non_blocking and source.is_cuda != target.is_cuda:
            self.used(source if target.is_cuda else target)

    def end(self):
        for finalizer in self.finalizers:
            finalizer.detach()


def know_tensor_methods():
    """torch.compile traces a call of a tensor's method where it finds it in a set that it makes once: not of wrapped ones."""
    with contextlib.suppress(ImportError, AttributeError):
        importlib.import_module("torch._dynamo.trace_rules").get_tensor_method()


class Recording:
    """One recording on one device, between begin() and end(). Use record()."""

    def __init__(self, path, device=None, operation_count_max=None, entries_max=ENTRIES_MAX, name=None, kernels=False, plain_ns=None):
        self.path = path
        self.name = name or trace_name(path)
        self.operation_count_max = operation_count_max
        self.entries_max = entries_max
        self.plain_ns = plain_ns
        self.torch = import_torch()
        cuda = self.torch.cuda
        cuda.init()
        backend = cuda.memory.get_allocator_backend()
        if backend != "native":
            raise RecordError(f"the allocator is {backend!r}, which keeps no history: wanted the native one; unset backend: "
                              "in PYTORCH_CUDA_ALLOC_CONF")
        self.device = cuda.current_device() if device is None else device
        if not 0 <= self.device < cuda.device_count():
            raise RecordError(f"device {self.device}: wanted 0 to {cuda.device_count() - 1}")
        self.positions = []
        self.undo = []
        self.count_first = 0
        self.watch = (KernelWatch if kernels else MarkWatch)(self.torch, self.device)
        self.pool_watch = PoolWatch(self)
        self.host_watch = HostWatch(self)
        self.converter = None  # after end(): rows, live_bytes_peak, operation_count

    def request_count(self):
        """Allocs and frees since the process began, by the allocator's own counters."""
        stats = self.torch.cuda.memory.memory_stats_as_nested_dict(self.device)
        allocation = stats.get("allocation", {}).get("all", {})
        return allocation.get("allocated", 0) + allocation.get("freed", 0)

    def note(self, kind, value=None):
        self.positions.append(Position(self.request_count() - self.count_first, kind, value, time.time_ns()))

    def mark(self, label):
        """A step boundary before whatever is asked next."""
        self.note("mark", check_label(label))
        self.watch.mark(label)

    def wrap(self, owner, name, before, after=None, done=None, given=None):
        """Lets `before` see the calls of owner.name until end(), `after` when they began, `done` those that came to an end, and `given`
        these with their answer. torch.compile sees the call itself: what stands around it would cut the program's graph in two."""
        if not hasattr(owner, name):
            return
        original, is_own = getattr(owner, name), name in vars(owner)
        is_compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", lambda: False)

        def seen(*arguments, **options):
            if is_compiling():
                return original(*arguments, **options)
            before(*arguments, **options)
            begin_ns = time.time_ns()
            try:
                answer = original(*arguments, **options)
            finally:
                if after is not None:
                    after(begin_ns, *arguments)
            if done is not None:
                done(*arguments, **options)
            if given is not None:
                given(answer, *arguments, **options)
            return answer

        self.name_for_torchscript(original, seen)
        setattr(owner, name, seen)
        self.undo.append(lambda: setattr(owner, name, original) if is_own else delattr(owner, name))

    def name_for_torchscript(self, original, seen):
        """TorchScript knows PyTorch's functions by their identities, and cannot compile what stands around one: it gets its name."""
        builtins = getattr(getattr(self.torch, "jit", None), "_builtins", None)
        name = builtins._find_builtin(original) if hasattr(builtins, "_get_builtin_table") else None
        if name is not None:
            builtins._get_builtin_table()[id(seen)] = name
            self.undo.append(lambda: builtins._get_builtin_table().pop(id(seen)))

    def note_record_stream(self, tensor, stream):
        if tensor.is_cuda and tensor.get_device() == self.device:
            self.note("record", (tensor.untyped_storage().data_ptr(), stream.cuda_stream))

    def start_history(self):
        self.torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=self.entries_max)

    def entry_cost_ns(self):
        """Of a request or free that the cache serves, the least of three times many."""
        costs = []
        for _ in range(3):
            begin_ns = time.perf_counter_ns()
            for _ in range(CALIBRATION_LAUNCHES):
                self.torch.empty(512, device=self.device)
            costs.append((time.perf_counter_ns() - begin_ns) / CALIBRATION_LAUNCHES / 2)
        return min(costs)

    def begin(self):
        memory = self.torch.cuda.memory
        memory._record_memory_history(enabled=None)  # an older history must not be mixed in
        plain_ns = self.entry_cost_ns()
        self.start_history()
        self.watch.entry_ns = max(0, round(self.entry_cost_ns() - plain_ns))
        memory._record_memory_history(enabled=None)
        self.start_history()
        self.count_first = self.request_count()
        know_tensor_methods()
        for owner in (self.torch.cuda, memory):
            self.wrap(owner, "empty_cache", lambda *_: self.note("empty_cache"), lambda begin_ns, *_: self.watch.leave_out(begin_ns))
        self.wrap(self.torch.Tensor, "record_stream", self.note_record_stream)
        self.pool_watch.begin()
        self.host_watch.begin()
        self.watch.begin()
        if not self.watch.sees_waits:
            self.wrap(self.torch.cuda, "synchronize", lambda *_, **__: None, lambda begin_ns, *_: self.watch.wait(begin_ns))
            for name in ("item", "tolist", "cpu"):
                self.wrap(self.torch.Tensor, name, lambda *_, **__: None, self.note_read)

    def note_read(self, begin_ns, tensor, *_):
        if tensor.is_cuda and tensor.get_device() == self.device:
            self.watch.wait(begin_ns)

    def end(self):
        """Stops, converts and writes. Raises RecordError where the history is not complete."""
        self.stop_watching()
        memory = self.torch.cuda.memory
        expected_count = self.request_count() - self.count_first
        self.watch.wait_at_end()
        snapshot = memory._snapshot()
        memory._record_memory_history(enabled=None)
        self.watch.end(self.raw_streams(snapshot))
        remarks = {"name": self.name, "torch": self.torch.__version__,
                   "device": self.torch.cuda.get_device_name(self.device)}
        settings = snapshot.get("allocator_settings", {}).get("PYTORCH_CUDA_ALLOC_CONF")
        if settings:
            remarks["allocator settings"] = settings
        self.converter, text = convert(snapshot, self.device, self.positions, expected_count, self.operation_count_max,
                                       remarks, lambda entries: self.watch.work(entries, remarks), self.plain_ns)
        write_trace(self.path, text)

    def raw_streams(self, snapshot):
        """Raw values of the streams that the history and record_stream name; the default stream is the first."""
        traces = snapshot.get("device_traces", [])
        entries = traces[self.device] if self.device < len(traces) else []
        found = [0, *(entry["stream"] for entry in entries if entry["action"] == "alloc")]
        used = [one.value[2] for one in self.positions if one.kind == "host" and one.value[0] == "use"]
        return list(dict.fromkeys([*found, *(one.value[1] for one in self.positions if one.kind == "record"), *used]))

    def stop_watching(self):
        self.pool_watch.end()
        self.host_watch.end()
        while self.undo:
            self.undo.pop()()


_current = None


def mark(label):
    """A step boundary in the recording that is under way; nothing if there is none."""
    if _current is not None:
        _current.mark(label)


@contextlib.contextmanager
def record(path, **options):
    """Records the body of the `with`. The trace is written even if the body raises, whose error is the one that is seen then.
    Options as for Recording."""
    global _current
    if _current is not None:
        raise RecordError(f"already recording to {_current.path}: wanted one recording at a time; end it first")
    recording = Recording(path, **options)
    recording.begin()
    _current = recording
    try:
        yield recording
    except BaseException:
        _current = None
        try:
            recording.end()
        except RecordError as error:
            print(f"record_pytorch.py: {path}: not written: {error}", file=sys.stderr)
        raise
    _current = None
    recording.end()


def mark_optimizer_steps(recording):
    """Marks step0 now and step N after the N-th optimizer step. Returns what takes the hook away."""
    recording.mark("step0")
    state = {"step": 0}

    def after_step(*_):
        if _current is recording:
            state["step"] += 1
            recording.mark(f"step{state['step']}")

    from torch.optim.optimizer import register_optimizer_step_post_hook
    return register_optimizer_step_post_hook(after_step)


def run_program(arguments, path):
    """Runs the script or module as __main__ under a recording."""
    # The program may `import record_pytorch` and mark: it must meet this very module.
    sys.modules.setdefault("record_pytorch", sys.modules[__name__])
    program = arguments.command[0]
    if not arguments.module and not os.path.isfile(program):
        raise RecordError(f"{program}: no such script; give the script to run after the options")
    sys.argv = list(arguments.command)
    sys.path[0] = os.getcwd() if arguments.module else os.path.dirname(os.path.abspath(program))
    with record(path, device=arguments.device, operation_count_max=arguments.max_ops,
                entries_max=arguments.max_entries, kernels=arguments.kernels) as recording:
        hook = None if arguments.no_step_marks else mark_optimizer_steps(recording)
        try:
            if arguments.module:
                runpy.run_module(program, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(program, run_name="__main__")
        finally:
            if hook is not None:
                hook.remove()
    return recording.converter


class PlainUnpickler(pickle.Unpickler):
    """Snapshots are plain dictionaries, lists and numbers; anything else in the file is refused, not run."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")


def convert_pickle(arguments, path):
    try:
        with open(arguments.snapshot, "rb") as file:
            snapshot = PlainUnpickler(file).load()
    except (OSError, pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError) as error:
        raise RecordError(f"{arguments.snapshot}: not a memory snapshot: {error}; wanted the file that "
                          "torch.cuda.memory._dump_snapshot() writes") from error
    if not isinstance(snapshot, dict):
        raise RecordError(f"{arguments.snapshot}: wanted a dictionary with device_traces, got {type(snapshot).__name__}")
    converter, text = convert(snapshot, arguments.device or 0, operation_count_max=arguments.max_ops,
                              remarks={"name": trace_name(path)}, make_work=work_of_history)
    write_trace(path, text)
    return converter


def summary(converter):
    return (f"{converter.operation_count} operations, {converter.id_last} allocs, "
            f"peak {converter.live_bytes_peak} requested bytes, {len(converter.streams.indexes)} streams")


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="trace file to write; {rank} becomes the RANK of torchrun")
    parser.add_argument("--device", type=int, help="device index (preset: the current one)")
    parser.add_argument("--max-ops", type=int, help="end the trace after so many operations")
    parser.add_argument("--max-entries", type=int, default=ENTRIES_MAX, help="entries of PyTorch's history ring")
    parser.add_argument("--no-step-marks", action="store_true", help="no mark after each optimizer step")
    parser.add_argument("--kernels", action="store_true", help="record every kernel, with the profiler")
    parser.add_argument("--snapshot", help="convert this snapshot instead of running a program")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="script or module, and its arguments")
    arguments = parser.parse_args(argv)
    if bool(arguments.snapshot) == bool(arguments.command):
        parser.error("give either a program to run or --snapshot FILE")
    for option in ("max_ops", "max_entries"):
        value = getattr(arguments, option)
        if value is not None and value < 1:
            parser.error(f"--{option.replace('_', '-')} {value}: wanted at least 1")
    return arguments


def main(argv=None):
    arguments = parse(argv)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1 and "{rank}" not in arguments.out:
        sys.exit(f"record_pytorch.py: --out {arguments.out}: {world} processes would write one file; put {{rank}} in the name")
    run_and_tell(arguments, arguments.out.replace("{rank}", os.environ.get("RANK", "0")))


def run_and_tell(arguments, path):
    """What main does once it is known which file this process writes."""
    try:
        converter = convert_pickle(arguments, path) if arguments.snapshot else run_program(arguments, path)
    except RecordError as error:
        sys.exit(f"record_pytorch.py: {error}")
    print(f"record_pytorch.py: {path}: {summary(converter)}", file=sys.stderr)


if __name__ == "__main__":
    main()
