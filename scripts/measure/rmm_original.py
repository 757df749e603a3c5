#!/usr/bin/env python3
"""RMM itself beside `rmm@RELEASE`: built from a source tree, it answers random operations and replays logs.

usage: rmm_original.py build SOURCE WHEELS FOLDER        RMM's library, its REPLAY_BENCH and our comparison, into FOLDER
       rmm_original.py live FOLDER [--operations 100000] [--launcher bin/simcuda-run]
       rmm_original.py replay ALLOCMARK FOLDER LOG... [--resource pool,...] [--memory GIB] [--device sim:h200] [--release 26.06]

SOURCE is a checkout of https://github.com/rapidsai/rmm at a release's tag (v26.06.00), WHEELS a folder with the packages librmm-cu13 and
rapids-logger of that release:

    pip install --no-deps --target WHEELS --require-hashes --only-binary :all: -r FILE

`live` compares addresses, failures, waits and bytes after each operation. `replay` runs RMM's REPLAY_BENCH and `allocmark run` on each log,
and prints events, calls and times of both. On a simulated device RMM's time is that of the simulator, so that none is printed; calls and
failures count. REPLAY_BENCH leaves out requests that failed when they were recorded, reads each stream in hexadecimal as the default one,
waits for that after each request, and ends at the first failure. So ours gets the log without these rows and with one stream.
Exit codes: 0 the same; 1 not so; 3 something could not be run, and a line says what.
"""
import argparse
import collections
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# What REPLAY_BENCH makes, in our keys; {0}: MiB of --memory.
RESOURCES = {
    "pool": ("resource:pool,initial_mb:0", "resource:pool,initial_mb:{0},max_mb:{0}"),
    "arena": ("resource:arena", "resource:arena,initial_mb:{0}"),
    "binning": ("resource:binning,initial_mb:0", "resource:binning,initial_mb:{0},max_mb:{0}"),
    "cuda": ("resource:cuda", None),
}


def build(arguments):
    folder = os.path.abspath(arguments.folder)
    subprocess.run(["cmake", "-S", os.path.join(HERE, "suites/rmm"), "-B", folder, f"-DSOURCE={os.path.abspath(arguments.source)}",
                    f"-DWHEELS={os.path.abspath(arguments.wheels)}", "-DCMAKE_CUDA_ARCHITECTURES=90", "-DCMAKE_CXX_FLAGS=-O2 -w",
                    "-DCMAKE_CUDA_FLAGS=-w"], check=True)
    codes = [subprocess.run(["cmake", "--build", folder, "--target", target]).returncode for target in ("rmm_live", "REPLAY_BENCH")]
    return 3 if any(codes) else 0


def program(folder, name):
    return os.path.join(os.path.abspath(folder), "gtests", name)


def live(arguments):
    command = [program(arguments.folder, "rmm_live"), str(arguments.operations)]
    if arguments.launcher:
        command.insert(0, arguments.launcher)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
    print(done.stdout, end="")
    return done.returncode


def calls_in(path):
    if not os.path.exists(path):
        return {}
    with open(path, newline="") as file:
        return collections.Counter(line.split(",", 1)[0] for line in file)


def write_as_replayed(log, path):
    """The log as REPLAY_BENCH takes it."""
    with open(log, newline="") as file, open(path, "w", newline="") as out:
        rows = csv.DictReader(file)
        writer = csv.DictWriter(out, rows.fieldnames)
        writer.writeheader()
        writer.writerows({**row, "Stream": "0"} for row in rows if row["Action"] != "allocate failure")


def theirs(arguments, log, resource):
    """Events, calls, ns for each event and how it ended, of REPLAY_BENCH."""
    simulated = arguments.device.startswith("sim:")
    command = [program(arguments.folder, "REPLAY_BENCH"), "-f", log, "-r", resource]
    if arguments.memory:
        command += ["-s", str(arguments.memory)]
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        calls = os.path.join(folder, "calls.csv")
        if simulated:
            launcher = os.path.join(os.path.dirname(os.path.abspath(arguments.allocmark)), "simcuda-run")
            command = [launcher, *command, "--benchmark_min_time=0.000000001"]
            environment.update(SIMCUDA_CALL_LOG=calls, SIMCUDA_PROFILE=arguments.device.removeprefix("sim:"))
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        found = re.search(r"Total Events: (\d+)", done.stdout)
        times = re.search(r"Resource/threads:\d+\s+([\d.]+) ms", done.stdout)
        row = {"events": int(found[1]) if found else 0, "calls": calls_in(calls), "ended": ""}
    if not found or row["events"] == 0:
        row["ended"] = "REPLAY_BENCH does not take this log: " + " ".join((done.stdout + done.stderr).split())[-160:]
    elif not times:
        refused = "bad_alloc" in done.stderr + done.stdout
        row["ended"] = "ends at its first failure" if refused else f"exit code {done.returncode}"
    elif not simulated:
        row["ns"] = float(times[1]) * 1e6 / row["events"]
    return row


