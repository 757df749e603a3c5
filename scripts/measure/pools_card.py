#!/usr/bin/env python3
"""What graphs and private pools cost PyTorch on this card: programs that capture, load, sleep and wake, each in a process of its own.

A program marks its phases. Each mark is a row: bytes live, reserved, and held on the device where the
program is alone there; and reserved, live and stranded (free, and for no other pool) bytes of each private pool.
A program's history is saved as a memory snapshot, which `allocmark why` and `allocmark run` read.

usage: pools_card.py OUT [--only NAME,NAME] [--jobs 4] [--list]
Writes OUT/NAME.CONF.json (rows, peaks, failure) and OUT/NAME.CONF.pickle.gz (snapshot).
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import pickle
import subprocess
import sys
import time

import pools_graphs  # noqa: F401  (lists its programs)
import pools_memory  # noqa: F401  (lists its programs)
from pools_common import PROGRAMS, ROWS, STATE

SECONDS_MAX = 240
ENTRIES_MAX = 300_000
CONFS = {"unset": "", "expandable": "expandable_segments:True"}


def run_one(name, conf, folder):
    import torch
    STATE["alone"] = PROGRAMS[name][2]
    torch.cuda.init()
    torch.manual_seed(0)
    torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=ENTRIES_MAX)
    failure = ""
    try:
        PROGRAMS[name][0]()
    except Exception as error:
        failure = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    base = os.path.join(folder, f"{name}.{conf_name(conf)}")
    with open(base + ".pickle.gz", "wb") as file:
        file.write(gzip.compress(pickle.dumps(snapshot), 9, mtime=0))
    facts = {"program": name, "conf": CONFS.get(conf, conf), "torch": torch.__version__, "device": torch.cuda.get_device_name(0),
             "total_bytes": torch.cuda.get_device_properties(0).total_memory, "failure": failure,
             "peak_reserved": stats["reserved_bytes.all.peak"], "peak_allocated": stats["allocated_bytes.all.peak"],
             "peak_requested": stats["requested_bytes.all.peak"], "retries": stats["num_alloc_retries"], "ooms": stats["num_ooms"],
             "device_allocs": stats["num_device_alloc"], "device_frees": stats["num_device_free"],
             "entries": len(snapshot["device_traces"][0]), "rows": ROWS}
    with open(base + ".json", "w") as file:
        json.dump(facts, file, indent=1)
    if failure:
        raise SystemExit(failure)


def conf_name(conf):
    return conf.replace(":", "_").replace(",", "_")


def start(name, conf, folder):
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")}
    if CONFS.get(conf, conf):
        environment["PYTORCH_CUDA_ALLOC_CONF"] = CONFS.get(conf, conf)
    begin = time.time()
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), folder, "--one", name, "--conf", conf], env=environment,
                              capture_output=True, text=True, timeout=SECONDS_MAX)
        said = "ok" if done.returncode == 0 else "FAILED: " + (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    except subprocess.TimeoutExpired:
        said = f"FAILED: no end after {SECONDS_MAX} s"
    print(f"{name} {conf}: {time.time() - begin:.0f} s, {said}", flush=True)
    return said == "ok"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where rows and snapshots go; made where it is missing")
    parser.add_argument("--only", help="names of programs, with commas between")
    parser.add_argument("--jobs", type=int, default=4, help="programs at once, of those that do not need the card alone [4]")
    parser.add_argument("--list", action="store_true", help="name the programs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--conf", default="unset", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.list:
        for name, (function, confs, _) in PROGRAMS.items():
            print(f"{name} ({', '.join(confs)}): {function.__doc__.splitlines()[0]}")
        return 0
    os.makedirs(arguments.folder, exist_ok=True)
    if arguments.one:
        run_one(arguments.one, arguments.conf, arguments.folder)
        return 0
    wanted = arguments.only.split(",") if arguments.only else list(PROGRAMS)
    unknown = [name for name in wanted if name not in PROGRAMS]
    if unknown:
        parser.error(f"no program {unknown[0]}; --list names them")
    runs = [(name, conf, PROGRAMS[name][2]) for name in wanted for conf in PROGRAMS[name][1]]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as workers:
        done = list(workers.map(lambda run: start(run[0], run[1], arguments.folder), [run for run in runs if not run[2]]))
    done += [start(name, conf, arguments.folder) for name, conf, alone in runs if alone]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
