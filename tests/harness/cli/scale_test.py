#!/usr/bin/env python3
"""What a run of many cells costs the commands that read it. Usage: scale_test.py PATH_OF_ALLOCMARK [--cells N]

A small real run is made into two of many cells, and so is an A/B run. Each command reads the smaller and the larger one;
what the larger takes more, per cell, must stay below the row's limit. So 10,000 cells fit where the limits of `LIMITS` say.
Nothing is timed.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FEW = 200
# Two readings of one command differ by 0.7 MiB, the kernel's error. What is too much is read again, so often; real growth stays.
READINGS_MAX = 5
# KiB per cell: command, limit. {R} is a run, {S} the same again. 10,000 cells take less than 150 MiB.
LIMITS = [
    # One cell is still to be measured, so the run's end is reached: it drops what the cell had so far.
    ("run --resume --no-html --out {R}", 13),
    ("report {R} --no-html", 13),
    ("report {R} --format csv", 13),
    ("compare {R} {S}", 11),
    ("compare {R} {S} --all", 30),
    ("compare {R} {S} --format json", 30),
]
# What python3 makes the page of is in memory, of at most 1500 cells: BUNDLE_MIB is what it comes to, whatever the run's length.
LIMITS_PAGE = [
    ("bundle {R} --out {R}.tar", 135),
    # It reads a bundle's long files a piece at a time. The cell that is still to be measured is found missing.
    ("check {R}.tar --seconds 1", 13),
]
# The same of A/B runs with four processes for each cell: {T}. Of whole results a cell would take 1.3 MiB.
FEW_TURNS, MANY_TURNS = 10, 60
LIMITS_TURNS = [
    ("compare {T}", 100),
    ("report {T} --no-html --format json", 100),
]
FILES = {"training.csv": "gpt2_train_amp"} | {f"churn_{mib}.csv": f"churn:live_bytes={mib}MiB,events=20000" for mib in (32, 128, 256, 512)}
PAGE_BYTES_MAX = 15_000_000
BUNDLE_MIB = 320
PAGE_CELLS = 1700


def make_many_cells(run, count, out, missing=0):
    """In a process of its own: what this one holds, its children are said to have held."""
    script = Path(__file__).resolve().parents[2] / "support/many_cells.py"
    subprocess.run([sys.executable, script, run, str(count), out, str(missing)], check=True)


def memory_of(program, command):
    """The most that the command held, or a program that it ran, in KiB. What this script holds is the least."""
    process = subprocess.Popen([program, *command.split()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 3):
        raise SystemExit(f"allocmark {command}: exit code {process.returncode}: {said.decode()[-500:]}")
    return used.ru_maxrss


def line_of(command, work, count):
    for side in "RST":
        command = command.replace(f"{{{side}}}", str(work / f"{side}{count}"))
    return command


def hold(program, work, limits, few, many, most_mib=None):
    """How many of the rows take too much; `most_mib`: of what the larger run may take."""
    failed = 0
    for command, limit in limits:
        # What these leave behind is not what they found.
        for _ in range(1 if command.startswith(("run ", "bundle ")) else READINGS_MAX):
            used = [memory_of(program, line_of(command, work, count)) for count in (few, many)]
            each = (used[1] - used[0]) / (many - few)
            wrong = each > limit or used[1] >> 10 > (most_mib or used[1])
            if not wrong:
                break
        failed += wrong
        print(f"{'FAILED' if wrong else 'held'}: {command}: {used[0] >> 10} MiB for {few} cells, {used[1] >> 10} MiB for {many}"
              f"{f', at most {most_mib} MiB' if most_mib else ''}: {each:.1f} KiB a cell, at most {limit}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cells", type=int, default=1000)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        # What is read from a file is neither made again nor simulated again by bundle and check, which take 20 s each for the
        # rest of many cells. One small workload in six is enough for them.
        run = ["run", "-w", "churn:live_bytes=64MiB,events=1000", "-a", "caching", "-a", "native", "-a", "async", "-d", "sim:h200"]
        for name, workload in FILES.items():
            subprocess.run([options.program, "trace", "generate", workload, work / name], check=True, stdout=subprocess.DEVNULL)
            run += ["-w", f"file:{work / name}"]
        subprocess.run([options.program, *run, "--allow-debug", "--no-html", "-q", "--out", work / "real"], check=True, stdout=subprocess.DEVNULL)
        for count in (FEW, options.cells):
            for side in ("R", "S"):
                make_many_cells(work / "real", count, work / f"{side}{count}", missing=1 if side == "R" else 0)
        failed += hold(options.program, work, LIMITS, FEW, options.cells)
        turns = ["run", "--ab", "caching", "caching:max_split_size_mb:64", "-w", "churn:live_bytes=64MiB,events=20000", "-d", "sim:h200",
                 "--rounds", "2", "--rounds-max", "2"]
        # Its verdict is of no interest here.
        subprocess.run([options.program, *turns, "--allow-debug", "--no-html", "-q", "--out", work / "turns"], stdout=subprocess.DEVNULL)
        for count in (FEW_TURNS, MANY_TURNS):
            make_many_cells(work / "turns", count, work / f"T{count}")
        failed += hold(options.program, work, LIMITS_TURNS, FEW_TURNS, MANY_TURNS)
        make_many_cells(work / "real", PAGE_CELLS, work / f"R{PAGE_CELLS}", missing=1)
        failed += hold(options.program, work, LIMITS_PAGE, FEW, PAGE_CELLS, BUNDLE_MIB)
        size = (work / f"R{PAGE_CELLS}/report.html").stat().st_size
        failed += size > PAGE_BYTES_MAX
        print(f"{'FAILED' if size > PAGE_BYTES_MAX else 'held'}: the page of {PAGE_CELLS} cells has {size} bytes, at most {PAGE_BYTES_MAX}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
