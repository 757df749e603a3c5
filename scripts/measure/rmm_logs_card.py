#!/usr/bin/env python3
"""Does a log that RMM's adaptor recorded on a card fail here where it failed there?

usage: rmm_logs_card.py record FOLDER [--only NAME,...]        needs a GPU and the package rmm; no other package
       rmm_logs_card.py compare ALLOCMARK FOLDER... [--device sim:h200]      says of each log whether the same requests fail

`record` runs PROGRAMS: random requests of a fixed seed, on a resource with so little memory that some fail. It writes FOLDER/NAME.csv, the
log of rmm.mr.LoggingResourceAdaptor, and FOLDER/record.json. `compare` replays each log with `rmm@` of the release that recorded it.
Each program is a process of its own. All take about 20 s and at most 3 GiB of the card; the ones called `full` fill it first.
Exit codes of compare: 0 the same requests fail in every log; 1 not so; 3 a log or a release is missing.
"""
import argparse
import collections
import contextlib
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import types

KIB, MIB = 1 << 10, 1 << 20
SEED = 39
LEFT_BYTES = 1024 * MIB  # of a card that is filled first


class Program:
    """`conf`: how allocmark says what `make` makes of the module rmm.mr. `live_bytes`: what the program wants to hold, more than there is.
    `turns`: one thread at a time asks, so that the log has the true order; without, RMM writes its lines outside the pool's lock.
    `strays`: now and then another stream gives a block back than asked for it, which a trace does not say.
    `full`: of a card on which all but LEFT_BYTES is taken."""

    def __init__(self, conf, make, sizes="columns", streams=1, threads=1, turns=False, strays=False, steps=6000, live_bytes=1200 * MIB,
                 full=False):
        self.conf, self.make, self.sizes, self.streams, self.threads, self.turns = conf, make, sizes, streams, threads, turns
        self.strays, self.steps, self.live_bytes, self.full = strays, steps, live_bytes, full


def pool(mr, initial_mb=256, max_mb=1024):
    return mr.PoolMemoryResource(mr.CudaMemoryResource(), initial_pool_size=initial_mb * MIB, maximum_pool_size=max_mb * MIB)


def limited(mr, resource, limit_mb=1024):
    return mr.LimitingResourceAdaptor(resource, limit_mb * MIB)


POOL = "initial_mb:256,max_mb:1024"
PROGRAMS = {
    "pool": Program("resource:pool," + POOL, pool),
    "pool_tight": Program("resource:pool,initial_mb:0,max_mb:600", lambda mr: pool(mr, 0, 600), live_bytes=800 * MIB),
    "pool_frames": Program("resource:pool," + POOL, pool, sizes="frames"),
    "pool_streams": Program("resource:pool," + POOL, pool, streams=4),
    "pool_strays": Program("resource:pool," + POOL, pool, streams=4, strays=True),
    "pool_threads": Program("resource:pool," + POOL, pool, streams=4, threads=4, live_bytes=1800 * MIB),
    "pool_turns": Program("resource:pool," + POOL, pool, streams=4, threads=4, turns=True, live_bytes=1800 * MIB),
    "pool_one_stream_turns": Program("resource:pool," + POOL, pool, threads=4, turns=True, live_bytes=1800 * MIB),
    "cuda_limited": Program("resource:cuda,limit_mb:1024", lambda mr: limited(mr, mr.CudaMemoryResource()), steps=2000),
    "cuda_full": Program("resource:cuda", lambda mr: mr.CudaMemoryResource(), steps=2000, full=True),
    "async_limited": Program("resource:cuda_async,limit_mb:1024", lambda mr: limited(mr, mr.CudaAsyncMemoryResource())),
    "async_full": Program("resource:cuda_async", lambda mr: mr.CudaAsyncMemoryResource(), full=True),
    "arena": Program("resource:arena,initial_mb:1024", lambda mr: mr.ArenaMemoryResource(mr.CudaMemoryResource(), arena_size=1024 * MIB)),
    "arena_streams": Program("resource:arena,initial_mb:1024", lambda mr: mr.ArenaMemoryResource(mr.CudaMemoryResource(), arena_size=1024 * MIB),
                             streams=4),
    "arena_strays": Program("resource:arena,initial_mb:1024", lambda mr: mr.ArenaMemoryResource(mr.CudaMemoryResource(), arena_size=1024 * MIB),
                            streams=4, strays=True),
    "fixed_size": Program("resource:fixed_size,upstream:pool,initial_mb:256,max_mb:1024,block_kb:4096,block_count:32",
                          lambda mr: mr.FixedSizeMemoryResource(pool(mr), block_size=4 * MIB, blocks_to_preallocate=32), sizes="blocks"),
    "fixed_size_streams": Program("resource:fixed_size,upstream:pool,initial_mb:256,max_mb:1024,block_kb:4096,block_count:32",
                                  lambda mr: mr.FixedSizeMemoryResource(pool(mr), block_size=4 * MIB, blocks_to_preallocate=32), sizes="blocks",
                                  streams=3),
    "binning": Program("resource:binning,upstream:pool,initial_mb:1100,max_mb:1600,min_bin:18,max_bin:22",
                       lambda mr: mr.BinningMemoryResource(pool(mr, 1100, 1600), 18, 22), live_bytes=2000 * MIB),
}


