#!/usr/bin/env python3
"""Asks 'allocmark advise' about jobs, runs what it recommends on a GPU, and writes what came of it as a page.

measure PROGRAM FILE: for every recorded workload and capacity, what advise says (simulated, on the CPUs) and then the cells on the device: unset,
and the settings recommended. FILE gets a JSON line per job as soon as it is known. About 7 minutes for 74 recordings on an H200.
report FILE: the page, as Markdown, from FILE (.jsonl or .jsonl.xz) and nothing else. Exit code 1 where a cell of the device failed another number
of requests than the search said, or where what was recommended did not serve."""
import argparse
import collections
import concurrent.futures
import itertools
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

KEPT = ("conf", "status", "reason", "oom_count", "placement_hash", "reserved_bytes_peak")
# What most people would try, one after the other.
KNOWN = ("expandable_segments:True", "max_split_size_mb:32", "max_split_size_mb:128", "max_split_size_mb:512", "backend:cudaMallocAsync",
         "large_segment_size_mb:64", "roundup_power2_divisions:8")


def recorded(program):
    listed = subprocess.run([program, "list", "workloads", "--format", "json"], capture_output=True, text=True, check=True)
    return [one["name"] for one in json.loads(listed.stdout)["workloads"] if one["summary"].startswith("(recorded)")]


def setting_of(paste):
    """The config string in a line to paste."""
    return "unset" if paste.startswith("unset") else paste.split("=", 1)[1].strip("'\"")


def asked(program, name, capacity):
    """What advise says of a job."""
    done = subprocess.run(["nice", program, "advise", name, "--capacity", capacity, "--format", "json", "-q"], capture_output=True, text=True)
    row = {"name": name, "capacity": capacity}
    if done.returncode != 0:
        return {**row, "error": done.stderr[-300:]}
    found = json.loads(done.stdout)
    # Of a job that no setting can serve nothing is measured, so there is no answer over cells.
    answer = (found["answers"]["experiments"] or [{"verdict": "impossible", "settable": []}])[0]
    row.update(verdict=answer["verdict"], impossible=found["impossible"], sentence=found["answers"]["sentence"])
    row["settable"] = [setting_of(one["paste"]) for one in answer["settable"]]
    row["search"] = {one["conf"]: [one["oom_count"], one["driver_ns_per_step"], one["calls_per_step"]] for one in found["settings"]}
    return row


def settings_to_run(row, finalist_count):
    """Unset and the best recommended; where none serves, unset and the one that fails least."""
    least = min(row["search"], key=lambda conf: row["search"][conf][0])
    return list(dict.fromkeys(["unset", *(row["settable"][:finalist_count] or [least or "unset"])]))


def run_cells(program, device, row, confs, folder):
    arguments = [program, "run", "--workload", row["name"], "--capacity", row["capacity"], "--allocator", "caching", "--device", device,
                 "--passes", "3", "--verify", "off", "--no-html", "-q", "--out", str(folder)]
    for conf in confs:
        arguments += ["--conf", conf]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        return {"error": done.stderr[-300:]}
    cells = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return {"cells": [{**{key: cell.get(key) for key in KEPT}, "steps": [one["allocator_ns_per_step"] for one in cell["passes"]]}
                      for cell in cells if cell["kind"] == "cell"]}


def environment(program, device):
    version = subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    gpu = device
    if device.startswith("cuda") and shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "-i", device.split(":")[1]]
        gpu = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    return {"kind": "environment", "device": gpu, "program": version, "day": time.strftime("%Y-%m-%d", time.gmtime())}


def measure(options):
    jobs = list(itertools.product(options.workload or recorded(options.program), options.capacity))
    with open(options.file, "w", encoding="utf-8") as out, tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(options.lanes) as lanes:
        out.write(json.dumps(environment(options.program, options.device)) + "\n")
        # Searches go on beside the cells; cells of a device are run one at a time.
        for index, found in enumerate(lanes.map(lambda job: asked(options.program, *job), jobs)):
            if "error" not in found:
                confs = settings_to_run(found, options.finalists)
                found.update(run_cells(options.program, options.device, found, confs, pathlib.Path(folder) / str(index)))
            out.write(json.dumps(found) + "\n")
            out.flush()
    return 0


