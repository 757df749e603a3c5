#!/usr/bin/env python3
"""packing, as a person calls it: bounds, capacity, the packing as a file, and the regret of a run's cells."""
import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
WORKLOAD = "train:gpt2-124m,batch=2,seq=256,steps=2"


def call(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


class Packing(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, text=None):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def test_file(self):
        blocks = self.path("b.csv", "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,9,21,4\ne,0,21,4\n")
        out = self.path("packing.csv")
        code, text, _ = call("bound", blocks, "--capacity", "12", "--out", out, "--format", "json")
        self.assertEqual(code, 0)
        answer = json.loads(text)
        self.assertEqual((answer["bound_bytes"], answer["packed_bytes"], answer["packing_is_lowest"]), (12, 12, True))
        with open(out, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["id"] for row in rows], ["a", "b", "c", "d", "e"])
        for one in rows:
            for other in rows:
                if one["id"] >= other["id"]:
                    continue
                together = int(one["lower"]) < int(other["upper"]) and int(other["lower"]) < int(one["upper"])
                share = int(one["offset"]) < int(other["offset"]) + 4 and int(other["offset"]) < int(one["offset"]) + 4
                self.assertFalse(together and share, (one, other))
        code, text, _ = call("bound", blocks, "--capacity", "11")
        self.assertEqual(code, 1)
        self.assertIn("the bound is above it", text)
        code, _, error = call("bound", blocks, "--out", out)
        self.assertEqual(code, 2)
        self.assertIn("--force", error)

    def test_run(self):
        run = self.path("run")
        code, _, error = call("run", "-w", WORKLOAD, "--allocator", "caching", "async", "--device", "sim:h200",
                              "--passes", "1", "--out", run)
        self.assertEqual(code, 0, error)
        code, text, error = call("bound", WORKLOAD, "--run", os.path.join(run, "results.jsonl"), "--format", "json")
        self.assertEqual(code, 0, error)
        answer = json.loads(text)
        self.assertEqual(len(answer["cells"]), 2)
        for cell in answer["cells"]:
            # What is live at most is the same, counted by the run.
            self.assertEqual(cell["requested_bytes_peak"], answer["requested_bytes_peak"])
            self.assertGreaterEqual(cell["reserved_bytes_peak"], answer["bound_bytes"])
            self.assertGreater(cell["regret_percent"], 0)
        code, text, _ = call("bound", WORKLOAD, "--run", os.path.join(run, "results.jsonl"))
        self.assertIn("regret", text)
        code, _, error = call("bound", "train:gpt2-124m", "--run", os.path.join(run, "results.jsonl"))
        self.assertEqual(code, 2)
        self.assertIn("no cell of this workload", error)


if __name__ == "__main__":
    unittest.main()
