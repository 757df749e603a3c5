"""Puts the report's own folder on the path, and makes one page for all tests that look at it."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "scripts" / "report")]

import generate  # noqa: E402
import report  # noqa: E402

HOSTILE = "<script>window.broken = 1</script><img src=x onerror=window.broken=1>\"'`{{7*7}}<!--<script "


@pytest.fixture(scope="session")
def golden_page(tmp_path_factory):
    """The golden results, which hold every kind of cell, with hostile names and two timelines added."""
    lines = generate.golden_lines()
    experiment = "<b onclick=alert(1)>w</b>"
    for position, setting in enumerate([("caching", ""), ("caching", HOSTILE), (HOSTILE, "a:1")]):
        cell = generate.measured_cell()
        cell.update(cell_id=f"{0xABC0 + position:016x}", workload=HOSTILE + experiment, allocator=setting[0], conf=setting[1])
        cell.update(warnings=[HOSTILE], counters={HOSTILE: 1}, trace_name=HOSTILE)
        lines.append(cell)
    lines[0]["hostname_hash"] = lines[0]["cpu_model"] = HOSTILE
    measured = generate.measured_cell()["cell_id"]
    timelines = [generate.make_timeline(measured), generate.make_timeline(f"{0xABC1:016x}")]
    folder = generate.write_folder(tmp_path_factory.mktemp("golden"), lines, timelines)
    assert report.main([str(folder)]) == 0
    return folder / "report.html"


@pytest.fixture(scope="session")
def large_page(tmp_path_factory):
    """1000 generated cells."""
    folder = generate.write_folder(tmp_path_factory.mktemp("large"), generate.make_lines(1000))
    assert report.main([str(folder)]) == 0
    return folder / "report.html"
