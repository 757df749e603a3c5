"""What other programs read is as they want it: JUnit by the rules of its strictest schema, github-action-benchmark's and Bencher's JSON by
their published forms, and the real compare.py of Google Benchmark on our export and on allocmark_bench's output, where it is installed
(Debian: libbenchmark-tools and python3-scipy; else ALLOCMARK_COMPARE_PY names a compare.py, ALLOCMARK_COMPARE_PYTHON a python3 with scipy)."""

import json
import math
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import conftest
import generate

COMPARE_PY = Path(os.environ.get("ALLOCMARK_COMPARE_PY", "/usr/share/benchmark/compare.py"))
COMPARE_PYTHON = os.environ.get("ALLOCMARK_COMPARE_PYTHON", "/usr/bin/python3")


@pytest.fixture(scope="module", params=["hostile", "long", "nothing to compare"])
def compared(request, tmp_path_factory):
    """A function from a format to its text, for a comparison with every verdict and names of every kind."""
    lines = conftest.hostile_lines()
    if request.param == "long":
        lines[1]["conf"] = "x" * 3000
        lines[2].update(conf="\ufffe\uffff \u00e9\u4e2d", workload="")
    if request.param == "nothing to compare":
        lines = lines[:1]
    folder = tmp_path_factory.mktemp("compared")
    new = generate.write_folder(folder / "new", lines)
    base = conftest.write_baseline(folder)

    def text_of(name):
        done = generate.run_program("compare", base, new, "--format", name)
        assert done.returncode in (1, 3), done.stderr
        return done.stdout

    return text_of


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def test_junit_has_what_its_schema_asks_for(compared):
    suite = ElementTree.fromstring(compared("junit"))
    assert suite.tag == "testsuite" and suite.get("name") and suite.get("hostname")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))
    assert set(suite.attrib) == {"name", "timestamp", "hostname", "tests", "failures", "errors", "skipped", "time"}
    children = [child.tag for child in suite]
    assert children == ["properties", *["testcase"] * (len(children) - 3), "system-out", "system-err"]
    assert all(set(one.attrib) == {"name", "value"} and one.get("name") for one in suite.find("properties"))
    cases = suite.findall("testcase")
    counts = {"failure": 0, "error": 0, "skipped": 0}
    for case in cases:
        assert set(case.attrib) == {"name", "classname", "time"} and float(case.get("time")) >= 0
        assert len(case) <= 1
        for child in case:
            counts[child.tag] += 1
            assert set(child.attrib) == ({"message"} if child.tag == "skipped" else {"message", "type"}) and len(child) == 0
    assert [int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")] == [len(cases), *counts.values()]
    assert len({case.get("name") for case in cases}) == len(cases)
    assert counts["failure"] > 0 or counts["error"] > 0


def test_github_action_benchmark_gets_its_entries(compared):
    entries = json.loads(compared("github"))
    assert isinstance(entries, list)
    for entry in entries:
        assert set(entry) <= {"name", "unit", "value", "range", "extra"} and {"name", "unit", "value"} <= set(entry)
        assert isinstance(entry["name"], str) and isinstance(entry["unit"], str) and is_number(entry["value"])
        # As the action takes it apart: a sign, blanks, and a number up to the end.
        assert "range" not in entry or float(re.fullmatch(r"(?:\+-|±)\s*(\d.*)", entry["range"])[1]) >= 0
    assert len({entry["name"] for entry in entries}) == len(entries)


def test_bencher_gets_its_metric_format(compared):
    benchmarks = json.loads(compared("bencher"))
    assert isinstance(benchmarks, dict)
    for name, measures in benchmarks.items():
        assert 0 < len(name) <= 1024 and measures
        for measure, metric in measures.items():
            assert 0 < len(measure) <= 64 and set(metric) <= {"value", "lower_value", "upper_value"}
            assert all(map(is_number, metric.values()))
            assert metric.get("lower_value", metric["value"]) <= metric["value"] <= metric.get("upper_value", metric["value"])


def compare_py(*arguments):
    done = subprocess.run([COMPARE_PYTHON, COMPARE_PY, "--no-color", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def has_compare_py():
    return COMPARE_PY.is_file() and subprocess.run([COMPARE_PYTHON, "-c", "import numpy, scipy.stats"], capture_output=True).returncode == 0


@pytest.mark.skipif(not has_compare_py(), reason="compare.py is not installed (Debian: libbenchmark-tools, python3-scipy)")
def test_compare_py_takes_our_export(tmp_path):
    folders = [generate.write_folder(tmp_path / str(seed), generate.make_lines(20, seed=seed)) for seed in (1, 2)]
    for folder in folders:
        generate.make_report(folder, "--no-html")
    same = compare_py("benchmarks", *[folders[0] / "google_benchmark.json"] * 2)
    assert "OVERALL_GEOMEAN" in same and re.search(r"allocate_median\s+\+0\.0000", same)
    other = compare_py("benchmarks", *(folder / "google_benchmark.json" for folder in folders))
    assert re.search(r"allocate_median\s+[+-]0\.[0-9]*[1-9]", other)
    filtered = compare_py("filters", folders[0] / "google_benchmark.json", "caching/unset", "native/unset")
    assert "OVERALL_GEOMEAN" in filtered


@pytest.mark.skipif(not has_compare_py(), reason="compare.py is not installed (Debian: libbenchmark-tools, python3-scipy)")
def test_compare_py_takes_the_output_of_allocmark_bench(tmp_path):
    bench = Path(os.environ["ALLOCMARK_PROGRAM"]).with_name("allocmark_bench")
    assert shutil.which(bench)
    for name in ("a", "b"):
        command = [bench, "--device", "sim:h200", "--size", "4KiB", "--threads", "1", "--benchmark_filter=^(pair|cold)/",
                   "--benchmark_min_time=0.001", f"--benchmark_out={tmp_path / name}"]
        subprocess.run([*command, "--benchmark_out_format=json", "--benchmark_repetitions=2"], check=True, capture_output=True)
    assert "OVERALL_GEOMEAN" in compare_py("benchmarks", tmp_path / "a", tmp_path / "b")
