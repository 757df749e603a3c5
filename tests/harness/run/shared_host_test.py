#!/usr/bin/env python3
"""Cards whose memory is the host's: the host hangs where another card's request fails, pinned memory takes the same pool, and page cache
takes nothing. Numbers are of the report https://github.com/vllm-project/vllm/issues/46307.

usage: shared_host_test.py ALLOCMARK
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ALLOCMARK = ""
GIB = 1 << 30
SPARK = "sim:gb10,memory=119GiB"


class SharedHost(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_on(self, device, *words, conf="unset", passes="1"):
        out = tempfile.mkdtemp(dir=self.folder)
        run = subprocess.run([ALLOCMARK, "run", *words, "--allocator", "caching@2.11", "--conf", conf, "--device", device,
                              "--passes", passes, "--no-html", "--out", out], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.told = " ".join((run.stdout + run.stderr).split())
        with open(os.path.join(out, "results.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file][-1]

    def trace(self, *rows):
        path = os.path.join(self.folder, "trace.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write("op,id,size,stream\n" + "".join(row + "\n" for row in rows))
        return ("--workload", f"file:{path}")

    def lost(self, cell):
        self.assertEqual(cell["oom_count_host_lost"], cell["oom_count"])
        return cell["oom_count"] > 0

    def test_vllms_start_hangs_the_host_in_its_profile_run(self):
        cell = self.run_on(SPARK, "--scenario", "vllm_on_gb10")
        self.assertTrue(self.lost(cell))
        self.assertIn("hangs before a request fails", self.told)
        first = cell["oom_first"]
        self.assertEqual(first["cause"], "host_lost")
        # 48 GiB of weights, 48 of the host, 7.1 of its other programs and the context were in use beside activations: 112 of 119.
        in_use = first["live_bytes"] + 48 * GIB + 7.1 * GIB + 527 * (1 << 20)
        self.assertLess(abs(in_use / GIB / 112 - 1), 0.01)
        self.assertGreater(first["live_bytes"], 48 * GIB)  # in the profile run
        # The same start fits on a card of its own.
        self.assertEqual(self.run_on("sim:rtx-pro-6000", "--scenario", "vllm_on_gb10")["oom_count"], 0)
        self.assertIn("48.0 GiB of pinned memory of the host", self.told)

    def test_no_failure_gives_cached_memory_back(self):
        # 60 GiB are cached where 70 are asked for. cudaMalloc fails, the cache goes, and the request is served: not where the host hangs.
        rows = self.trace(f"alloc,1,{60 * GIB},0", "free,1,0,0", f"alloc,2,{70 * GIB},0", "free,2,0,0")
        self.assertEqual(self.run_on("sim:h200,memory=119GiB", *rows)["oom_count"], 0)
        self.assertTrue(self.lost(self.run_on(SPARK, *rows)))
        self.assertEqual(self.run_on(SPARK, *rows, conf="expandable_segments:True")["oom_count"], 0)

    def test_pinned_memory_is_the_cards_and_page_cache_is_nobodys(self):
        rows = self.trace(f"host_alloc,1,{60 * GIB},0", f"alloc,1,{50 * GIB},0", "free,1,0,0", "host_free,1,0,0")
        self.assertEqual(self.run_on("sim:h200,memory=119GiB", *rows)["oom_count"], 0)
        self.assertIn("all numbers are of device memory", self.told)
        self.assertTrue(self.lost(self.run_on(SPARK, *rows)))
        self.assertIn("which is this device's", self.told)
        fits = self.trace(f"host_alloc,1,{50 * GIB},0", f"alloc,1,{50 * GIB},0", "free,1,0,0", "host_free,1,0,0")
        plain = self.run_on(SPARK, *fits)
        cached = self.run_on(SPARK + ",cache=90GiB", *fits)
        self.assertEqual((plain["oom_count"], cached["oom_count"]), (0, 0))
        self.assertEqual(plain["capacity_bytes"], cached["capacity_bytes"])
        # Memory of the host alone hangs it, too; every pass finds the host well again.
        alone = self.trace(f"host_alloc,1,{110 * GIB},0", "host_free,1,0,0")
        self.assertTrue(self.lost(self.run_on(SPARK, *alone, "--on-oom", "stop")))
        self.assertTrue(self.lost(self.run_on(SPARK, *self.trace(f"alloc,1,{110 * GIB},0", "free,1,0,0"), passes="3")))

    def test_a_capacity_on_a_shared_card_is_found_without_hanging_it(self):
        rows = self.trace(f"alloc,1,{8 * GIB},0", "free,1,0,0", f"alloc,2,{7 * GIB},0", "free,2,0,0")
        self.assertEqual(self.run_on(SPARK, *rows, "--capacity", "9GiB")["oom_count"], 0)
        self.assertTrue(self.lost(self.run_on(SPARK, *rows, "--capacity", "7GiB")))


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
