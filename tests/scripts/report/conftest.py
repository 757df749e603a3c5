"""Puts the report's own folder on the path, and makes one page for all tests that look at it."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent.parent / "scripts" / "report")]

import generate  # noqa: E402

HOSTILE = "<script>window.broken = 1</script><img src=x onerror=window.broken=1>\"'`{{7*7}}<!--<script "

TURNS = "\u202e\u2066\u200f\u061c\u2028\ufeff"


def hostile_lines():
    """The golden results, which hold every kind of cell, with cells whose names try to break the page."""
    lines = generate.golden_lines()
    experiment = "<b onclick=alert(1)>w</b>"
    for setting in [("caching", ""), ("caching", HOSTILE), (HOSTILE, "a:1")]:
        cell = generate.measured_cell()
        cell.update(workload=HOSTILE + experiment, allocator=setting[0], conf=setting[1])
        cell.update(warnings=[HOSTILE + TURNS], counters={HOSTILE: 1}, trace_name=HOSTILE)
        lines.append(cell)
    lines[0]["hostname_hash"] = lines[0]["cpu_model"] = HOSTILE
    return generate.with_ids(lines)


def write_baseline(folder):
    """What the golden page is compared with: the same cells, some of them better, worse, changed or without a result."""
    lines = hostile_lines()
    cells = [line for line in lines[1:] if line["status"] == "ok"]
    cells[0]["oom_count"] += 2
    cells[-1].update(reserved_bytes_peak=cells[-1]["reserved_bytes_peak"] - 4096, counters={HOSTILE: 2})
    cells[-2]["placement_hash"] = "00000000000000ff"
    for line in lines[1:]:
        if line["status"] == "crashed":
            line.update(reason=HOSTILE)
    return generate.write_folder(folder / HOSTILE.replace("/", ""), lines)


@pytest.fixture(scope="session")
def golden_page(tmp_path_factory):
    """The golden results with hostile names, two timelines and a comparison."""
    lines = hostile_lines()
    timelines = [generate.make_timeline(generate.cell_id(line)) for line in (generate.measured_cell(), lines[-2])]
    folder = generate.write_folder(tmp_path_factory.mktemp("golden"), lines, timelines)
    generate.make_report(folder, "--baseline", write_baseline(tmp_path_factory.mktemp("base")))
    return folder / "report.html"


@pytest.fixture(scope="session")
def large_page(tmp_path_factory):
    """1000 generated cells, compared with 1000 others."""
    folder = generate.write_folder(tmp_path_factory.mktemp("large"), generate.make_lines(1000))
    base = generate.write_folder(tmp_path_factory.mktemp("base"), generate.make_lines(1000, seed=8))
    generate.make_report(folder, "--baseline", base)
    return folder / "report.html"
