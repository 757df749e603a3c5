#!/usr/bin/env python3
"""Runs programs of scripts/publish/peaks/ in PyTorch on a card, and writes what they took of it.

usage: programs_card.py measure PROGRAMS.txt MEASURED.csv [--jobs N]      each line of PROGRAMS.txt: NAME, a script of that folder and its words
       programs_card.py predict PROGRAMS.txt RECORDINGS ALLOCMARK PREDICTED.csv      what the recordings NAME.ops.csv.gz say

With what the scripts need on PYTHONPATH. Each program runs once for each setting, in a process of its own.
"""
import argparse
import csv
import json
import os
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PEAKS = Path(__file__).resolve().parents[1] / "publish" / "peaks"
SETTINGS = ("unset", "expandable_segments:True")
FIELDS = ("program", "config", "live_bytes", "allocated_bytes", "reserved_bytes")


def one(words):
    """In a process of its own: the program, and then PyTorch's own counters."""
    script = str(PEAKS / words[0])
    sys.argv = [script, *words[1:]]
    runpy.run_path(script, run_name="__main__")
    import torch
    stats = torch.cuda.memory_stats()
    print("FOUND", json.dumps([stats[f"{name}_bytes.all.peak"] for name in ("requested", "allocated", "reserved")]))


def measured(line, conf):
    name, *words = line.split()
    environment = dict(os.environ)
    if conf != "unset":
        environment["PYTORCH_CUDA_ALLOC_CONF"] = conf
    run = subprocess.run([sys.executable, __file__, "one", *words], env=environment, capture_output=True, text=True)
    found = [text for text in run.stdout.splitlines() if text.startswith("FOUND ")]
    if not found:
        print(f"{name}, {conf}: exit code {run.returncode}: {run.stderr[-1500:]}", file=sys.stderr)
        return [name, conf, "", "", ""]
    return [name, conf, *json.loads(found[0].removeprefix("FOUND "))]


def predicted(line, recordings, program):
    name = line.split()[0]
    words = [program, "estimate", f"{recordings}/{name}.ops.csv.gz", "-c", *SETTINGS, "--pytorch", "2.11", "--format", "json"]
    estimate = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    found = [(setting["conf"] or "unset", estimate["live_bytes"], setting["allocated_bytes"], setting["reserved_bytes"]) for setting in estimate["settings"]]
    return [[name, *each] for each in found]


def write(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([FIELDS, *rows])


def main():
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    on_card, before = commands.add_parser("measure"), commands.add_parser("predict")
    for command in (on_card, before):
        command.add_argument("programs", type=Path)
    before.add_argument("recordings")
    before.add_argument("allocmark")
    on_card.add_argument("--jobs", type=int, default=1)
    for command in (on_card, before):
        command.add_argument("out")
    asked = parser.parse_args()
    lines = asked.programs.read_text().splitlines()
    if asked.command == "predict":
        write(asked.out, [row for line in lines for row in predicted(line, asked.recordings, asked.allocmark)])
        return
    with ThreadPoolExecutor(asked.jobs) as pool:
        write(asked.out, pool.map(lambda run: measured(*run), [(line, conf) for line in lines for conf in SETTINGS]))


if __name__ == "__main__":
    main()
