#!/usr/bin/env python3
"""Goal: the releases of RMM answer three public reports as RMM does, before and after its pull requests 2470 and 2490. Method: the reports'
requests.

usage: releases_test.py ALLOCMARK
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20
RELEASES = ("rmm@25.12", "rmm@26.04", "rmm@26.06", "rmm@26.10")


class Releases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def cells(self, rows, conf, *options, exit_code=0):
        trace = os.path.join(self.folder.name, "t.csv")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("op,id,size,stream\n" + "\n".join(rows) + "\n")
        out = tempfile.mkdtemp(dir=self.folder.name)
        done = subprocess.run([PROGRAM, "run", "-w", "file:" + trace, "--allocator", *RELEASES, "--conf", conf, "--device", "sim:h200",
                               "--passes", "1", "--no-html", "--out", out, *options], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        with open(os.path.join(out, "results.jsonl"), encoding="utf-8") as file:
            found = {cell["allocator"]: cell for cell in map(json.loads, file) if cell["kind"] == "cell"}
        return [found[name] for name in RELEASES]

    def failures(self, rows, conf):
        return [cell["oom_count"] for cell in self.cells(rows, conf)]

    def test_1957_a_request_of_the_whole_maximum(self):
        self.assertEqual(self.failures([f"alloc,1,{1024 * MIB},0", "free,1,0,0"], "initial_mb:256,max_mb:1024"), [1, 1, 1, 0])

    def test_1664_blocks_that_fill_the_maximum(self):
        rows = [f"alloc,{i},{8 * MIB},0" for i in range(1, 9)] + [f"free,{i},0,0" for i in range(1, 9)]
        self.assertEqual(self.failures(rows, "initial_bytes:1000192,max_mb:64"), [3, 3, 3, 2])

    def test_cuda_async_keeps_what_its_threshold_says(self):
        """No job can hold more than the card has, so that the two thresholds differ in nothing that is seen here; one that is given counts."""
        rows = [f"alloc,1,{1024 * MIB},0", "free,1,0,0", "sync,0,0,0", f"alloc,2,{MIB},0", "free,2,0,0"]
        kept = [cell["counters"]["reserved_mem_current"] for cell in self.cells(rows, "resource:cuda_async")]
        self.assertEqual(kept, [1024 * MIB] * 4)
        kept = [cell["counters"]["reserved_mem_current"] for cell in self.cells(rows, "resource:cuda_async,release_threshold_mb:0")]
        self.assertLess(max(kept), 1024 * MIB)

    def test_2489_a_third_stream_does_not_wait_for_lists_that_joined(self):
        """Nothing fits stream 2, but stream 1's list has joined its own by then; stream 3 takes of that."""
        rows = [f"alloc,1,{4 * MIB},1", "kernel,0,1000000,1", "free,1,0,0", f"alloc,2,{9 * MIB},2", "free,2,0,0", f"alloc,3,{4 * MIB},3", "free,3,0,0"]
        cells = self.cells(rows, "initial_mb:8,max_mb:8", "--verify", "edges", exit_code=3)
        self.assertEqual([cell["status"] for cell in cells], ["failed", "failed", "failed", "ok"])
        self.assertIn("memory that a stream still uses is not handed to another stream", cells[0]["reason"])

    def test_each_resource_serves_and_a_limit_refuses(self):
        rows = [f"alloc,{i},{2 * MIB},{i % 3}" for i in range(1, 9)] + [f"free,{i},0,0" for i in range(1, 9)]
        for conf in ("resource:cuda", "resource:cuda_async,initial_mb:4", "resource:arena,initial_mb:64", "resource:fixed_size,block_kb:2048,block_count:4",
                     "resource:binning,initial_mb:1024,max_mb:2048", "resource:fixed_size,upstream:pool,initial_mb:64,block_kb:2048,block_count:4"):
            self.assertEqual(self.failures(rows, conf), [0] * 4, conf)
            self.assertEqual(self.failures(rows, conf + ",limit_mb:10"), [3] * 4, conf)

    def test_an_arena_of_the_requests_size_serves_one(self):
        rows = [f"alloc,1,{4 * MIB},0", f"alloc,2,{MIB},0", "free,1,0,0", "free,2,0,0"]
        self.assertEqual(self.failures(rows, "resource:arena,initial_mb:4"), [1] * 4)

    def test_keys_of_the_other_resource_are_refused(self):
        done = subprocess.run([PROGRAM, "run", "-w", "gpt2_train_amp", "--allocator", "rmm@26.10", "--conf", "release_threshold_mb:1"],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 2)
        self.assertIn("a key of the chosen resource", done.stderr)


if __name__ == "__main__":
    unittest.main()
