#!/usr/bin/env python3
"""Goal: what changes under a run is said, and what a run that is gone on with leaves is what an unbroken one leaves. Method: a program that
replaces itself in an A/B run; a run whose trace file changes, whose timelines or last lines are gone, and in whose folder a killed process left
a part of a file. Usage: changed_files_test.py PATH_OF_ALLOCMARK"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(sys.argv.pop(1)).resolve()
CHURN = "churn:live_bytes=64MiB,events=400"
COMMON = ("-d", "sim:h200", "--allow-debug", "--no-html", "-q")


def run(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)


def cells_of(folder):
    return [line for line in map(json.loads, (folder / "results.jsonl").read_text().splitlines()) if line["kind"] == "cell"]


class ChangedFiles(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.work = Path(place.name)

    def wrapper(self, name, first=""):
        path = self.work / name
        path.write_text(f'#!/bin/sh\ncase "$*" in *--describe-device*) ;; cell*) {first} ;; esac\nexec {PROGRAM} "$@"\n')
        path.chmod(0o755)
        return path

    def between(self, first):
        base, now = self.wrapper("base", first), self.wrapper("now", "true")
        return run("run", "--ab", base, now, "-w", CHURN, "-a", "caching", "--rounds", 3, "--rounds-max", 3, "--passes", 1, *COMMON, "--out", self.work / "ab")

    def test_a_program_that_is_replaced_between_rounds_is_said(self):
        self.wrapper("other", "true")
        ran = self.between(f"cp -p {self.work}/other {self.work}/next; mv {self.work}/next {self.work}/base")
        self.assertEqual(ran.returncode, 3, ran.stderr)
        self.assertIn("base was replaced while the cells ran", ran.stderr.replace("\n", " "))

    def test_programs_that_stay_are_not_named(self):
        ran = self.between("true")
        self.assertNotIn("was replaced", ran.stderr)
        self.assertIn(ran.returncode, (0, 1))

    def cut(self, folder, count):
        """As a run that was killed after `count` cells."""
        path = folder / "results.jsonl"
        path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[: count + 1]))

    def test_timelines_go_on_without_being_asked_for(self):
        folder = self.work / "run"
        self.assertEqual(run("run", "-w", CHURN, "-a", "caching", "native", "--timeline", *COMMON, "--out", folder).returncode, 0)
        before = sorted(path.name for path in (folder / "timelines").iterdir())
        self.cut(folder, 1)
        for path in (folder / "timelines").iterdir():
            path.unlink()
        (folder / "timelines/.x.json.99999.part").write_text("half")
        (folder / ".report.md.99999.part").write_text("half")
        self.assertEqual(run("run", "--resume", *COMMON, "--out", folder).returncode, 0)
        self.assertEqual(sorted(path.name for path in (folder / "timelines").iterdir()), before)
        self.assertEqual([path.name for path in folder.iterdir() if path.name.endswith(".part")], [])

    def test_a_trace_that_changed_leaves_no_line_of_the_old_one(self):
        folder, trace = self.work / "run", self.work / "own.csv"
        run("trace", "generate", CHURN, trace)
        self.assertEqual(run("run", "-w", f"file:{trace}", "-a", "caching", "native", *COMMON, "--out", folder).returncode, 0)
        self.cut(folder, 1)
        run("trace", "generate", CHURN.replace("400", "500"), "--force", trace)
        self.assertEqual(run("run", "--resume", *COMMON, "--out", folder).returncode, 0)
        planned = {cell["cell_id"] for cell in json.loads((folder / "plan.json").read_text())["cells"]}
        self.assertEqual(sorted(cell["cell_id"] for cell in cells_of(folder)), sorted(planned))

    def test_a_run_that_no_report_can_hold_is_refused_when_it_is_planned(self):
        confs = [word for size in range(21, 261) for word in ("--conf", f"caching=max_split_size_mb:{size}")]
        ran = run("run", "-w", CHURN, "-a", "caching", "--seeds", 300, *confs, "--dry-run", *COMMON)
        self.assertEqual(ran.returncode, 2, ran.stderr[-300:])
        self.assertIn("--shard", ran.stderr)

    def test_a_soak_is_no_run_to_bundle(self):
        soak = run("run", "-w", CHURN, "-a", "caching", "--for", "11s", "-d", "sim:h200", "--allow-debug", "-q", "--out", self.work / "soak")
        self.assertIn(soak.returncode, (0, 1), soak.stderr[-300:])  # 1: a time grew, as on a busy host
        ran = run("bundle", self.work / "soak", "--out", self.work / "soak.tar")
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertIn("soak.json", ran.stderr)


if __name__ == "__main__":
    unittest.main()
