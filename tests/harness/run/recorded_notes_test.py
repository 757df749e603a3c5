#!/usr/bin/env python3
"""`allocmark run` on a recording says what the recording does not tell, and that requests failed while it was made: on the terminal,
in the answer, in report.md and in the stored results.

usage: recorded_notes_test.py ALLOCMARK
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ALLOCMARK = ""
SNAPSHOTS = "tests/golden/snapshots"


class RecordedNotes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "run")

    def run_on(self, *workloads, capacities=("unlimited",)):
        words = [word for name in workloads for word in ("--workload", name)]
        words += [word for size in capacities for word in ("--capacity", size)]
        run = subprocess.run([ALLOCMARK, "run", *words, "--allocator", "caching@2.11", "--conf", "unset", "--device", "sim:h200",
                              "--passes", "1", "--no-html", "--out", self.folder], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.answer = " ".join(run.stdout[run.stdout.rindex("answer:"):].split())
        with open(os.path.join(self.folder, "results.jsonl"), encoding="utf-8") as file:
            self.cells = [json.loads(line) for line in file][1:]
        return " ".join(run.stderr.split())

    def test_a_recording_that_failed_is_not_answered_as_if_it_had_not(self):
        told = self.run_on(f"file:{SNAPSHOTS}/train_oom.pickle.gz")
        self.assertIn("serves every request", self.answer)
        self.assertIn("While it was recorded, 1 request failed.", self.answer)
        self.assertIn("of the recording: 1 request failed while recording", told)
        self.assertEqual(self.cells[0]["counters"]["recording.out_of_memory"], 1)
        with open(os.path.join(self.folder, "report.md"), encoding="utf-8") as file:
            report = " ".join(file.read().split())
        self.assertIn("While it was recorded, 1 request failed", report)
        self.assertIn("of the recording: 1 request failed", report.replace("\\", ""))

    def test_it_is_said_of_several_capacities_and_of_parts_too(self):
        self.run_on(f"file:{SNAPSHOTS}/train_oom.pickle.gz then file:{SNAPSHOTS}/train_amp.pickle.gz", capacities=("unlimited", "64GiB"))
        self.assertIn("in all 2 experiments", self.answer)
        self.assertIn("While it was recorded, 1 request failed.", self.answer)

    def test_nothing_is_said_of_recordings_without_failures(self):
        self.run_on(f"file:{SNAPSHOTS}/expandable_train.pickle.gz")
        self.assertNotIn("While it was recorded", self.answer)
        self.assertEqual(self.cells[0]["warnings"], [])
        self.assertNotIn("recording.out_of_memory", self.cells[0]["counters"])

    def test_blocks_that_waited_for_another_stream_are_reserved_as_pytorch_did(self):
        told = self.run_on(f"file:{SNAPSHOTS}/streams_recorded.pickle.gz")
        self.assertEqual(self.cells[0]["reserved_bytes_peak"], 554 << 20)
        self.assertIn("375 blocks were given back while another stream used them", told)


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
