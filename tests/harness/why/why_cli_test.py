#!/usr/bin/env python3
"""`allocmark why` and `allocmark advise` on the same snapshot: they ask the same simulated device, rank by the same cost, and where
their answers differ, `why` says so.

usage: why_cli_test.py ALLOCMARK
"""
import json
import os
import subprocess
import sys
import unittest

ALLOCMARK = ""
SNAPSHOT = "tests/golden/snapshots/train_oom.pickle.gz"


def call(*words):
    run = subprocess.run([ALLOCMARK, *words], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


class Why(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.why = json.loads(call("why", SNAPSHOT, "--format", "json"))
        cls.text = call("why", SNAPSHOT)

    def test_failures_on_the_simulated_device_are_those_of_advise(self):
        confs = [one["conf"] for one in self.why["settings"]]
        words = [word for conf in confs for word in ("--conf", conf or "unset")]
        advice = json.loads(call("advise", SNAPSHOT, "--search-only", "--format", "json", "--capacity",
                                 f"{self.why['capacity_bytes']}B", *words))
        found = {one["conf"]: one["oom_count"] for one in advice["settings"]}
        self.assertEqual({one["conf"]: one["simulated_failed_count"] for one in self.why["settings"]},
                         {conf: found[conf] for conf in confs})

    def test_failed_is_the_worst_of_all_that_was_tried(self):
        for one in self.why["settings"]:
            self.assertGreaterEqual(one["failed_count"], one["simulated_failed_count"])
        unset = next(one for one in self.why["settings"] if one["conf"] == "")
        self.assertEqual((unset["failed_count"], unset["simulated_failed_count"]), (1, 0))
        self.assertIn("will say that unset serves every request", " ".join(self.text.split()))

    def test_the_order_is_failures_then_room_then_cost(self):
        limit = 0.95 * self.why["capacity_bytes"]
        keys = [(one["failed_count"], one["reserved_bytes_peak"] > limit) for one in self.why["settings"]]
        self.assertEqual(keys, sorted(keys))
        # Costs within 5 % or 1 us count as equal, as in 'advise'.
        for before, after in zip(self.why["settings"], self.why["settings"][1:]):
            if keys[self.why["settings"].index(before)] == keys[self.why["settings"].index(after)]:
                cost, next_cost = before["driver_ns_per_step"], after["driver_ns_per_step"]
                self.assertTrue(cost <= next_cost * 1.05 or cost <= next_cost + 1000, (before, after))

    def test_other_allocators_are_marked(self):
        marks = {one["name"]: one["is_setting_of_pytorch"] for one in self.why["other_allocators"]}
        self.assertEqual(marks, {"backend:cudaMallocAsync": True, "native": False, "cub": False, "thrust_pool": False,
                                 "vmm_stitch": False})
        self.assertEqual(self.text.count("no setting of PyTorch"), 4)


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
