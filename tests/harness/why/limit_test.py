#!/usr/bin/env python3
"""`allocmark why` says so where the device had the memory and a limit refused the request: the memory fraction of the settings, one that the
program set, or one outside PyTorch. The snapshots are made up; the right values are sums.

usage: limit_test.py ALLOCMARK
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

ALLOCMARK = ""
MIB = 1 << 20
FIRST = 0x7F0000000000


def snapshot(held_mib, asked_mib, device_free_mib, conf=""):
    """Blocks of `held_mib` in segments of their own, and a request that failed."""
    entries, segments = [], []
    for at, size_mib in enumerate(held_mib):
        address, size = FIRST + at * 4096 * MIB, size_mib * MIB
        for action in ("segment_alloc", "alloc"):
            entries.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": [], "time_us": len(entries)})
        segments.append({"device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": "large",
                         "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                         "blocks": [{"address": address, "size": size, "requested_size": size, "state": "active_allocated",
                                     "frames": []}]})
    entries.append({"action": "oom", "device_free": device_free_mib * MIB, "size": asked_mib * MIB, "stream": 0, "frames": [],
                    "time_us": len(entries)})
    return {"device_traces": [entries], "segments": segments, "external_annotations": [],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": conf}}


class Limit(unittest.TestCase):
    def why(self, made, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "made.pickle")
            with open(path, "wb") as file:
                pickle.dump(made, file, protocol=4)
            text = subprocess.run([ALLOCMARK, "why", path, *words], capture_output=True, text=True, check=True).stdout
            answer = json.loads(subprocess.run([ALLOCMARK, "why", path, "--format", "json", *words], capture_output=True,
                                               text=True, check=True).stdout)["answer"]
        self.assertIn(answer, text.splitlines()[0])
        return answer, text.splitlines()[-1]

    def test_a_limit_that_no_setting_shows_is_named_with_what_was_free(self):
        for held, asked in (([1024, 1024, 1024], 2), ([512], 40), ([2048, 64], 300)):
            with self.subTest(held=held, asked=asked):
                answer, last = self.why(snapshot(held, asked, 200 * 1024))
                self.assertIn("while 200 GiB were free on the device: a limit refused it, of the process (a memory "
                              "fraction that the program set) or outside PyTorch", answer)
                self.assertEqual(last, "To set: nothing of the allocator's; the limit must rise.")

    def test_the_fraction_of_the_settings_is_named_and_unset_serves(self):
        answer, last = self.why(snapshot([1024] * 5, 1024, 6 * 1024, "per_process_memory_fraction:0.5"))
        self.assertIn("while 6.00 GiB were free on the device: per_process_memory_fraction:0.5, the limit of the process, refused "
                      "it", answer)
        self.assertIn("unset serves every request", answer)
        self.assertEqual(last, "To set it: unset PYTORCH_CUDA_ALLOC_CONF")

    def test_a_full_device_has_no_such_limit(self):
        for free_mib in (0, 1, 500):
            answer, last = self.why(snapshot([1024, 1024], 1024, free_mib))
            self.assertNotIn("limit", answer)
            self.assertIn("To set: nothing; no setting serves every request.", last)


if __name__ == "__main__":
    ALLOCMARK = sys.argv.pop(1)
    unittest.main()
