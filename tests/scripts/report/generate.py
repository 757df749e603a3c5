"""Generated results folders for tests of the report: any number of cells made from the golden results, with chosen names. Nothing here is a
measurement. Reports are made as users make them, by the program that ALLOCMARK_PROGRAM names. `generate.py FOLDER CELL_COUNT [SEED]` writes a
folder by hand."""

import copy
import json
import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "results" / "golden" / "results.jsonl"
SETTINGS = [("caching", ""), ("native", ""), ("async", ""), ("null", "")] + [
    ("caching", conf)
    for conf in (
        "max_split_size_mb:32",
        "max_split_size_mb:128",
        "garbage_collection_threshold:0.8",
        "expandable_segments:True",
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],max_split_size_mb:256,garbage_collection_threshold:0.9",
    )
]


def golden_lines():
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def measured_cell():
    return next(line for line in golden_lines() if line["kind"] == "cell" and line["status"] == "ok" and line["oom_count"] == 0)


KEYS = "workload", "allocator", "conf", "device", "capacity", "seed", "on_oom"
DEFINITIONS = "workload_definition", "workload_files"


def cell_id(cell):
    """As results/FORMAT.md defines it: FNV-1a over the key's fields as netstrings."""
    texts = [str(cell[name]).encode() for name in KEYS]
    definition, files = (cell.get(name) or "" for name in DEFINITIONS)
    texts += [definition.encode()] if definition or files else []
    texts += [files.encode()] if files else []
    value = 0xCBF29CE484222325
    for byte in b"".join(b"%d:%s," % (len(text), text) for text in texts):
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"{value:016x}"


def make_histogram(random_source, sample_count, bucket_count=90):
    """[bucket, count, gap, count, ...] as real cells have it: many buckets, most samples in the lower ones."""
    counts = [1] * bucket_count
    counts[bucket_count // 5] += sample_count - bucket_count
    histogram = [600 + random_source.randrange(20), counts[0]]
    for count in counts[1:]:
        histogram += [random_source.randrange(1, 9), count]
    return histogram


def make_cell(workload, setting, capacity, random_source):
    cell = copy.deepcopy(measured_cell())
    scale = random_source.uniform(0.7, 1.6) * {"native": 900, "async": 5}.get(setting[0], 1)
    cell.update(workload=workload, allocator=setting[0], conf=setting[1], capacity=capacity, warnings=[])
    for name, value in cell.items():
        if "_latency_ns_" in name and not name.endswith("_between_share") and value is not None:
            cell[name] = value * scale
    if capacity != "unlimited" and random_source.random() < 0.3 and setting[0] != "null":
        cell.update(oom_count=12, oom_count_fragmentation=10, oom_count_rounding=2, trial_oom_count=cell["trial_count"])
    for one in cell["passes"]:
        for operation in ("allocate", "deallocate"):
            one[operation + "_latency_histogram"] = make_histogram(random_source, cell[operation + "_latency_count"] // len(cell["passes"]))
    cell["cell_id"] = cell_id(cell)
    one = copy.deepcopy({name: value for name, value in cell.items() if "latency_" in name and "_repeat_" not in name and "_scaled_" not in name})
    cell["size_classes"] = [dict(one, size_class=name) for name in ("<=512B", "<=4KiB", "<=64KiB", "<1MiB", "<10MiB", "<=64MiB", "<=512MiB")]
    return cell


def make_lines(cell_count, workload_prefix="train:model,batch=", seed=7):
    random_source = random.Random(seed)
    lines = [golden_lines()[0]]
    index = 0
    while len(lines) <= cell_count:
        group, position = divmod(index, len(SETTINGS))
        workload, capacity = f"{workload_prefix}{group // 2}", ("unlimited", "1.05x")[group % 2]
        lines.append(make_cell(workload, SETTINGS[position], capacity, random_source))
        index += 1
    return lines


def make_timeline(cell_id, point_count=200):
    random_source, live, points = random.Random(cell_id), 0, []
    for _ in range(point_count):
        live = max(0, live + random_source.randrange(-(1 << 26), 1 << 27))
        points.append(live)
    blocks = [[index << 21, 1 << 21, index % 3] for index in range(10)]
    return {
        "kind": "timeline",
        "schema_version": "1.0.0",
        "cell_id": cell_id,
        "event_count": point_count * 10,
        "event_index": [index * 10 for index in range(point_count)],
        "requested_bytes": points,
        "allocated_bytes": [value + (1 << 20) for value in points],
        "active_bytes": [value + (1 << 21) for value in points],
        "reserved_bytes": [max(points[: index + 1]) + (1 << 25) for index in range(point_count)],
        "oom_event_index": [50],
        "snapshots": [
            {"event_index": at, "segments": [{"address": 0, "size_bytes": 10 << 21, "stream": 0, "blocks": blocks[: 3 + at // 500]}]}
            for at in (0, 700, 1900)
        ],
    }


def with_ids(lines):
    return [dict(line, cell_id=cell_id(line)) if line["kind"] == "cell" else line for line in lines]


def write_folder(folder, lines, timelines=()):
    """Also the plan that a comparison wants; names may have been changed since the cells were made."""
    lines = with_ids(lines)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    keys = (*KEYS, *DEFINITIONS, "cell_id", "schema_version")
    cells = {line["cell_id"]: {"kind": "cell_key", **{name: line[name] for name in keys if name in line}} for line in lines[1:]}
    plan = {"kind": "plan", "schema_version": lines[0]["schema_version"], "title": "generated", "pass_count": 3, "verify": "edges", "timeout_s": 0}
    (folder / "plan.json").write_text(json.dumps({**plan, "cells": list(cells.values())}))
    for timeline in timelines:
        (folder / "timelines").mkdir(exist_ok=True)
        (folder / "timelines" / f"{timeline['cell_id']}.json").write_text(json.dumps(timeline))
    return folder


def run_program(*arguments):
    """The program with this Python, so that the page is tested with it."""
    environment = {**os.environ, "ALLOCMARK_PYTHON": sys.executable}
    command = [os.environ["ALLOCMARK_PROGRAM"], *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def make_report(folder, *arguments):
    """What `allocmark report` says; it must succeed."""
    done = run_program("report", folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_with_facts(folder, *arguments):
    """A run as report.py has it."""
    import facts
    import load

    told = facts.read_facts(make_report(folder, "--format", "facts", *arguments), "stdin")
    run = load.read_run(folder, told)
    facts.attach(run, told)
    return run


if __name__ == "__main__":
    write_folder(sys.argv[1], make_lines(int(sys.argv[2]), seed=int((sys.argv[3:] or [7])[0])))
