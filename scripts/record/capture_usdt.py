#!/usr/bin/env python3
"""Records what a running PyTorch program asks of its CUDA allocator, without a restart and without its help.

usage: capture_usdt.py --pid PID --out T.ops.csv      until Ctrl-C or the program's end; needs root and bpftrace
       capture_usdt.py --print LIBRARY                prints the bpftrace program for a libc10_cuda.so
       capture_usdt.py --from LOG --out T.ops.csv     converts what that program printed

Every libc10_cuda.so has two probes that cost nothing until somebody listens: pytorch:malloc and pytorch:free. In: the
lines of the bpftrace program, from all processors, not quite in order. Out: a trace in the format of
workloads/TRACES.md. What was live before is not in it, and neither are record_stream, empty_cache and failed requests.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
from collections import Counter

import record_pytorch
from record_pytorch import RecordError

# m NANOSECONDS POINTER DEVICE BYTES STREAM and f NANOSECONDS POINTER; pointers and streams are hexadecimal.
PROGRAM = """usdt:{library}:pytorch:malloc {{ printf("m %llu %llx %d %llu %llx\\n", nsecs, arg0, arg1, arg2, arg3); }}
usdt:{library}:pytorch:free {{ printf("f %llu %llx\\n", nsecs, arg0); }}
"""
LINE = re.compile(r"m (\d+) ([0-9a-f]+) (\d+) (\d+) ([0-9a-f]+)|f (\d+) ([0-9a-f]+)")


def library_of(pid):
    """The libc10_cuda.so that the process has loaded, as this machine sees it."""
    try:
        with open(f"/proc/{pid}/maps") as maps:
            paths = {line.split(maxsplit=5)[5].strip() for line in maps if line.rstrip().endswith("libc10_cuda.so")}
    except OSError as error:
        raise RecordError(f"process {pid}: {error.strerror}; wanted a running process that we may look at: run as root") from error
    if not paths:
        raise RecordError(f"process {pid} has loaded no libc10_cuda.so: wanted a PyTorch program that uses CUDA; wait until it "
                          "has imported torch")
    # A container has files of its own.
    return f"/proc/{pid}/root{sorted(paths)[0]}"


def listen(pid):
    """The lines of bpftrace, until somebody presses Ctrl-C or the process ends."""
    command = ["bpftrace", "-p", str(pid), "-e", PROGRAM.format(library=library_of(pid))]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        raise RecordError("bpftrace is not installed: wanted it, and root (Debian: apt-get install bpftrace)") from error
    # Ctrl-C reaches bpftrace, which then says the rest.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    lines, errors = process.communicate()
    signal.signal(signal.SIGINT, before)
    lost = re.search(r"Lost (\d+) events", errors)
    if lost:
        raise RecordError(f"bpftrace lost {lost.group(1)} events: wanted all of them; set BPFTRACE_PERF_RB_PAGES=4096 and try again")
    if process.returncode != 0 and not lines:
        raise RecordError(f"bpftrace failed: {errors.strip() or process.returncode}; it needs root")
    return lines.splitlines()


def read_events(lines):
    """(nanoseconds, pointer, device, bytes, stream) of requests and (nanoseconds, pointer) of frees, by time."""
    events = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("Attaching"):
            continue
        found = LINE.fullmatch(line.strip())
        if not found:
            raise RecordError(f"line {number}: {line[:60]!r} is no line of the bpftrace program: wanted 'm ...' or 'f ...' "
                              "(capture_usdt.py --print shows it)")
        time, pointer, device, size, stream, free_time, freed = found.groups()
        if time is None:
            events.append((int(free_time), int(freed, 16)))
        else:
            events.append((int(time), int(pointer, 16), int(device), int(size), int(stream, 16)))
    return sorted(events, key=lambda event: event[0])


def convert(events, device):
    """(Converter, frees of blocks that were live before) for one device; None is the one with the most requests."""
    counts = Counter(event[2] for event in events if len(event) == 5)
    if not counts:
        raise RecordError("no request was seen: wanted a program that asks its CUDA allocator while we listen")
    device = counts.most_common(1)[0][0] if device is None else device
    converter, other, earlier = record_pytorch.Converter(None), set(), 0
    converter.add("mark,begin,0,0")
    for event in events:
        pointer = event[1]
        if len(event) == 5 and event[2] != device:
            other.add(pointer)
        elif len(event) == 5:
            converter.alloc(pointer, event[3], event[4])
        elif pointer in converter.ids:
            converter.free(pointer)
        elif pointer in other:
            other.discard(pointer)
        else:
            earlier += 1
    return converter, earlier


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--pid", type=int, help="the running program")
    source.add_argument("--from", dest="log", help="lines of the bpftrace program, '-' for stdin")
    source.add_argument("--print", dest="library", help="print the bpftrace program for this libc10_cuda.so")
    parser.add_argument("--out", help="trace to write; .gz packs")
    parser.add_argument("--device", type=int, help="default: the one with the most requests")
    arguments = parser.parse_args()
    if arguments.library:
        print(PROGRAM.format(library=os.path.abspath(arguments.library)), end="")
        return 0
    if not arguments.out:
        parser.error("--out is required")
    try:
        if arguments.pid:
            lines = listen(arguments.pid)
        elif arguments.log == "-":
            lines = sys.stdin.read().splitlines()
        else:
            with open(arguments.log) as file:
                lines = file.read().splitlines()
        converter, earlier = convert(read_events(lines), arguments.device)
        remarks = {"name": record_pytorch.trace_name(arguments.out)}
        if earlier:
            remarks["left out"] = f"{earlier} frees of blocks that were live before"
        record_pytorch.write_trace(arguments.out, record_pytorch.render(converter, remarks))
    except (RecordError, OSError) as error:
        print(f"capture_usdt.py: {error}", file=sys.stderr)
        return 2
    print(f"{arguments.out}: {converter.operation_count} requests and frees, {converter.live_bytes_peak} bytes at peak, "
          f"{earlier} frees of blocks that were live before are left out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
