#!/usr/bin/env python3
"""Goal: strangers' snapshots are held to what the files have themselves, and the page says what its rows say. Method: small made-up
snapshots whose peaks are known by arithmetic, a repository made here, and the committed page made again.

usage: strangers_snapshots_test.py ALLOCMARK
"""
import copy
import gzip
import hashlib
import os
import pickle
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/measure"))
import strangers_snapshots  # noqa: E402

ALLOCMARK = ""
PAGE = ROOT / "results/published/2026-11-27-strangers-snapshots"
MIB = 1 << 20
BASE = 0x7F0000000000


def entry(action, address, size, **more):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1, **more}


def made_up(device=0):
    """A segment of 20 MiB; 8 MiB of it, then 12, then the first given back. At most 20 MiB less 7 bytes are asked for."""
    entries = [entry("segment_alloc", BASE, 20 * MIB), entry("alloc", BASE, 8 * MIB), entry("alloc", BASE + 8 * MIB, 12 * MIB - 7),
               entry("free_requested", BASE, 8 * MIB), entry("free_completed", BASE, 8 * MIB)]
    blocks = [{"address": BASE, "size": 8 * MIB, "requested_size": 0, "state": "inactive"},
              {"address": BASE + 8 * MIB, "size": 12 * MIB, "requested_size": 12 * MIB - 7, "state": "active_allocated"}]
    segment = {"device": device, "address": BASE, "total_size": 20 * MIB, "allocated_size": 12 * MIB, "active_size": 12 * MIB,
               "requested_size": 12 * MIB - 7, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
               "blocks": blocks}
    return {"segments": [segment], "device_traces": [[]] * device + [entries], "allocator_settings": {}, "external_annotations": []}


def of_two_devices():
    first, second = made_up(), made_up(device=1)
    # On the second one 30 MiB more were asked for, and refused.
    second["device_traces"][1].append(entry("oom", 0, 30 * MIB, device_free=5 * MIB))
    first["segments"] += second["segments"]
    first["device_traces"].append(second["device_traces"][1])
    return first


