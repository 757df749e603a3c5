#!/usr/bin/env python3
"""Goal: no number in a file, however large or small, makes a command crash, hang or take all memory. Method: sound files of each format, in
which one to three numbers keep their type and get another magnitude; the command that reads the file must end within 10 s and 512 MiB, with an
exit code of its own. Usage: magnitudes_test.py PATH_OF_ALLOCMARK [--seconds N] [--seed N] [--keep DIR]

fuzz_test.py changes bytes; most of its files do not parse. These do.
"""
import argparse
import json
import pickle
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

INTEGERS = (0, 1, 2, 3, 63, 1 << 16, (1 << 31) - 1, 1 << 32, (1 << 32) - 1, 10**12, 1 << 40, (1 << 50) - 1, 1 << 53, 10**18, (1 << 63) - 1,
            1 << 63, (1 << 64) - 1, -1, -(1 << 63))
REALS = (0.0, -0.0, 1e-308, 5e-324, 1e-9, 0.5, 1.0, 1e9, 1e18, 1e100, 1.7e308, -1.0, -1e18, -1e-300)
SECONDS_MAX = 10
BYTES_MAX = 512 << 20
ADDRESS_BYTES_MAX = 8 << 30  # beyond it is no use to wait


def places_of(document):
    """Every number of nested lists and dicts as (container, key)."""
    found, open_ones = [], [document]
    while open_ones:
        one = open_ones.pop()
        for key, value in one.items() if isinstance(one, dict) else enumerate(one):
            if isinstance(value, (dict, list)):
                open_ones.append(value)
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                found.append((one, key))
    return found


def change_numbers(document, draw):
    places = places_of(document)
    for container, key in draw.sample(places, min(draw.choice((1, 1, 2, 3)), len(places))):
        container[key] = draw.choice(INTEGERS if isinstance(container[key], int) else REALS)


def change_json(path, draw):
    document = json.loads(path.read_text())
    change_numbers(document, draw)
    path.write_text(json.dumps(document))


def change_lines(path, draw):
    lines = path.read_text().splitlines()
    at = draw.randrange(len(lines))
    document = json.loads(lines[at])
    change_numbers(document, draw)
    lines[at] = json.dumps(document)
    path.write_text("\n".join(lines) + "\n")


def change_csv(path, draw):
    rows = path.read_text().splitlines()
    for at in draw.sample(range(len(rows)), draw.choice((1, 2, 3))):
        cells = rows[at].split(",")
        numbers = [i for i, cell in enumerate(cells) if cell.isdigit()]
        if numbers:
            cells[draw.choice(numbers)] = str(abs(draw.choice(INTEGERS)))
        rows[at] = ",".join(cells)
    path.write_text("\n".join(rows) + "\n")


def change_pickle(path, draw):
    document = pickle.loads(path.read_bytes())
    change_numbers(document, draw)
    path.write_bytes(pickle.dumps(document, protocol=4))


def snapshot(path):
    """A snapshot with a short history: blocks in one segment, and a request that failed."""
    base, entries, frames = 0x7F0000000000, [], []
    entries.append({"action": "segment_alloc", "addr": base, "size": 20 << 20, "stream": 0, "time_us": 1, "frames": frames})
    for i in range(8):
        entries.append({"action": "alloc", "addr": base + (i << 20), "size": 1 << 20, "stream": 0, "time_us": 2 + i, "frames": frames})
    for i in range(0, 8, 2):
        for action in ("free_requested", "free_completed"):
            entries.append({"action": action, "addr": base + (i << 20), "size": 1 << 20, "stream": 0, "time_us": 20 + i, "frames": frames})
    entries.append({"action": "oom", "addr": 4 << 20, "size": 30 << 20, "stream": 0, "time_us": 99, "device_free": 4 << 20, "frames": frames})
    blocks = [{"address": base + (i << 20), "size": 1 << 20, "requested_size": 1 << 20,
               "state": "active_allocated" if i % 2 else "inactive", "frames": frames} for i in range(8)]
    blocks.append({"address": base + (8 << 20), "size": 12 << 20, "requested_size": 0, "state": "inactive", "frames": frames})
    segment = {"device": 0, "address": base, "total_size": 20 << 20, "allocated_size": 4 << 20, "active_size": 4 << 20, "requested_size": 4 << 20, "stream": 0,
               "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": frames, "blocks": blocks}
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [entries]}, protocol=4))


