#!/usr/bin/env python3
"""Holds what 'allocmark advise' searches against cells measured on a GPU.

FOLDER holds run folders (scripts/measure/advise_check.sh) or is one of results/published. For every program and capacity: are
the failures of each setting those that the search found, does the setting that the search ranks first serve the job wherever
any setting does, and does the order by cost agree (Kendall's tau over the pairs of settings that serve and that both sides can
tell apart)?

Usage: scripts/measure/advise_order.py PROGRAM FOLDER [--tau-min 0.9]   Exit code 1 where it falls short."""
import argparse
import itertools
import json
import lzma
import pathlib
import subprocess
import sys

EQUAL_SHARE, EQUAL_NS, HOST_NS_PER_CALL = 1.05, 1000, 100  # as in harness/core/search/advice.cc


PUBLISHED = ("real", "backends_checkpointing")  # raw files of programs without kernels


def lines_of(folder):
    """(name where it was found, line) of every result below the folder."""
    for path in sorted(folder.glob("*/results.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield path.parent.name, line
    for name in PUBLISHED:
        path = folder / "raw" / f"{name}.jsonl.xz"
        if path.is_file():
            with lzma.open(path, "rt", encoding="utf-8") as file:
                for line in file:
                    yield "", line


def experiments(folder):
    """{name: cells by config string}, one per program and capacity."""
    found = {}
    for where, line in lines_of(folder):
        cell = json.loads(line)
        if cell["kind"] != "cell" or cell["status"] != "ok":
            continue
        if cell["allocator"] == "async" and not cell["conf"]:
            cell["allocator"], cell["conf"] = "caching", "backend:cudaMallocAsync"
        if cell["allocator"].split("@")[0] == "caching":
            found.setdefault(where or f"{cell['workload']}@{cell['capacity']}", {})[cell["conf"]] = cell
    return {name: cells for name, cells in found.items() if len(cells) > 1}


def search(program, workload, capacity, confs):
    command = [program, "advise", workload, "--capacity", capacity, "--search-only", "--format", "json", "--conf"]
    answer = subprocess.run(command + [conf or "unset" for conf in confs], capture_output=True, text=True, check=True)
    return {one["conf"]: one for one in json.loads(answer.stdout)["settings"]}


def measured_range(cell):
    values = [one["allocator_ns_per_step"] for one in cell["passes"]]
    return min(values), max(values)


def cost_of(setting):
    return setting["driver_ns_per_step"] + HOST_NS_PER_CALL * setting["calls_per_step"]


def order_of(left, right):
    """-1, 0 or 1 of two searched costs; 0 where the search calls them equal."""
    low, high = sorted((left, right))
    if high <= low * EQUAL_SHARE or high <= low + EQUAL_NS:
        return 0
    return -1 if left < right else 1


def failures(setting, cell):
    """What the search says of the device that the cell was of: results before schema 1.13 judge pools on an idle one."""
    idle = setting["idle_oom_count"]
    return idle if idle is not None and cell.get("assumed_kernel_ns") is None else setting["oom_count"]


def judge(program, cells):
    first = next(iter(cells.values()))
    found = search(program, first["workload"], first["capacity"], list(cells))
    same = sum(failures(found[conf], cell) == cell["oom_count"] for conf, cell in cells.items())
    serving = [conf for conf, cell in cells.items() if cell["oom_count"] == 0]
    agree = differ = 0
    for left, right in itertools.combinations(serving, 2):
        mine = order_of(cost_of(found[left]), cost_of(found[right]))
        (left_low, left_high), (right_low, right_high) = measured_range(cells[left]), measured_range(cells[right])
        theirs = -1 if left_high < right_low else 1 if right_high < left_low else 0
        if mine and theirs:
            agree, differ = agree + (mine == theirs), differ + (mine != theirs)
    ranked = sorted((conf for conf in cells if found[conf]["oom_count"] == 0), key=lambda conf: cost_of(found[conf]))
    rescued = not serving or bool(ranked and cells[ranked[0]]["oom_count"] == 0)
    return same, len(cells), agree, differ, rescued, ranked[0] or "unset" if ranked else "none serves"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tau-min", type=float, default=0.9)
    options = parser.parse_args()
    same = cells = agree = differ = 0
    good = True
    for name, by_conf in experiments(options.folder).items():
        one = judge(options.program, by_conf)
        print(f"{name[:33]:34} failures equal {one[0]}/{one[1]}  pairs {one[2]} agree, {one[3]} differ  {'ok' if one[4] else 'NOT SERVED'}: {one[5]}")
        same, cells, agree, differ, good = same + one[0], cells + one[1], agree + one[2], differ + one[3], good and one[4]
    if agree + differ == 0:
        sys.exit(f"{options.folder}: no results with two settings that serve")
    tau = (agree - differ) / (agree + differ)
    print(f"failures equal in {same} of {cells} cells; Kendall's tau {tau:.3f} over {agree + differ} pairs")
    return 0 if good and tau >= options.tau_min and same == cells else 1


if __name__ == "__main__":
    sys.exit(main())
