#!/usr/bin/env python3
"""Goal: a file whose content is refused costs its own cells. Method: a log of RMM in which a pointer is freed twice, beside a workload that
runs, and alone.

usage: left_out_test.py ALLOCMARK
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
ROWS = ("Thread,Time,Action,Pointer,Size,Stream", "1,00:00:00.000001,allocate,0x100,512,0", "1,00:00:00.000002,free,0x100,512,0",
        "1,00:00:00.000003,free,0x100,512,0", "")


class LeftOut(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.log = os.path.join(self.folder, "twice.csv")
        with open(self.log, "w") as file:
            file.write("\n".join(ROWS))

    def call(self, *words):
        out = os.path.join(self.folder, "run")
        done = subprocess.run([PROGRAM, "run", "-q", *words, "--device", "sim:h200", "--conf", "unset", "--passes", "1", "--no-html", "--out", out],
                              capture_output=True, text=True, timeout=300)
        return done.returncode, " ".join(done.stderr.split()), os.path.join(out, "results.jsonl")

    def test_the_other_cells_are_kept(self):
        code, told, results = self.call("-w", "file:" + self.log, "train:gpt2-124m,batch=1,seq=64,steps=1", "-a", "native")
        self.assertEqual(code, 3)
        self.assertIn("twice.csv:4: 0x100 is freed twice without an allocate in between", told)
        self.assertIn("got a free on line 3, too", told)
        with open(results) as file:
            self.assertEqual([cell["status"] for cell in map(json.loads, file) if cell["kind"] == "cell"], ["ok"])

    def test_alone_it_is_an_error(self):
        code, told, results = self.call("-w", "file:" + self.log, "-a", "native")
        self.assertEqual((code, os.path.exists(results)), (2, False))
        self.assertIn("twice.csv:4: 0x100 is freed twice", told)

    def test_two_sides_do_all_that_was_asked(self):
        code, told, _ = self.call("-w", "file:" + self.log, "train:gpt2-124m,batch=1,seq=64,steps=1", "--ab", "native", "async")
        self.assertEqual(code, 2)
        self.assertIn("is freed twice", told)


if __name__ == "__main__":
    unittest.main()
