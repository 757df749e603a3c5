#!/usr/bin/env python3
"""What a run of many cells costs the commands that read it. Usage: scale_test.py PATH_OF_ALLOCMARK [--cells N]

A small real run is made into two of many cells. Each command reads the smaller and the larger one; what the larger takes
more, per cell, must stay below the row's limit. So 10,000 cells fit where the limits of `LIMITS` say. Nothing is timed.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FEW = 200
# KiB per cell: command, limit. {R} is a run, {S} the same again. 10,000 cells take less than 150 MiB in run and report, 200 in compare.
LIMITS = [
    # One cell is still to be measured, so the run's end is reached: it drops what the cell had so far.
    ("run --resume --no-html --out {R}", 13),
    ("report {R} --no-html", 13),
    ("report {R} --format csv", 13),
    ("compare {R} {S}", 11),
    # What its page is made of is in memory as text, three times, of at most 1500 cells: so this goes no further.
    ("bundle {R} --out {R}.tar", 160),
    # It reads a bundle's long files a piece at a time. The cell that is still to be measured is found missing.
    ("check {R}.tar --seconds 1", 13),
]
PAGE_BYTES_MAX = 15_000_000
PAGE_CELLS = 1700


def make_many_cells(run, count, out, missing=0):
    """In a process of its own: what this one holds, its children are said to have held."""
    script = Path(__file__).resolve().parents[2] / "support/many_cells.py"
    subprocess.run([sys.executable, script, run, str(count), out, str(missing)], check=True)


def memory_of(program, command):
    """The most that the command itself held, in KiB; its children are not counted."""
    process = subprocess.Popen([program, *command.split()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 3):
        raise SystemExit(f"allocmark {command}: exit code {process.returncode}: {said.decode()[-500:]}")
    return used.ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cells", type=int, default=1000)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        run = ["run", "-w", "gpt2_train_amp", "-w", "churn:live_bytes=64MiB,events=20000", "-a", "caching", "-a", "native", "-a", "async", "-d", "sim:h200"]
        subprocess.run([options.program, *run, "--allow-debug", "--no-html", "-q", "--out", work / "real"], check=True, stdout=subprocess.DEVNULL)
        for count in (FEW, options.cells):
            for side in ("R", "S"):
                make_many_cells(work / "real", count, work / f"{side}{count}", missing=1 if side == "R" else 0)
        for command, limit in LIMITS:
            few, many = (memory_of(options.program, command.replace("{R}", str(work / f"R{count}")).replace("{S}", str(work / f"S{count}"))) for count in (FEW, options.cells))
            each = (many - few) / (options.cells - FEW)
            failed += each > limit
            print(f"{'FAILED' if each > limit else 'held'}: {command}: {few >> 10} MiB for {FEW} cells, {many >> 10} MiB for {options.cells}: {each:.1f} KiB a cell, at most {limit}")
        make_many_cells(work / "real", PAGE_CELLS, work / "page")
        subprocess.run([options.program, "report", work / "page"], check=True, stdout=subprocess.DEVNULL)
        size = (work / "page/report.html").stat().st_size
        failed += size > PAGE_BYTES_MAX
        print(f"{'FAILED' if size > PAGE_BYTES_MAX else 'held'}: the page of {PAGE_CELLS} cells has {size} bytes, at most {PAGE_BYTES_MAX}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
