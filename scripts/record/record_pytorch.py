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
record_stream from C++ (DistributedDataParallel's reducer, NCCL) and waits for the device leave no trace and are missing.
Needs PyTorch 2.2 or later with the native allocator; no other package.
"""
import argparse
import contextlib
import errno
import fcntl
import gzip
import io
import os
import pickle
import runpy
import stat
import sys
import time

ENTRIES_MAX = 16_000_000  # the history's ring; about 2 GiB of host memory if it fills
LABEL_CHARACTERS_MAX = 256
RELEASES = ("segment_free", "segment_unmap")


class RecordError(Exception):
    """Says what went wrong, what was wanted and what to do next."""


class Position:
    """A place in the history: how many allocs and frees came before it."""

    def __init__(self, count, kind, value=None):
        self.count = count
        self.kind = kind  # "mark" (value: label), "record" (value: (address, raw stream)), "empty_cache"
        self.value = value


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


def blocks_of(segments, device):
    """Blocks that their owner still holds, as {address: (requested bytes, raw stream)}."""
    live = {}
    for segment in segments:
        if segment.get("device", device) != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            address = block.get("address", address)
            if block["state"] == "active_allocated":
                live[address] = (block.get("requested_size", block["size"]), segment["stream"])
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
                before.setdefault(entry["addr"], (entry["size"], entry["stream"]))
            # The address may be allocated and freed again; only the first free can be of an older block.
            allocated.add(entry["addr"])
    for address, block in blocks_of(segments, device).items():
        if address not in allocated:
            before[address] = block
    return sorted(before.items())


def is_empty_cache(entries, index):
    """Whether a burst of releases ends before `index` and stands alone. Inside a malloc a new segment or a failure
    follows in the same locked section."""
    while index < len(entries) and entries[index]["action"] == "free_completed":
        index += 1
    return index == len(entries) or entries[index]["action"] not in (*RELEASES, "segment_alloc", "segment_map", "oom")


class Converter:
    """Turns history entries and positions into rows; `rows` and the figures below are the result."""

    def __init__(self, operation_count_max):
        self.operation_count_max = operation_count_max
        self.rows = []
        self.positions = []  # not placed yet
        self.streams = Streams()
        self.ids = {}  # address -> (id, bytes)
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
        self.operation_count += not row.startswith("mark,")
        self.rows.append(row)
        return True

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
        if position.kind == "mark":
            self.add(f"mark,{position.value},0,0")
        elif position.kind == "empty_cache":
            self.add("empty_cache,0,0,0")
        else:
            address, stream = position.value
            if address in self.ids:  # else a view into memory that this allocator does not own
                self.add(f"record,{self.ids[address][0]},0,{self.streams.index(stream)}")

    def place_until(self, count, kind=None):
        """Places the positions up to `count`; with `kind` those up to the first of that kind, if there is one."""
        due = 0
        while due < len(self.positions) and self.positions[due].count <= count:
            due += 1
            if self.positions[due - 1].kind == kind:
                break
        else:
            due = due if kind is None else 0
        for position in self.positions[:due]:
            self.place(position)
        del self.positions[:due]
        return due > 0

    def convert(self, entries, positions):
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
            if action == "alloc":
                self.alloc(entry["addr"], entry["size"], entry["stream"])
            elif action == "free_requested":
                self.free(entry["addr"])
            elif action == "oom":
                self.failed_alloc(entry)
            # A call of empty_cache that was seen has its own position; others show by their releases alone.
            elif action in RELEASES and is_empty_cache(entries, index + 1) and not self.place_until(count, "empty_cache"):
                self.place(Position(count, "empty_cache"))
        self.place_until(count)


def convert(snapshot, device=0, positions=(), expected_count=None, operation_count_max=None, remarks=None):
    """Returns (Converter, text of the trace file) for one device of a snapshot dictionary. `expected_count`: allocs and
    frees that the allocator counted while recording."""
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
    converter = Converter(operation_count_max)
    segments = snapshot.get("segments", [])
    converter.add("mark,begin,0,0")
    for address, (size_bytes, stream) in preamble(entries, segments, device):
        converter.alloc(address, size_bytes, stream)
    converter.convert(entries, list(positions))
    return converter, render(converter, remarks or {})


def render(converter, remarks):
    lines = [f"# {key}: {value}" for key, value in remarks.items()]
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


class Recording:
    """One recording on one device, between begin() and end(). Use record()."""

    def __init__(self, path, device=None, operation_count_max=None, entries_max=ENTRIES_MAX, name=None):
        self.path = path
        self.name = name or trace_name(path)
        self.operation_count_max = operation_count_max
        self.entries_max = entries_max
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
        self.converter = None  # after end(): rows, live_bytes_peak, operation_count

    def request_count(self):
        """Allocs and frees since the process began, by the allocator's own counters."""
        stats = self.torch.cuda.memory.memory_stats_as_nested_dict(self.device)
        allocation = stats.get("allocation", {}).get("all", {})
        return allocation.get("allocated", 0) + allocation.get("freed", 0)

    def note(self, kind, value=None):
        self.positions.append(Position(self.request_count() - self.count_first, kind, value))

    def mark(self, label):
        """A step boundary before whatever is asked next."""
        self.note("mark", check_label(label))

    def wrap(self, owner, name, before):
        """Lets `before` see the calls of owner.name until end()."""
        original = getattr(owner, name)

        def seen(*arguments, **options):
            before(*arguments, **options)
            return original(*arguments, **options)

        setattr(owner, name, seen)
        self.undo.append(lambda: setattr(owner, name, original))

    def note_record_stream(self, tensor, stream):
        if tensor.is_cuda and tensor.get_device() == self.device:
            self.note("record", (tensor.untyped_storage().data_ptr(), stream.cuda_stream))

    def begin(self):
        memory = self.torch.cuda.memory
        memory._record_memory_history(enabled=None)  # an older history must not be mixed in
        memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=self.entries_max)
        self.count_first = self.request_count()
        for owner in (self.torch.cuda, memory):
            self.wrap(owner, "empty_cache", lambda *_: self.note("empty_cache"))
        self.wrap(self.torch.Tensor, "record_stream", self.note_record_stream)

    def end(self):
        """Stops, converts and writes. Raises RecordError where the history is not complete."""
        self.stop_watching()
        memory = self.torch.cuda.memory
        expected_count = self.request_count() - self.count_first
        snapshot = memory._snapshot()
        memory._record_memory_history(enabled=None)
        remarks = {"name": self.name, "torch": self.torch.__version__,
                   "device": self.torch.cuda.get_device_name(self.device)}
        settings = snapshot.get("allocator_settings", {}).get("PYTORCH_CUDA_ALLOC_CONF")
        if settings:
            remarks["allocator settings"] = settings
        self.converter, text = convert(snapshot, self.device, self.positions, expected_count,
                                       self.operation_count_max, remarks)
        write_trace(self.path, text)

    def stop_watching(self):
        while self.undo:
            self.undo.pop()()


_current = None


def mark(label):
    """A step boundary in the recording that is under way; nothing if there is none."""
    if _current is not None:
        _current.mark(label)


@contextlib.contextmanager
def record(path, **options):
    """Records the body of the `with`. The trace is written even if the body raises. Options as for Recording."""
    global _current
    if _current is not None:
        raise RecordError(f"already recording to {_current.path}: wanted one recording at a time; end it first")
    recording = Recording(path, **options)
    recording.begin()
    _current = recording
    try:
        yield recording
    finally:
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
                entries_max=arguments.max_entries) as recording:
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
                              remarks={"name": trace_name(path)})
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
    path = arguments.out.replace("{rank}", os.environ.get("RANK", "0"))
    try:
        converter = convert_pickle(arguments, path) if arguments.snapshot else run_program(arguments, path)
    except RecordError as error:
        sys.exit(f"record_pytorch.py: {error}")
    print(f"record_pytorch.py: {path}: {summary(converter)}", file=sys.stderr)


if __name__ == "__main__":
    main()
