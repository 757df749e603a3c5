#!/usr/bin/env python3
"""Replays recordings of drawn jobs beside their descriptions: does PyTorch's allocator reserve as much for both?

usage: beside.py ALLOCMARK FOLDER FILE.csv [--jobs N]

FOLDER and FILE.csv are what random_jobs.py --keep FOLDER --out FILE.csv wrote. Requests that are equal in order can be let go in another
order, or on another stream, and then reserved bytes differ. Kernels and the host's work are left out of the recordings, as descriptions
have none. Prints a row for each job and config that differ: config, reserved bytes of the recording and of the description, the job.
"""
import argparse
import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

CONFIGS = "unset", "expandable_segments:True"
WORK = "kernel,", "host,", "# device work:", "# events:"


def reserved_bytes(allocmark, subject):
    """For each config."""
    words = [allocmark, "estimate", subject, "--pytorch", "2.11", "--format", "json"]
    run = subprocess.run([*words, *(word for config in CONFIGS for word in ("--conf", config))], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"beside.py: {subject}: {run.stderr.strip()}")
    return [setting["reserved_bytes"] for setting in json.loads(run.stdout)["settings"]]


def compare(allocmark, path, text):
    with tempfile.NamedTemporaryFile("wt", suffix=".csv", encoding="utf-8") as out:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            out.writelines(line for line in file if not line.startswith(WORK))
        out.flush()
        return text, reserved_bytes(allocmark, out.name), reserved_bytes(allocmark, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("allocmark")
    parser.add_argument("folder")
    parser.add_argument("file")
    parser.add_argument("--jobs", type=int, default=2, help="at once (default 2)")
    arguments = parser.parse_args()
    with open(arguments.file, encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file, delimiter=";")]
    paths = [os.path.join(arguments.folder, f"{index:03}.csv.gz") for index in range(len(texts))]
    differing = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for text, recorded, described in pool.map(lambda pair: compare(arguments.allocmark, *pair), zip(paths, texts)):
            for config, left, right in zip(CONFIGS, recorded, described):
                if left != right:
                    differing += 1
                    print(f"{config};{left};{right};{text}")
    print(f"beside.py: {len(texts) * len(CONFIGS) - differing} of {len(texts) * len(CONFIGS)} equal", file=sys.stderr)


if __name__ == "__main__":
    main()
