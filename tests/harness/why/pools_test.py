#!/usr/bin/env python3
"""`allocmark why` keeps private pools apart and names them. The made-up snapshots have the documented structure, with pools named
in the entries (PyTorch 2.12) and without (2.11); scripts/record/snapshot_pools.py is the second opinion on what the pools hold.

usage: pools_test.py ALLOCMARK
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "record"))
import snapshot_pools  # noqa: E402

ALLOCMARK = ""
MIB = 1 << 20
COMMON, GRAPH = (0, 0), (0, 1)
FIRST = 0x7F0000000000
SIDE = 0x55D0C0FFEE00


class MadeUp:
    """A history of requests that each take a segment of their own."""

    def __init__(self, names_pools):
        self.names_pools, self.entries, self.segments, self.next = names_pools, [], {}, FIRST

    def entry(self, action, address, size_bytes, pool):
        key = "device_free" if action == "oom" else "addr"
        entry = {"action": action, key: address, "size": size_bytes, "stream": SIDE if pool != COMMON else 0,
                 "time_us": 1_790_000_000_000_000 + len(self.entries), "compile_context": "N/A", "user_metadata": ""}
        self.entries.append({**entry, "pool_id": pool} if self.names_pools else entry)

    def alloc(self, size_mib, pool=COMMON):
        address, size_bytes = self.next, size_mib * MIB
        self.next += 4096 * MIB
        self.entry("segment_alloc", address, size_bytes, pool)
        self.entry("alloc", address, size_bytes, pool)
        self.segments[address] = [size_bytes, pool, "active_allocated"]
        return address

    def free(self, address):
        size_bytes, pool, _ = self.segments[address]
        self.segments[address][2] = "inactive"
        self.entry("free_requested", address, size_bytes, pool)
        self.entry("free_completed", address, size_bytes, pool)

    def fail(self, size_mib, device_free_mib, pool=COMMON):
        self.entry("oom", device_free_mib * MIB, size_mib * MIB, pool)

    def snapshot(self):
        segments = [{"device": 0, "address": address, "total_size": size, "stream": SIDE if pool != COMMON else 0,
                     "segment_type": "large", "segment_pool_id": pool, "is_expandable": False, "frames": [],
                     "blocks": [{"address": address, "size": size, "requested_size": size, "state": state, "frames": []}]}
                    for address, (size, pool, state) in self.segments.items()]
        return {"device_traces": [self.entries], "segments": segments, "external_annotations": []}


def why(snapshot):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "made_up.pickle")
        with open(path, "wb") as file:
            pickle.dump(snapshot, file, protocol=4)
        return [subprocess.run([ALLOCMARK, "why", path, *words], capture_output=True, text=True, check=True).stdout
                for words in ((), ("--format", "json"))]


class Fractions(unittest.TestCase):
    """A memory fraction in the settings: counted once for what was recorded, and not for settings without it."""

    def made(self, fraction, held_mib, asked_mib, free_mib):
        job = MadeUp(names_pools=False)
        for _ in range(held_mib // 1024):
            job.alloc(1024)
        job.fail(asked_mib, free_mib)
        settings = {"PYTORCH_CUDA_ALLOC_CONF": f"per_process_memory_fraction:{fraction}", "max_split_size": -1,
                    "garbage_collection_threshold": 0.0, "expandable_segments": False,
                    "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
                    "pinned_use_cuda_host_register": False, "roundup_power2_divisions": {}}
        text, found = why({**job.snapshot(), "allocator_settings": settings})
        failed = {one["conf"]: one["failed_count"] for one in json.loads(found)["settings"]}
        return text, failed, f"per_process_memory_fraction:{fraction}"

    def test_the_recorded_setting_fails_as_recorded_and_unset_serves(self):
        text, failed, recorded = self.made(0.5, 11 * 1024, 1024, 12390)
        self.assertEqual((failed[recorded], failed[""]), (1, 0))
        self.assertIn(f"{recorded} stopped it below 12.0 GiB", " ".join(text.split()))

    def test_a_fraction_far_from_what_the_card_had_left_is_counted_once_too(self):
        # Another program had most of the card: 0.9 of 40 GiB were allowed, and 4 GiB were free.
        _, failed, recorded = self.made(0.9, 35 * 1024, 2048, 4096)
        self.assertEqual((failed[recorded], failed[""]), (1, 0))

    def test_where_the_card_was_full_no_fraction_is_blamed(self):
        text, failed, recorded = self.made(0.9, 11 * 1024, 1024, 512)
        self.assertEqual((failed[recorded], failed[""]), (1, 1))
        self.assertNotIn("stopped it below", text)


class Pools(unittest.TestCase):
    def test_free_memory_of_a_graph_serves_nothing_else(self):
        for names_pools in (True, False):
            with self.subTest(names_pools=names_pools):
                job = MadeUp(names_pools)
                job.alloc(1024)
                job.alloc(36, GRAPH)
                for address in [job.alloc(400, GRAPH) for _ in range(3)]:
                    job.free(address)
                job.fail(1024, 300)
                snapshot = job.snapshot()
                text, facts = why(snapshot)
                facts = json.loads(facts)
                self.assertIn("1.17 GiB were free in private pool (0, 1), whose memory serves no other request; none of 10", text)
                self.assertIn("1.21 GiB  in private pool (0, 1): 36.0 MiB live, 1.17 GiB free", text)
                self.assertTrue(facts["self_check_complete"], facts["first_difference"])
                reserved, live, free = snapshot_pools.pools_at_end(snapshot)[GRAPH]
                self.assertEqual(facts["oom"]["private_pools"], [{"name": "private pool (0, 1)", "reserved_bytes": reserved,
                                                                  "live_bytes": live, "free_bytes": free}])
                self.assertEqual(facts["oom"]["other_pool_bytes"], free)
                # The driver's pools would serve it if the graph had none of its own; nobody tried.
                self.assertIsNone(facts["advised_conf"])
                self.assertIn("Other allocators, on the simulated H200, without private pools:", text)
                self.assertTrue(all(one["failed_count"] for one in facts["settings"]), facts["settings"])

    def test_a_request_of_a_graph_does_not_get_common_memory(self):
        job = MadeUp(True)
        job.free(job.alloc(1200))
        job.alloc(100, GRAPH)
        job.fail(600, 200, GRAPH)
        text, facts = why(job.snapshot())
        facts = json.loads(facts)
        self.assertIn("1.17 GiB were free in the common pool, and the request was for private pool (0, 1)", text)
        self.assertEqual((facts["oom"]["common_pool_bytes"], facts["oom"]["other_pool_bytes"]), (1200 * MIB, 0))

    def test_the_same_settings_reserve_what_was_recorded(self):
        for name in ("graphs", "memory_pools"):
            facts = json.loads(subprocess.run([ALLOCMARK, "why", f"{ROOT}/tests/golden/snapshots/{name}.pickle.gz", "--format", "json"],
                                              capture_output=True, text=True, check=True).stdout)
            unset = next(one for one in facts["settings"] if one["conf"] == "")
            with self.subTest(name):
                self.assertLess(abs(unset["reserved_bytes_peak"] / facts["reserved_bytes_peak"] - 1), 0.01)

    def test_pools_that_were_gone_by_the_end_are_said_to_be_guessed(self):
        job = MadeUp(False)
        gone = job.alloc(100)
        job.free(gone)
        job.alloc(100)  # in a segment of its own, although the first one had room
        job.entry("segment_free", gone, 100 * MIB, COMMON)
        del job.segments[gone]
        job.alloc(40)
        text, facts = why(job.snapshot())
        self.assertTrue(json.loads(facts)["self_check_complete"], text)
        self.assertIn("every segment of the end is of the common pool (0, 0); placements say that 1 segment before it was of private pools",
                      text)
        self.assertNotIn("names no pools", text)

    def test_without_a_failure_the_memory_of_pools_is_noted(self):
        path = f"{ROOT}/tests/golden/snapshots/graphs.pickle.gz"
        text, facts = [subprocess.run([ALLOCMARK, "why", path, *words], capture_output=True, text=True, check=True).stdout
                       for words in ((), ("--format", "json"))]
        reserved, live, free = snapshot_pools.pools_at_end(snapshot_pools.read(path))[GRAPH]
        end = json.loads(facts)["private_pools"]["end"]
        self.assertEqual([tuple(one.values())[1:] for one in end["pools"]], [(reserved, live, free)])
        self.assertEqual(end["stranded_bytes"], free)
        self.assertRegex(text, r"private pool \(0, 1\) +56.0 MiB +\d+\.\d MiB +\d")

    def test_a_job_without_pools_has_no_word_of_them(self):
        job = MadeUp(True)
        job.free(job.alloc(100))
        text, facts = why(job.snapshot())
        self.assertNotIn("rivate pool", text)
        self.assertNotIn("private_pools", json.loads(facts))

    def test_what_was_stranded_and_what_went_back_are_told_for_each_sleep(self):
        job = MadeUp(True)
        job.alloc(100)
        kept, gone = job.alloc(36, GRAPH), job.alloc(400, GRAPH)
        job.free(gone)
        job.alloc(20)
        job.free(kept)
        for address, size in ((kept, 36), (gone, 400)):
            job.entry("segment_free", address, size * MIB, GRAPH)
            del job.segments[address]
        job.alloc(10)
        text, facts = why(job.snapshot())
        pools = json.loads(facts)["private_pools"]
        self.assertTrue(json.loads(facts)["self_check_complete"], text)
        self.assertEqual(pools["most_stranded"]["pools"], [{"name": "private pool (0, 1)", "reserved_bytes": 436 * MIB, "live_bytes": 0,
                                                            "stranded_bytes": 436 * MIB}])
        self.assertEqual(pools["end"]["pools"], [])
        self.assertEqual([(one["given_back_bytes"] // MIB, one["after"]["reserved_bytes"] // MIB, one["after"]["live_bytes"] // MIB)
                          for one in pools["returns"]], [(436, 120, 120)])
        self.assertIn("436 MiB of    556 MiB before entry", text)
        self.assertIn("120 MiB stay: 120 MiB live, 0 B stranded, 0 B free in the common pool", text)

    def test_the_page_has_the_pools_and_their_memory_over_time(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "why.html")
            subprocess.run([ALLOCMARK, "why", f"{ROOT}/tests/golden/snapshots/sleep_pools.pickle.gz", "--out", page], capture_output=True,
                           text=True, check=True)
            with open(page, encoding="utf-8") as file:
                text = file.read()
        self.assertIn('id="pools"', text)
        self.assertIn("What went back to the device at once", text)
        self.assertEqual(text.count("<polyline"), 3)


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
