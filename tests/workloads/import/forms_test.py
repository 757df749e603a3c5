#!/usr/bin/env python3
"""The forms that snapshots had from PyTorch 2.0 on, and what other programs make of them: each opens, and its trace is that of the
form of 2.11. The history is made up, with the documented structure.

usage: forms_test.py ALLOCMARK
"""
import copy
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

ALLOCMARK = ""
MIB = 1 << 20
BASE = 0x7F0000000000


def frames(line):
    return [{"filename": "/home/ann/train.py", "name": "main", "line": line}]


def made_up():
    """Three segments of 20 MiB with a block of 8 MiB and one of 12; the second segment's first block is given back."""
    entries, segments = [], []

    def entry(action, address, size, line=10):
        entries.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1_790_000_000_000_000 + len(entries),
                        "frames": frames(line)})

    for index in range(3):
        address = BASE + 64 * MIB * index
        entry("segment_alloc", address, 20 * MIB)
        entry("alloc", address, 8 * MIB - 100, 11)
        entry("alloc", address + 8 * MIB, 12 * MIB - 7, 12)
        segments.append({"device": 0, "address": address, "total_size": 20 * MIB, "allocated_size": 20 * MIB, "active_size": 20 * MIB,
                         "requested_size": 20 * MIB - 107, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                         "is_expandable": False, "frames": frames(10),
                         "blocks": [{"address": address, "size": 8 * MIB, "requested_size": 8 * MIB - 100, "state": "active_allocated",
                                     "frames": frames(11)},
                                    {"address": address + 8 * MIB, "size": 12 * MIB, "requested_size": 12 * MIB - 7,
                                     "state": "active_allocated", "frames": frames(12)}]})
    freed = BASE + 64 * MIB
    entry("free_requested", freed, 8 * MIB - 100)
    entry("free_completed", freed, 8 * MIB - 100)
    segments[1]["blocks"][0]["state"] = "inactive"
    segments[1]["blocks"][0]["frames"] = []
    return {"segments": segments, "device_traces": [entries], "external_annotations": [],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                                   "expandable_segments": False, "roundup_power2_divisions": {}}}


def without(*actions):
    def change(snapshot):
        snapshot["device_traces"] = [[one for one in trace if one["action"] not in actions] for trace in snapshot["device_traces"]]
    return change


def each_segment(action):
    return lambda snapshot: [action(segment) for segment in snapshot["segments"]]


def each_block(action):
    return lambda snapshot: [action(block) for segment in snapshot["segments"] for block in segment["blocks"]]


def each_entry(action):
    return lambda snapshot: [action(entry) for trace in snapshot["device_traces"] for entry in trace]


def of_2_0(snapshot):
    """No times, pools, settings or addresses of blocks; a block's request stands in its history."""
    snapshot.pop("allocator_settings")
    snapshot.pop("external_annotations")
    for segment in snapshot["segments"]:
        for key in ("requested_size", "segment_pool_id", "is_expandable", "frames"):
            segment.pop(key)
        for block in segment["blocks"]:
            address, asked, stack = block.pop("address"), block.pop("requested_size"), block.pop("frames")
            block["history"] = [{"addr": address, "real_size": asked, "frames": stack or frames(11)},
                                {"addr": address, "real_size": 1, "frames": frames(99)}]
    for entry in snapshot["device_traces"][0]:
        entry.pop("time_us")


def shift(snapshot):
    """Addresses as a program that makes snapshots up has them."""
    for segment in snapshot["segments"]:
        segment["address"] += 33
        for block in segment["blocks"]:
            block["address"] += 33
    for entry in snapshot["device_traces"][0]:
        entry["addr"] += 33


def keep_live(snapshot):
    for segment in snapshot["segments"]:
        segment["blocks"] = [one for one in segment["blocks"] if one["state"] != "inactive"]


def pool_ids(make):
    def change(snapshot):
        each_segment(lambda segment: segment.update(segment_pool_id=make()))(snapshot)
        each_entry(lambda entry: entry.update(pool_id=make()))(snapshot)
    return change