class Peaks(unittest.TestCase):
    def test_peaks_are_found_backwards_from_the_end(self):
        self.assertEqual(strangers_snapshots.recorded_peaks(made_up(), 0), (20 * MIB - 7, 20 * MIB, 0))
        later = made_up()
        later["device_traces"][0] = later["device_traces"][0][3:]
        self.assertEqual(strangers_snapshots.recorded_peaks(later, 0), (20 * MIB - 7, 20 * MIB, 20 * MIB))

    def test_a_request_that_failed_counts(self):
        self.assertEqual(strangers_snapshots.recorded_peaks(of_two_devices(), 1)[:2], (42 * MIB - 7, 20 * MIB))
        self.assertEqual(strangers_snapshots.recorded_peaks(of_two_devices(), 0)[:2], (20 * MIB - 7, 20 * MIB))

    def test_the_main_device_is_that_of_a_failed_request_else_that_of_most_entries(self):
        snapshot = of_two_devices()
        snapshot["device_traces"][0] *= 2
        self.assertEqual(strangers_snapshots.snapshot_pools.main_device(snapshot), 1)
        snapshot["device_traces"][1].pop()
        self.assertEqual(strangers_snapshots.snapshot_pools.main_device(snapshot), 0)

    def test_a_row_is_equal_only_where_all_of_it_is(self):
        equal = {"requested_bytes_peak": "5", "requested_bytes_peak_ours": "5", "reserved_bytes_peak": "7", "reserved_bytes_peak_ours": "7",
                 "requests": "2", "equal_places": "2", "end_equal": "yes"}
        self.assertTrue(strangers_snapshots.is_equal(equal))
        for name, other in (("requested_bytes_peak", "6"), ("reserved_bytes_peak_ours", "6"), ("equal_places", "1"), ("end_equal", "no")):
            self.assertFalse(strangers_snapshots.is_equal({**equal, name: other}), name)

    def test_keys_tell_releases(self):
        snapshot = made_up()
        self.assertEqual(strangers_snapshots.release_by_keys(snapshot), "2.6 to 2.7")
        snapshot["device_traces"][0][1]["pool_id"] = (0, 0)
        self.assertEqual(strangers_snapshots.release_by_keys(snapshot), "2.12 or later")
        for one in snapshot["device_traces"][0]:
            one.pop("time_us")
            one.pop("pool_id", None)
        del snapshot["external_annotations"]
        self.assertEqual(strangers_snapshots.release_by_keys(snapshot), "2.1")


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page, self.folder, self.origin = (Path(folder.name) / name for name in ("page", "files", "origin"))
        for each in (self.page, self.folder, self.origin / "ann/job"):
            each.mkdir(parents=True)

    def publish(self, snapshot, path="results/memory.pickle"):
        """A repository with that file, and the source that names it."""
        repository = self.origin / "ann/job"
        (repository / path).parent.mkdir(exist_ok=True)
        (repository / path).write_bytes(pickle.dumps(snapshot, protocol=4))
        for words in (["init", "-q"], ["config", "uploadpack.allowFilter", "true"], ["add", "."],
                      ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "commit", "-q", "-m", "Add a snapshot"]):
            strangers_snapshots.git(repository, *words)
        commit = strangers_snapshots.git(repository, "rev-parse", "HEAD", text=True).strip()
        digest = hashlib.sha256((repository / path).read_bytes()).hexdigest()
        source = {"repository": "ann/job", "commit": commit, "path": path, "sha256": digest}
        self.write(source)
        return source

    def write(self, source):
        strangers_snapshots.write_rows(self.page / "sources.csv", list(source), [source])
        strangers_snapshots.write_rows(self.page / "programs.csv", ["course_commit"], [])

    def fetch(self):
        strangers_snapshots.fetch(self.page, self.folder, f"file://{self.origin}/")

    def test_files_come_by_commit_and_are_held_to_their_hash(self):
        source = self.publish(made_up())
        self.fetch()
        self.assertEqual(strangers_snapshots.snapshot_pools.read(str(strangers_snapshots.place_of(self.folder, source))), made_up())
        strangers_snapshots.place_of(self.folder, source).unlink()
        self.write({**source, "sha256": "0" * 64})
        with self.assertRaisesRegex(SystemExit, "not that of sources.csv"):
            self.fetch()

    def rows(self, snapshot):
        self.publish(snapshot)
        self.fetch()
        strangers_snapshots.check(ALLOCMARK, self.page, self.folder)
        return strangers_snapshots.read_rows(self.page / "rows.csv")

    def test_each_device_is_a_row(self):
        rows = self.rows(of_two_devices())
        self.assertEqual([(row["device"], row["requests"], row["equal_places"], row["failed"]) for row in rows], [("0", "2", "2", "0"), ("1", "2", "2", "1")])
        self.assertEqual([row["fresh_reserved_bytes_peak_ours"] for row in rows], [str(20 * MIB), ""])
        self.assertTrue(all(map(strangers_snapshots.is_equal, rows)))

    def test_a_block_elsewhere_is_no_equal_row(self):
        snapshot = copy.deepcopy(made_up())
        for one in snapshot["device_traces"][0][1:]:
            one["addr"] += 512 if one["addr"] == BASE + 8 * MIB else 0
        snapshot["segments"][0]["blocks"][0]["size"] += 512
        snapshot["segments"][0]["blocks"][1].update(address=BASE + 8 * MIB + 512, size=12 * MIB - 512, requested_size=12 * MIB - 600)
        snapshot["device_traces"][0][2]["size"] = 12 * MIB - 600
        row, = self.rows(snapshot)
        self.assertEqual((row["requests"], row["equal_places"]), ("2", "1"))
        self.assertFalse(strangers_snapshots.is_equal(row))


class Programs(unittest.TestCase):
    def test_what_was_tried_after_the_look_is_predicted_beside_it(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder)
            program = {"repository": "ann/job", "path": "a.pickle", "course_commit": "0123456789", "device": "sim:a100-80", "pytorch": "2.11",
                       "program": "8,8,1,1 --context 4 --work forward", "after": "8,8,1,1 --context 8 --work forward"}
            strangers_snapshots.write_rows(page / "programs.csv", list(program), [program, {**program, "after": ""}])
            for words, size in ((program["program"], 4 * MIB), (program["after"], 30 * MIB)):
                path = strangers_snapshots.recording_of(page, program, words)
                with gzip.open(path, "wt") as file:
                    file.write(f"op,id,size,stream\nalloc,1,{size},0\nfree,1,0,0\n")
            strangers_snapshots.predict(ALLOCMARK, page, page)
            both, one = strangers_snapshots.read_rows(page / "predictions.csv")
        self.assertEqual([both[name] for name in strangers_snapshots.PREDICTION_FIELDS[2:]], [str(4 * MIB), str(20 * MIB), str(30 * MIB), str(30 * MIB)])
        self.assertEqual((one["live_bytes"], one["live_bytes_after"]), (str(4 * MIB), ""))


class Page(unittest.TestCase):
    def test_the_page_is_made_of_its_rows(self):
        self.assertEqual(strangers_snapshots.page_of(PAGE), (PAGE / "README.md").read_text())

    def test_every_source_has_a_row_and_every_program_a_prediction(self):
        def keys(name):
            return {(row["repository"], row["path"]) for row in strangers_snapshots.read_rows(PAGE / name)}

        self.assertEqual(keys("sources.csv"), keys("rows.csv"))
        self.assertEqual(keys("programs.csv"), keys("predictions.csv"))


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
