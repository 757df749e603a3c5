#!/usr/bin/env python3
"""minimalloc's CSV as a workload: what `allocmark export` writes comes back as the job that it was, minimalloc's own columns are
understood, and what is wrong in a file is named with its line.

usage: minimalloc_test.py ALLOCMARK
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ALLOCMARK = ""


class Minimalloc(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "job.csv")
        self.out = os.path.join(folder.name, "out.csv")

    def call(self, *words):
        run = subprocess.run([ALLOCMARK, *words], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)

    def rows(self, text):
        self.write(text)
        self.call("trace", "convert", self.path, self.out, "--force")
        with open(self.out, encoding="utf-8") as file:
            return [",".join(line.split(",")[:4]) for line in file.read().split("\n") if line and not line.startswith(("#", "op,"))]

    def summary(self, workload):
        found = dict(re.findall(r"^ *([a-z][a-z ]*?)  +(.*)$", self.call("trace", "summary", workload).stdout, re.M))
        return [found[key] for key in ("alloc", "requested in all", "requested at peak", "largest request", "live blocks at peak")]

    def test_what_export_writes_is_the_same_job(self):
        for workload in ("gpt2_train_amp", "fuzz_r1", "tests/golden/snapshots/train_amp.pickle.gz"):
            with self.subTest(workload):
                named = workload if "/" not in workload else "file:" + workload
                self.call("export", named, self.path, "--force")
                wanted, found = self.summary(workload), self.summary(self.path)
                wanted[2] = wanted[2].split(" at event")[0]
                found[2] = found[2].split(" at event")[0]
                self.assertEqual(found, wanted)

    def test_blocks_that_meet_do_not_overlap(self):
        wanted = ["alloc,1,4,0", "alloc,2,5,0", "free,1,0,0", "alloc,3,7,0", "free,2,0,0", "free,3,0,0"]
        self.assertEqual(self.rows("id,lower,upper,size\na,0,3,4\nc,3,9,7\nb,0,4,5\n"), wanted)
        # An 'end' is the last time at which the block is there; any order of columns, CRLF, more columns.
        self.assertEqual(self.rows("size,end,start,buffer,offset\r\n4,2,0,a,8\r\n7,8,3,c,0\r\n5,3,0,b,0\r\n"), wanted)
        self.assertIn("read over, because a trace has no such thing: offset", self.call("trace", "summary", self.path).stderr)

    def test_it_runs(self):
        self.write("id,lower,upper,size\nb1,0,3,4194304\nb2,3,9,4194304\n")
        answer = self.call("run", "--workload", "file:" + self.path, "--allocator", "caching", "--conf", "unset", "--device", "sim:h200",
                           "--passes", "1", "--out", self.out + ".run").stdout
        self.assertIn("serves every request", answer)

    def test_what_is_wrong_is_named_with_its_line(self):
        head = "id,lower,upper,size\n"
        for text, line, words in ((head + "a,0,3\n", 2, "has 3 fields"), (head + "a,0,3,4\nb,x,3,4\n", 3, "'lower'"),
                                  (head + "a,0,3,-4\n", 2, "'size'"), (head + "a,3,3,4\n", 2, "ends before it begins"),
                                  (head + "a,0,3,2000000000000000000\n", 2, "too large"), (head + "a,0,1.5,4\n", 2, "'upper'"),
                                  (head, 0, "has no blocks")):
            with self.subTest(text):
                self.write(text)
                run = subprocess.run([ALLOCMARK, "trace", "summary", self.path], capture_output=True, text=True)
                self.assertEqual(run.returncode, 2)
                self.assertIn(words, run.stderr)
                self.assertIn(f"{self.path}:{line}" if line else self.path, run.stderr)


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