def make_sound(program, work):
    run = [program, "run", "-w", "churn:live_bytes=64MiB,events=1000", "-a", "caching", "-d", "sim:h200", "--capacity", "1.05x",
           "--allow-debug", "--no-html", "-q", "--out"]
    for name in ("run", "base"):
        subprocess.run([*run, work / name], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([program, "run", "--ab", "unset", "expandable_segments:True", "-a", "caching", "-d", "sim:h200", "--allow-debug",
                    "-w", "churn:live_bytes=64MiB,events=1000", "--rounds", "3", "--rounds-max", "3", "--no-html", "-q",
                    "--out", work / "turns"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([program, "bundle", work / "run", "--baseline", work / "base", "--out", work / "bundle.tar"], check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["tar", "-xf", work / "bundle.tar", "-C", work], check=True)
    subprocess.run([program, "trace", "generate", "churn:live_bytes=64MiB,events=300", work / "trace.csv"], check=True, stdout=subprocess.DEVNULL)
    snapshot(work / "oom.pickle")


# Format, what of the sound files is copied, the file within that is changed, how, and the commands that read it.
FORMATS = (
    ("results", "run", "results.jsonl", change_lines, (["compare", "base", "{}"], ["report", "{}", "--format", "table"],
                                                       ["report", "{}", "--format", "facts"])),
    ("plan", "run", "plan.json", change_json, (["compare", "base", "{}"],)),
    ("conditions", "run", "conditions.json", change_json, (["report", "{}", "--format", "table"],)),
    ("rounds", "turns", "rounds.jsonl", change_lines, (["compare", "{}"],)),
    ("plan of turns", "turns", "interleaved.json", change_json, (["compare", "{}"],)),
    ("bundle", "unpacked", "results.jsonl", change_lines, (["check", "{}", "--seconds", "2"],)),
    ("bundle's baseline", "unpacked", "base.results.jsonl", change_lines, (["check", "{}", "--seconds", "2"],)),
    ("bundle's plan", "unpacked", "plan.json", change_json, (["check", "{}", "--seconds", "2"],)),
    ("trace", "trace.csv", "", change_csv, (["trace", "summary", "{}"], ["trace", "validate", "{}"])),
    ("snapshot", "oom.pickle", "", change_pickle, (["why", "{}"],)),
)


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def problem_of(program, command, path, work):
    """What is wrong with the command's end; empty where nothing is."""
    line = [program, *(str(path) if word == "{}" else str(work / word) if word == "base" else word for word in command)]
    before = time.monotonic()
    with tempfile.TemporaryFile() as err, subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=err, preexec_fn=limited) as child:
        while child.poll() is None and time.monotonic() - before < SECONDS_MAX * 2:
            time.sleep(0.005)
        if child.poll() is None:
            child.kill()
            return f"no end after {SECONDS_MAX * 2} s"
        seconds = time.monotonic() - before
        err.seek(0)
        said = err.read().decode(errors="replace").strip()[-200:]
    if child.returncode not in (0, 1, 2, 3, 4, 6):
        return f"ended with {child.returncode}: {said}"
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    if used > BYTES_MAX:
        return f"took {used >> 20} MiB"
    return f"took {seconds:.0f} s" if seconds > SECONDS_MAX else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=15, help="so long [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="[%(default)s]")
    parser.add_argument("--format", help="of this format alone")
    parser.add_argument("--keep", type=Path, help="keep files that break a command there")
    options = parser.parse_args()
    tried = failed = 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        make_sound(options.program, work)
        (work / "allocmark-bundle").rename(work / "unpacked")
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            kind, source, inner, change, commands = FORMATS[tried % len(FORMATS)]
            draw = random.Random(f"{options.seed}/{tried}")
            tried += 1
            if options.format and kind != options.format:
                continue
            copy = work / ("changed" + Path(source).suffix)
            shutil.rmtree(copy, ignore_errors=True) if copy.is_dir() else copy.unlink(missing_ok=True)
            shutil.copytree(work / source, copy) if (work / source).is_dir() else shutil.copy(work / source, copy)
            change(copy / inner if inner else copy, draw)
            for command in commands:
                problem = problem_of(options.program, command, copy, work)
                if not problem:
                    continue
                failed += 1
                print(f"FAILED: {kind}, try {tried - 1} of seed {options.seed}, {command[0]}: {problem}", flush=True)
                if options.keep:
                    kept = options.keep / f"{kind.replace(' ', '_')}_{options.seed}_{tried - 1}{copy.suffix}"
                    options.keep.mkdir(parents=True, exist_ok=True)
                    shutil.copytree(copy, kept, dirs_exist_ok=True) if copy.is_dir() else shutil.copy(copy, kept)
    print(f"tried {tried}, failed {failed}")
    return 1 if failed or tried < len(FORMATS) else 0


if __name__ == "__main__":
    sys.exit(main())