SHARED = [0, 0]
FORMS = {
    "2.11": lambda snapshot: None,
    "2.0": of_2_0,
    "pool ids as lists": pool_ids(lambda: [0, 0]),
    "one list for all pool ids": pool_ids(lambda: SHARED),
    "no pool id": pool_ids(lambda: None),
    "no free_requested": without("free_requested"),
    "no free_completed": without("free_completed"),
    "no segment entries": without("segment_alloc"),
    "odd addresses": shift,
    "free blocks left out": keep_live,
    "no requested_size": each_block(lambda block: block.pop("requested_size")),
    "no frames": lambda snapshot: [each(lambda one: one.pop("frames"))(snapshot) for each in (each_segment, each_block, each_entry)],
    "unknown things are None": lambda snapshot: [one.update(requested_size=None) for segment in snapshot["segments"]
                                                 for one in (segment, *segment["blocks"])] + [
        one.update(frames=None, time_us=None, pool_id=None) for one in snapshot["device_traces"][0]],
    "times are no whole numbers' type": each_entry(lambda entry: entry.update(time_us=float(entry["time_us"]), size=float(entry["size"]))),
    "frames are None": each_entry(lambda entry: entry.update(frames=None)),
    "no times": each_entry(lambda entry: entry.pop("time_us")),
    "newer keys": each_entry(lambda entry: entry.update(user_metadata={"a": [1, 2.5]}, compile_context="0/0", category="x", annotation=None)),
}


class Forms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, snapshot, protocol=4):
        path = os.path.join(self.folder, "made_up.pickle")
        with open(path, "wb") as file:
            pickle.dump(snapshot, file, protocol=protocol)
        return path

    def call(self, *words):
        run = subprocess.run([ALLOCMARK, *words], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def trace(self, snapshot, protocol=4):
        path = os.path.join(self.folder, "out.csv")
        self.call("trace", "convert", self.write(snapshot, protocol), path, "--force")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_every_form_is_the_same_trace(self):
        wanted = self.trace(made_up())
        self.assertEqual(wanted.count("\nalloc,"), 6)
        self.assertEqual(wanted.count("\nfree,"), 1)
        for name, change in FORMS.items():
            for protocol in (2, 4, 5):
                with self.subTest(name, protocol=protocol):
                    snapshot = copy.deepcopy(made_up())
                    change(snapshot)
                    self.assertEqual(self.trace(snapshot, protocol), wanted)

    def test_why_reads_every_form(self):
        for name, change in FORMS.items():
            with self.subTest(name):
                snapshot = made_up()
                change(snapshot)
                answer = json.loads(self.call("why", self.write(snapshot), "--format", "json"))
                self.assertEqual(answer["placement_count"], 6)
                self.assertEqual(answer["live_bytes_peak"], 3 * (20 * MIB - 107))
                if name not in ("no segment entries", "odd addresses"):
                    self.assertTrue(answer["self_check_complete"], answer["first_difference"])

    def test_segments_alone_are_a_snapshot_without_history(self):
        run = subprocess.run([ALLOCMARK, "why", self.write(made_up()["segments"])], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("without history", run.stderr)

    def test_a_ring_that_cut_the_two_entries_of_a_free_apart_loses_no_entries_of_others(self):
        snapshot = made_up()
        snapshot["device_traces"] = [snapshot["device_traces"][0][-1:]]
        self.assertEqual(snapshot["device_traces"][0][0]["action"], "free_completed")
        answer = json.loads(self.call("why", self.write(snapshot), "--format", "json"))
        # The owner had given the block back before.
        self.assertEqual(answer["live_bytes_peak"], 3 * (20 * MIB - 107) - (8 * MIB - 100))
        self.assertNotIn("skip_actions", " ".join(answer["notes"]))

    def test_of_several_devices_the_one_on_which_a_request_failed_is_looked_at(self):
        snapshot = made_up()
        moved = copy.deepcopy(snapshot)
        for segment in moved["segments"]:
            segment["device"] = 1
        entries = moved["device_traces"][0][:6]
        del moved["segments"][2:]
        entries.append({**entries[1], "action": "oom", "addr": 0, "device_free": 5 * MIB, "size": 40 * MIB})
        moved["segments"][1]["blocks"][0].update(state="active_allocated")
        snapshot["segments"] += moved["segments"]
        snapshot["device_traces"].append(entries)
        self.assertLess(len(entries), len(snapshot["device_traces"][0]))
        answer = json.loads(self.call("why", self.write(snapshot), "--format", "json"))
        self.assertEqual((answer["oom_count"], answer["placement_count"]), (1, 4))
        self.assertIn("this is device 1, on which a request failed", " ".join(answer["notes"]))
        entries.pop()
        answer = json.loads(self.call("why", self.write(snapshot), "--format", "json"))
        self.assertEqual((answer["oom_count"], answer["placement_count"]), (0, 6))
        self.assertIn("this is device 0, which has the longest", " ".join(answer["notes"]))

    def test_blocks_that_overlap_are_named(self):
        snapshot = made_up()
        snapshot["segments"][0]["blocks"][1]["address"] -= 512
        run = subprocess.run([ALLOCMARK, "why", self.write(snapshot)], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("overlap", run.stderr)


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