def ours(arguments, log, conf):
    with tempfile.TemporaryDirectory() as folder:
        out, taken = os.path.join(folder, "run"), os.path.join(folder, "log.csv")
        write_as_replayed(log, taken)
        done = subprocess.run([arguments.allocmark, "run", "-q", "-w", "file:" + taken, "-a", "rmm@" + arguments.release, "--conf", conf, "--device",
                               arguments.device, "--passes", "3", "--kernels", "off", "--no-verify", "--no-html", "--allow-debug", "--out", out],
                              capture_output=True, text=True)
        if done.returncode != 0:
            return None, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        with open(os.path.join(out, "results.jsonl")) as file:
            cell = next(row for row in map(json.loads, file) if row["kind"] == "cell")
    count = cell["allocate_latency_count"] + cell["deallocate_latency_count"]
    ns = sum(cell[f"{kind}_latency_ns_mean"] * cell[f"{kind}_latency_count"] for kind in ("allocate", "deallocate")) / max(count, 1)
    return {"events": cell["allocate_count"] + cell["deallocate_count"], "ns": ns, "oom": cell["oom_count"],
            "cudaMalloc": cell["device_allocate_count"], "cudaStreamWaitEvent": cell["counters"]["stream_waits"]}, ""


def difference(their, our):
    """What differs in calls and failures; empty: nothing."""
    if their["ended"] == "ends at its first failure":
        return "" if our["oom"] else "only RMM fails"
    if their["ended"]:
        return their["ended"]
    if our["oom"]:
        return f"only ours fails, {our['oom']} times"
    if not their["calls"]:
        return ""
    pairs = [(name, their["calls"].get(name, 0), our[name]) for name in ("cudaMalloc", "cudaStreamWaitEvent")]
    return "; ".join(f"{name}: {there} and {here}" for name, there, here in pairs if there != here)


def replay(arguments):
    simulated = arguments.device.startswith("sim:")
    print("| log | resource | events of RMM | of ours | cudaMalloc of RMM | of ours | failures of ours | ns an event, RMM | ours | differs |")
    print("| :-- | :-- | --: | --: | --: | --: | --: | --: | --: | :-- |")
    codes = []
    for log in arguments.log:
        for resource in arguments.resource.split(","):
            conf = RESOURCES[resource][1 if arguments.memory else 0]
            if conf is None:
                continue
            conf = conf.format(int(arguments.memory * 1024))
            their = theirs(arguments, log, resource)
            our, reason = ours(arguments, log, conf)
            if our is None:
                print(f"| {os.path.basename(log)} | {resource} | {their['events']} | | | | | | | not run: {reason} |", flush=True)
                codes.append(3)
                continue
            what = difference(their, our)
            codes.append(3 if their["ended"].startswith("REPLAY_BENCH") else 1 if what else 0)
            malloc = their["calls"].get("cudaMalloc", 0) if their["calls"] else "-"
            print(f"| {os.path.basename(log)} | {resource} | {their['events']} | {our['events']} | {malloc} | {our['cudaMalloc']} | {our['oom']} | "
                  f"{round(their['ns']) if 'ns' in their else '-'} | {'-' if simulated else round(our['ns'])} | {what or 'nothing'} |", flush=True)
    if simulated:
        print("\nNo times: RMM's would be that of the simulator.")
    return 1 if 1 in codes else max(codes, default=3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    for name in ("source", "wheels", "folder"):
        building.add_argument(name)
    comparing = commands.add_parser("live")
    comparing.add_argument("folder")
    comparing.add_argument("--operations", type=int, default=100_000, help="for each resource [100000]")
    comparing.add_argument("--launcher", help="simcuda-run, where there is no GPU")
    replaying = commands.add_parser("replay")
    replaying.add_argument("allocmark", help="the program; simcuda-run lies beside it")
    replaying.add_argument("folder")
    replaying.add_argument("log", nargs="+")
    replaying.add_argument("--resource", default=",".join(RESOURCES), help="which, with commas between [all]")
    replaying.add_argument("--memory", type=float, default=0, help="GiB that the resource may have [no limit]")
    replaying.add_argument("--device", default="sim:h200", help="for both [sim:h200]")
    replaying.add_argument("--release", default="26.06", help="of RMM in FOLDER [26.06]")
    arguments = parser.parse_args()
    return {"build": build, "live": live, "replay": replay}[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