def read(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return rows[0], rows[1:]


def judge(rows):
    """Counts, and what is wrong in words."""
    counts, wrong = collections.Counter(), []
    for row in rows:
        job = f"{row['name']} at {row['capacity']}"
        if row.get("error"):
            wrong.append(f"{job}: {row['error']}")
            continue
        failures = {}
        for cell in row["cells"]:
            counts["cells"] += 1
            failures[cell["conf"] or "unset"] = cell["oom_count"]
            said = row["search"][cell["conf"]][0]
            if cell["status"] != "ok" or said != cell["oom_count"]:
                wrong.append(f"{job}: {cell['conf'] or 'unset'} failed {cell['oom_count']} requests, the search said {said}")
        if row["settable"]:
            counts["recommended"] += 1
            if failures.get(row["settable"][0]) != 0:
                wrong.append(f"{job}: {row['settable'][0]} was recommended and did not serve")
        else:
            counts["none serves"] += 1
    return counts, wrong


def order(rows):
    """Of recommended settings that the device's passes tell apart: pairs in the order of the answer, and all."""
    agree = pairs = 0
    for row in rows:
        steps = {cell["conf"] or "unset": cell["steps"] for cell in row.get("cells", []) if cell["oom_count"] == 0}
        for left, right in itertools.combinations([conf for conf in row.get("settable", []) if conf in steps], 2):
            if max(steps[left]) < min(steps[right]) or max(steps[right]) < min(steps[left]):
                pairs += 1
                agree += max(steps[left]) < min(steps[right])
    return agree, pairs


def saved_table(rows, capacities):
    """Of the jobs that fail unset at a capacity, how many each setting saves."""
    lines = ["| setting | " + " | ".join(f"at {one}" for one in capacities) + " |", "| :-- |" + " --: |" * len(capacities)]
    failing = {one: [row for row in rows if row["capacity"] == one and row["search"][""][0] > 0] for one in capacities}
    jobs = {one: sum(row["capacity"] == one for row in rows) for one in capacities}
    lines.append("| (fail unset, of all jobs) | " + " | ".join(f"{len(failing[one])} of {jobs[one]}" for one in capacities) + " |")

    def saved(conf):
        return [sum(row["search"].get(conf, [1])[0] == 0 for row in failing[one]) for one in capacities]

    for conf in sorted(KNOWN, key=saved, reverse=True):
        lines.append(f"| `{conf}` | " + " | ".join(map(str, saved(conf))) + " |")
    any_of = [sum(any(found[0] == 0 for found in row["search"].values()) for row in failing[one]) for one in capacities]
    lines.append("| any of the settings searched | " + " | ".join(map(str, any_of)) + " |")
    return lines


def jobs_table(rows, capacities):
    lines = ["| job | " + " | ".join(capacities) + " |", "| :-- |" + " :-- |" * len(capacities)]
    by_name = {}
    for row in rows:
        unset, settable = row["search"][""][0], row["settable"]
        text = f"unset fails {unset}" if unset else "served unset"
        if unset:
            text += f"; `{settable[0]}`" if settable else "; none serves"
        by_name.setdefault(row["name"], {})[row["capacity"]] = text
    for name, found in sorted(by_name.items()):
        lines.append(f"| `{name}` | " + " | ".join(found.get(one, "") for one in capacities) + " |")
    return lines


def report(options):
    about, rows = read(options.file)
    counts, wrong = judge(rows)
    rows = [row for row in rows if "search" in row]
    capacities = sorted({row["capacity"] for row in rows}, key=lambda text: float(text.rstrip("x")))
    agree, pairs = order(rows)
    equal = counts["cells"] - sum("the search said" in text for text in wrong)
    served = counts["recommended"] - sum("did not serve" in text for text in wrong)
    print("\n".join([
        f"{about['device']}; {about['program']}; {about['day']}.", "",
        f"- Cells that failed as many requests as the search said: {equal} of {counts['cells']}.",
        f"- Jobs that the recommended setting served: {served} of {counts['recommended']}. In {counts['none serves']} others no setting serves.",
        f"- Pairs of recommended settings that the passes tell apart, in the order of the answer: {agree} of {pairs}.",
        "", "## Jobs that a setting saves", "", *saved_table(rows, capacities), "", "## Job by job", "", *jobs_table(rows, capacities),
        *(["", "## Wrong", "", *[f"- {text}" for text in wrong]] if wrong else [])]))
    return 1 if wrong or not rows else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("program")
    measuring.add_argument("file")
    measuring.add_argument("--device", default="cuda:0")
    measuring.add_argument("--workload", nargs="+", help="[every recorded one]")
    measuring.add_argument("--capacity", nargs="+", default=["1.02x", "1.05x", "1.1x"])
    measuring.add_argument("--finalists", type=int, default=2, help="recommended settings that are run, at most")
    measuring.add_argument("--lanes", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="searches at a time")
    commands.add_parser("report").add_argument("file")
    options = parser.parse_args()
    return measure(options) if options.command == "measure" else report(options)


if __name__ == "__main__":
    sys.exit(main())
