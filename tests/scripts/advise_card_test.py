#!/usr/bin/env python3
"""Goal: scripts/measure/advise_card.py says how often a device agrees with advice, and finds where it does not. Method: a measurement on the simulated
device; the same rows with faults put in; and the published page against its raw file.

Usage: advise_card_test.py SCRIPT PROGRAM PUBLISHED"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SCRIPT, PROGRAM, PUBLISHED = sys.argv[1:4]


def call(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)


def expect(good, what, done):
    if not good:
        sys.exit(f"{what}; exit code {done.returncode}\n{done.stdout}\n{done.stderr}")


def report_of(folder, rows):
    path = folder / "changed.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return call("report", str(path))


def spoil_count(job):
    job["cells"][-1]["oom_count"] += 1


def spoil_recommended(job):
    served = next(cell for cell in job["cells"] if cell["conf"] == job["settable"][0])
    served["oom_count"] = job["search"][served["conf"]][0] = 4


def spoil_job(job):
    job["error"] = "the cell crashed"


PLANTED = [(spoil_count, " requests, the search said "), (spoil_recommended, "was recommended and did not serve"), (spoil_job, "the cell crashed")]


def check(folder):
    measured = folder / "measured.jsonl"
    done = call("measure", PROGRAM, str(measured), "--device", "sim:h200", "--workload", "vit_infer", "--capacity", "1.05x", "1.02x", "0.98x")
    expect(done.returncode == 0, "measure failed", done)
    impossible = [row["capacity"] for row in map(json.loads, measured.read_text().splitlines()) if row.get("impossible")]
    expect(impossible == ["0.98x"], f"impossible jobs: {impossible}", done)
    done = call("report", str(measured))
    expect(done.returncode == 0, "three jobs of the simulated device were judged wrong", done)
    # How many settings were recommended depends on measured times.
    expect(re.search(r"said: (\d+) of \1\.", done.stdout), "wanted all cells as the search said", done)
    expect("served: 1 of 1. In 2 others no setting serves." in done.stdout, "wanted one job served and two not", done)
    for spoil, wanted in PLANTED:
        rows = [json.loads(line) for line in measured.read_text().splitlines()]
        spoil(next(row for row in rows if row.get("settable")))
        done = report_of(folder, rows)
        expect(done.returncode == 1 and wanted in done.stdout, f"{spoil.__name__} was not found", done)
    done = call("report", str(pathlib.Path(PUBLISHED) / "raw" / "advice.jsonl.xz"))
    expect(done.returncode == 0, "the published rows are judged wrong", done)
    page = (pathlib.Path(PUBLISHED) / "README.md").read_text()
    expect(page.endswith(done.stdout), "the published page is not what its raw file makes", done)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(name))
