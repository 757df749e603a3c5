#!/usr/bin/env python3
"""Runs other projects' own tests on simcuda, and writes what came of it as a page.

simcuda_suites.py SIMCUDA_RUN PAGE [--work FOLDER] [--source NAME=REPOSITORY]: installs each project's wheel from PyPI into a virtual environment in
FOLDER, takes its tests from its repository at the wheel's version, and runs each file as `simcuda-run --kernels nothing python -m
pytest` on two simulated GPUs. The page says suite, version, tests run, passed, skipped and failed by cause. Exit code 1 where a suite could not be
had, or a file crashed or took too long."""
import argparse
import collections
import datetime
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

# Name, package, what else it needs, repository of the tests, files of tests there.
SUITES = (
    ("CuPy", "cupy-cuda13x", ("pytest", "numpy"), "https://github.com/cupy/cupy",
     ("tests/cupy_tests/cuda_tests/test_memory.py", "tests/cupy_tests/cuda_tests/test_memory_hook.py", "tests/cupy_tests/cuda_tests/test_stream.py",
      "tests/cupy_tests/cuda_tests/test_device.py")),
)
TIMEOUT_S = 120  # of one file


def run(command, **rest):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **rest)


def environment(folder, packages):
    """The Python of a virtual environment that has the packages."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    run([python, "-m", "pip", "-q", "install", *packages], check=True)
    return python


def version_of(python, package):
    return run([python, "-c", f"import importlib.metadata as m; print(m.version({package!r}))"], check=True).stdout.strip()


def checkout(source, version, folder):
    """The tests' repository at the wheel's version. Returns the folder and what is checked out."""
    target = folder / "source"
    if not target.exists():
        run(["git", "clone", "-q", "--no-checkout", source, target], check=True)
    tag = "v" + version
    known = run(["git", "-C", target, "rev-parse", "-q", "--verify", tag + "^{commit}"]).returncode == 0
    revision = tag if known else run(["git", "-C", target, "rev-parse", "--short", "HEAD"], check=True).stdout.strip()
    run(["git", "-C", target, "checkout", "-q", revision, "--", "tests"], check=True)
    return target, revision


def cause(message):
    """A failure's first line, without what differs from test to test."""
    line = re.sub(r"\s+", " ", (message or "no message").strip().splitlines()[0])
    return re.sub(r"0x[0-9a-f]+|\b\d{3,}\b", "N", line)[:90].replace("|", "/")


def read_report(path):
    """Tests run, passed, skipped, and causes of failures with their counts."""
    counts = collections.Counter()
    causes = collections.Counter()
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        if bad is not None:
            counts["failed"] += 1
            causes[cause(bad.get("message"))] += 1
        else:
            counts["skipped" if case.find("skipped") is not None else "passed"] += 1
    return counts, causes


def run_suite(launcher, work, suite, source):
    name, package, more, repository, tests = suite
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    python = environment(folder, (package, *more))
    version = version_of(python, package)
    root, revision = checkout(source or repository, version, folder)
    counts, causes, broken = collections.Counter(), collections.Counter(), []
    for test in tests:
        broken += run_file(launcher, python, folder, root / test, (counts, causes))
    return {"name": name, "version": version, "revision": revision, "counts": counts, "causes": causes, "broken": broken}


def run_file(launcher, python, folder, test, totals):
    """Adds a file's results to the totals. Returns what ended it early, in a list."""
    report = folder / f"{test.stem}.xml"
    report.unlink(missing_ok=True)
    command = [launcher, "--kernels", "nothing", python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", test]
    try:
        done = run(command, cwd=folder, timeout=TIMEOUT_S, env={**os.environ, "SIMCUDA_DEVICES": "2"})
    except subprocess.TimeoutExpired:
        return [f"{test.name}: no end after {TIMEOUT_S} s"]
    (folder / f"{test.stem}.log").write_text(done.stdout + done.stderr)
    if report.exists():
        for total, part in zip(totals, read_report(report)):
            total.update(part)
    return [] if report.exists() and done.returncode >= 0 and done.returncode < 128 else [f"{test.name}: exit code {done.returncode}"]


def page(rows):
    today = datetime.date.today().isoformat()
    lines = ["# Other projects' tests on simcuda", "",
             f"Made by `scripts/measure/simcuda_suites.py` on {today}. Kernels do nothing, so tests of their", "values fail.", "",
             "| suite | version | tests from | run | passed | skipped | failed |", "| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    for row in rows:
        if "crash" in row:
            lines.append(f"| {row['name']} | {row['version']} | {row['crash']} | | | | |")
            continue
        counts = row["counts"]
        lines.append(f"| {row['name']} | {row['version']} | {row['revision']} | {counts['passed'] + counts['failed']} | {counts['passed']} | "
                     f"{counts['skipped']} | {counts['failed']} |")
    lines += ["", "Failures by cause:", "", "| suite | cause | tests |", "| --- | --- | ---: |"]
    for row in rows:
        for what in row.get("broken", []):
            lines.append(f"| {row['name']} | {what} | the file |")
        for what, count in row.get("causes", collections.Counter()).most_common(12):
            lines.append(f"| {row['name']} | {what} | {count} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("launcher", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("simcuda_suites"))
    parser.add_argument("--source", action="append", default=[], help="NAME=REPOSITORY in place of the project's own address")
    options = parser.parse_args()
    sources = dict(one.split("=", 1) for one in options.source)
    rows = []
    for suite in SUITES:
        try:
            rows.append(run_suite(options.launcher.resolve(), options.work.resolve(), suite, sources.get(suite[0])))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            rows.append({"name": suite[0], "version": "", "crash": f"not run: {cause(getattr(error, 'stderr', None) or str(error))}"})
    options.page.write_text(page(rows))
    print(page(rows), end="")
    return any("crash" in row or row["broken"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