def size_of(kind, chance):
    """Bytes: of columns of a table (most are small, a few hold most of it), of batches and their frames, or of at most a few MiB."""
    if kind == "blocks":
        return chance.choice((1, 300, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1)) if chance.random() < 0.05 else chance.randrange(1, 4 * MIB)
    if kind == "frames":
        return chance.choice((1920 * 1080 * 3, 1280 * 720 * 3, 3840 * 2160 * 3 // 2, 224 * 224 * 3 * 4 * 32, 4 * KIB, 33 * MIB))
    if chance.random() < 0.02:
        return chance.choice((1, 255, 256, 257, MIB, MIB + 1, 2 * MIB))
    return min(int(chance.lognormvariate(13.5, 2.2)), 192 * MIB)


def run_part(resource, streams, program, seed, turn, failures):
    """Asks and gives back until the steps are done, and gives back the rest. `failures`: which requests of this thread failed.
    `turn`: held for each call."""
    chance = random.Random(seed)
    live, live_bytes, asked = [], 0, 0
    most_bytes = program.live_bytes / program.threads

    def give_back(index):
        live[index], live[-1] = live[-1], live[index]
        address, size_bytes, stream = live.pop()
        if program.strays and chance.random() < 0.1:
            stream = chance.choice(streams)
        with turn:
            resource.deallocate(address, size_bytes, stream)
        return size_bytes

    for _ in range(program.steps // program.threads):
        if live and (chance.random() < 0.42 or live_bytes > most_bytes):
            live_bytes -= give_back(chance.randrange(len(live)))
            continue
        size_bytes, stream = size_of(program.sizes, chance), chance.choice(streams)
        try:
            with turn:
                live.append((resource.allocate(size_bytes, stream), size_bytes, stream))
            live_bytes += size_bytes
        except MemoryError:
            failures.append(asked)
        asked += 1
    while live:
        give_back(chance.randrange(len(live)))
    return asked


def import_rmm():
    """RMM imports NumPy for copies to the host alone, which nothing here makes."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        sys.modules["numpy"] = types.ModuleType("numpy")
    import rmm
    return rmm


def free_bytes_of(mr):
    return mr.available_device_memory()[0]


def fill(mr):
    """Leaves LEFT_BYTES of the card. What it took, and what is free then."""
    hog = mr.CudaMemoryResource()
    hog_bytes = (free_bytes_of(mr) - LEFT_BYTES) // (2 * MIB) * (2 * MIB)
    return hog, hog.allocate(hog_bytes), hog_bytes, free_bytes_of(mr)


def record_one(name, folder):
    rmm = import_rmm()
    from rmm.pylibrmm.stream import DEFAULT_STREAM, Stream
    program = PROGRAMS[name]
    row = {"program": name, "rmm": rmm.__version__}
    upstream = program.make(rmm.mr)
    if program.full:
        upstream_of_card = fill(rmm.mr)
        row["hog_bytes"], row["free_bytes"] = upstream_of_card[2:]
    log = os.path.join(folder, name + ".csv")
    resource = rmm.mr.LoggingResourceAdaptor(upstream, log_file_name=log)
    streams = [DEFAULT_STREAM] + [Stream() for _ in range(program.streams - 1)]
    failures = [[] for _ in range(program.threads)]
    asked = [0] * program.threads

    turn = threading.Lock() if program.turns else contextlib.nullcontext()
    all_there = threading.Barrier(program.threads)  # or one might get the number of another that has ended

    def work(number):
        all_there.wait()
        own = [streams[number % len(streams)]] if program.threads > 1 else streams
        asked[number] = run_part(resource, own, program, SEED + number, turn, failures[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(program.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if hasattr(upstream, "pool_size"):
        row["pool_bytes"] = upstream.pool_size()
    resource.flush()
    # The adaptor writes the device's number into the name.
    os.replace(resource.get_file_name(), log)
    row.update(requests=sum(asked), failure_count=sum(map(len, failures)), failures=failures)
    print(json.dumps({key: value for key, value in row.items() if key != "failures"}), flush=True)
    with open(os.path.join(folder, "rows.jsonl"), "a") as file:
        file.write(json.dumps(row) + "\n")


def card_name():
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return "unknown"


def record(arguments):
    os.makedirs(arguments.folder, exist_ok=True)
    rows_path = os.path.join(arguments.folder, "rows.jsonl")
    open(rows_path, "w").close()
    names = arguments.only.split(",") if arguments.only else list(PROGRAMS)
    broken = [name for name in names if subprocess.run([sys.executable, os.path.abspath(__file__), "record-one", arguments.folder, name]).returncode]
    with open(rows_path) as file:
        rows = [json.loads(line) for line in file]
    os.remove(rows_path)
    with open(os.path.join(arguments.folder, "record.json"), "w") as file:
        json.dump({"card": card_name(), "programs": rows, "broken": broken}, file)
        file.write("\n")
    return 1 if broken else 0


def requests_of(path):
    """Of a log: whether each request failed, in its order, and by thread which ones did."""
    failed, by_thread, asked = [], collections.defaultdict(list), collections.Counter()
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["Action"] == "free":
                continue
            failed.append(row["Action"] == "allocate failure")
            if failed[-1]:
                by_thread[row["Thread"]].append(asked[row["Thread"]])
            asked[row["Thread"]] += 1
    return failed, by_thread


def replayed(arguments, log, release, program, row):
    """What the cell says: the results' fields, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        command = [arguments.allocmark, "run", "-q", "-w", "file:" + log, "-a", "rmm@" + release, "--conf", program.conf, "--device",
                   arguments.device, "--passes", "1", "--kernels", "off", "--no-verify", "--no-html", "--allow-debug", "--out", out]
        if program.full:
            command += ["--capacity", f"{row['free_bytes']}B"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return None, " ".join((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[:3])
        with open(os.path.join(out, "results.jsonl")) as file:
            return next(cell for cell in map(json.loads, file) if cell["kind"] == "cell"), ""


def compare_one(arguments, folder, row):
    """A line of the table, and the exit code it asks for."""
    log = os.path.join(folder, row["program"] + ".csv")
    program, release = PROGRAMS[row["program"]], ".".join(row["rmm"].split(".")[:2])
    failed, by_thread = requests_of(log)
    start = f"| {release} | `{program.conf}` | {program.threads} | {program.streams} | {len(failed)} | {sum(failed)} |"
    if sorted(by_thread.values()) != sorted(part for part in row["failures"] if part):
        return start + " | | **no: the log is not what the program saw** |", 1
    cell, reason = replayed(arguments, log, release, program, row)
    if cell is None:
        return start + f" | | not run: {reason} |", 3
    again, more = cell.get("failed_again_count", 0), cell["oom_count"]
    same = again == sum(failed) and more == 0
    first = f", the first in event {cell['oom_first']['event_index']}" if more else ""
    return start + f" {again} | {more} | " + ("yes" if same else f"**no**{first}") + " |", 0 if same else 1


def compare(arguments):
    print("| RMM | resource | threads | streams | requests | failed there | of these here | others here | the same |")
    print("| :-- | :-- | --: | --: | --: | --: | --: | --: | :-- |")
    codes = []
    for folder in arguments.folder:
        with open(os.path.join(folder, "record.json")) as file:
            recorded = json.load(file)
        for name in recorded["broken"]:
            print(f"| | {name} | | | | | | | its recording ended early |")
            codes.append(3)
        for row in recorded["programs"]:
            line, code = compare_one(arguments, folder, row)
            print(line, flush=True)
            codes.append(code)
    print(f"\n{codes.count(0)} of {len(codes)} logs fail here where they failed there.")
    return 1 if 1 in codes else max(codes, default=3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="{record,compare}")
    recording = commands.add_parser("record")
    recording.add_argument("folder")
    recording.add_argument("--only", help="names of programs, with commas between")
    one = commands.add_parser("record-one")
    one.add_argument("folder")
    one.add_argument("name")
    comparing = commands.add_parser("compare")
    comparing.add_argument("allocmark", help="the program")
    comparing.add_argument("folder", nargs="+")
    comparing.add_argument("--device", default="sim:h200", help="the card to replay on [sim:h200]")
    arguments = parser.parse_args()
    if arguments.command == "record-one":
        record_one(arguments.name, arguments.folder)
        return 0
    return (record if arguments.command == "record" else compare)(arguments)


if __name__ == "__main__":
    sys.exit(main())
