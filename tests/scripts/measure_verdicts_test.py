#!/usr/bin/env python3
"""scripts/measure/measure_verdicts.py: which repeats count as inside, and (with ALLOCMARK_PROGRAM) small runs of a real program from end to end."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "measure"))

import measure_verdicts  # noqa: E402

PROGRAM = os.environ.get("ALLOCMARK_PROGRAM")


def run_of(value, low=90.0, high=115.0):
    """One cell with one stated interval; the other numbers have none."""
    cell = {name + end: None for name in measure_verdicts.REPEATED for end in ("", "_repeat_low", "_repeat_high")}
    name = "allocate_latency_ns_p50"
    return {"id": {**cell, name: value, name + "_repeat_low": low, name + "_repeat_high": high}}


def comparison_of(verdict, change, exit_code):
    number = {"number": "allocate_own_ns_p50", "verdict": verdict, "change": change, "p_value": 0.001}
    return {"exit_code": exit_code, "cells": [{"numbers": [number, {"number": "status", "verdict": "same"}]}]}


class Rates(unittest.TestCase):
    def test_comparisons_of_a_slowdown_are_counted(self):
        found = measure_verdicts.rate_summary([comparison_of("worse", 0.032, 1), comparison_of("same", 0.029, 0), comparison_of("worse", 0.034, 1),
                                               comparison_of("better", -0.04, 0)], 6)
        self.assertEqual((found["comparisons"], found["failed"][0], found["p50_called"][0], found["better"][0]), (4, 0.5, 0.5, 0.25))
        self.assertEqual(found["change_range"], [-0.04, 0.034])
        self.assertEqual(found["called"], ["allocate_own_ns_p50"])


class Repeat(unittest.TestCase):
    def test_the_later_run_is_held_against_the_earlier_one(self):
        found = measure_verdicts.repeat_summary([run_of(100.0), run_of(115.0, 110.0, 120.0), run_of(109.0)])
        self.assertEqual(found["allocate_latency_ns_p50"]["pairs"], 2)
        self.assertEqual(found["allocate_latency_ns_p50"]["inside"][0], 0.5)
        self.assertEqual(found["allocate_latency_ns_p50"]["width_median"], 0.25)
        self.assertEqual(found["all"]["pairs"], 2)
        self.assertEqual(found["allocate_latency_ns_p99"]["pairs"], 0)
        self.assertEqual(found["not_stated"], 6)

    def script(self, *options):
        return subprocess.run([sys.executable, str(ROOT / "scripts" / "measure" / "measure_verdicts.py"), "repeat", "--program", PROGRAM,
                               "--workload", "bert_varlen_infer",
                               "--allocator", "caching", *options], capture_output=True, text=True)

    @unittest.skipUnless(PROGRAM, "ALLOCMARK_PROGRAM is not set")
    def test_runs_of_a_program_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            done = self.script("--device", "sim:h200", "--runs", "3", "--out", str(out))
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(out.read_text())[0]
            self.assertEqual(found, json.loads(done.stdout))
            self.assertEqual((found["runs"], found["cells"], found["not_stated"]), (3, 1, 0))
            self.assertEqual(found["all"]["pairs"], 8)
            self.assertGreater(found["all"]["width_median"], 0)

    @unittest.skipUnless(PROGRAM, "ALLOCMARK_PROGRAM is not set")
    def test_no_run_begins_that_the_time_limit_has_no_room_for(self):
        done = self.script("--device", "sim:h200", "--runs", "1000", "--time-limit", "0.001")
        self.assertEqual(done.returncode, 1)
        self.assertIn("wanted two runs or more", done.stderr)

    def test_one_run_is_no_calibration(self):
        done = subprocess.run([sys.executable, str(ROOT / "scripts" / "measure" / "measure_verdicts.py"), "repeat",
                               "--calibration-runs", "1"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("two runs or more", done.stderr)


if __name__ == "__main__":
    unittest.main()
