#!/usr/bin/env python3
"""Draws jobs at random, runs each in PyTorch on simcuda, and writes what it asked of the allocator.

usage: random_jobs.py --simcuda FOLDER --out FILE.csv [--seed N] [--train N] [--infer N] [--ways N] [--ranks N] [--shared N] [--encode N]
                      [--images N] [--deepseek N] [--llava N] [--sized N] [--groups N] [--stages N] [--cut N] [--narrow N] [--wide N] [--liger N]
                      [--mixed N] [--assisted N] [--experts N] [--tokens N] [--grids N] [--deepspeed N] [--shards N] [--configured N] [--wasting N]
                      [--four_bits N] [--narrow_states N] [--keep FOLDER] [--jobs N]

FILE.csv has a row per job, those that draw_jobs.py draws and those of found_jobs.txt: its text, how many requests it made from its
first step on, hashes of all sizes in order before that and from there, and the most bytes that it had at once.
tests/workloads/programs/random_jobs_test.cc holds the generators to such a file. Each text is drawn from its own number, so a longer
draw begins with the shorter one. --keep FOLDER: the recordings stay there, as 000.csv.gz and so on. Needs what record_without_gpu.py
needs, and peft, liger-kernel 0.8.5, bitsandbytes 0.49.2 and DeepSpeed 0.19.8 (DS_BUILD_OPS=0).
"""
import argparse
import csv
import gzip
import os
import shlex
import subprocess
import sys
import tempfile

import draw_jobs

HERE = os.path.dirname(os.path.abspath(__file__))


class Sizes:
    """FNV-1a (64 bits) of sizes as eight bytes each."""

    def __init__(self):
        self.count, self.hash = 0, 0xcbf29ce484222325

    def add(self, size):
        self.count += 1
        for byte in size.to_bytes(8, "little"):
            self.hash = (self.hash ^ byte) * 0x100000001b3 & 0xffffffffffffffff


def compares_setup(text):
    """Whether the program makes its model as users do. Each chunk of a stage would compare its shapes with nobody's."""
    return not any(key in text for key in (",tp=", ",ep=")) and not (",virtual=" in text and ",dp=" in text)


def least_of(text):
    """DeepSpeed's norms and counts are smaller than this, and are not generated."""
    return 8192 if ",zero=" in text and ",sharder=torch" not in text else 1


def facts_of(path, has_setup, least_bytes=1):
    """Requests from the first part on, hashes of what is asked for in order before it and from there, and the peak of the whole job. The
    first hash is - where the program makes its model otherwise than users do. The peak alone has requests below `least_bytes`."""
    sizes, before, live, live_bytes, peak_bytes = Sizes(), None, {}, 0, 0
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            op, name, value, *_ = (*line.rstrip("\n").split(","), "", "")
            if op == "mark" and name == "part0":
                before, sizes = sizes.hash, Sizes()
            if op == "free":
                live_bytes -= live.pop(name, 0)
            if op != "alloc" or value == "0":
                continue
            live[name] = int(value)
            live_bytes += live[name]
            peak_bytes = max(peak_bytes, live_bytes)
            if live[name] >= least_bytes:
                sizes.add(live[name])
    return sizes.count, before if has_setup else "-", sizes.hash, peak_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simcuda", required=True, metavar="FOLDER")
    parser.add_argument("--out", required=True, metavar="FILE.csv")
    draw_jobs.add_counts(parser, 1, {"train": 160, "infer": 80, "ways": 100, "ranks": 60, "encode": 60, "deepseek": 40, "shared": 40, "sized": 24,
                                     "groups": 60, "stages": 60, "cut": 60, "narrow": 30, "liger": 30, "mixed": 60, "assisted": 16,
                                     "experts": 24, "tokens": 16, "grids": 60, "deepspeed": 60, "shards": 40, "configured": 60, "wasting": 16, "four_bits": 16,
                                     "narrow_states": 24})
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--jobs", default="2", help="recordings at once; those of --sized take up to 22 GiB of the host each")
    arguments = parser.parse_args()
    with open(os.path.join(HERE, "found_jobs.txt"), encoding="utf-8") as file:
        texts = [*draw_jobs.drawn(arguments), *file.read().split()]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or temporary
        os.makedirs(folder, exist_ok=True)
        paths = [os.path.join(folder, f"{index:03}.csv.gz") for index in range(len(texts))]
        listing = os.path.join(temporary, "list")
        job = os.path.join(HERE, "described_job.py")
        with open(listing, "w", encoding="utf-8") as out:
            out.writelines(f"{shlex.join([path, job, text])}\n" for path, text in zip(paths, texts))
        subprocess.run([sys.executable, os.path.join(HERE, "record_without_gpu.py"), "--simcuda", arguments.simcuda, "--jobs", arguments.jobs,
                        "--list", listing], check=True)
        rows = [(text, *facts_of(path, compares_setup(text), least_of(text))) for text, path in zip(texts, paths)]
    with open(arguments.out, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter=";", lineterminator="\n")
        writer.writerow(("text", "requests", "hash_before", "hash", "peak_bytes"))
        writer.writerows(rows)


if __name__ == "__main__":
    main()
