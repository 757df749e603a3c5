#!/usr/bin/env python3
"""`allocmark why` and `allocmark advise` on the same snapshot: they ask the same simulated device, rank by the same cost, and where
their answers differ, `why` says so.

usage: why_cli_test.py ALLOCMARK
"""
import base64
import gzip
import hashlib
import html
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

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
                                 f"{self.why['capacity_bytes']}B", "--pytorch", self.why["pytorch"], *words))
        found = {one["conf"]: one["oom_count"] for one in advice["settings"]}
        self.assertEqual({one["conf"]: one["simulated_failed_count"] for one in self.why["settings"]},
                         {conf: found[conf] for conf in confs})

    def test_failed_is_the_worst_of_all_that_was_tried(self):
        for one in self.why["settings"]:
            self.assertGreaterEqual(one["failed_count"], one["simulated_failed_count"])
        unset = next(one for one in self.why["settings"] if one["conf"] == "")
        self.assertEqual((unset["failed_count"], unset["simulated_failed_count"]), (1, 0))
        self.assertIn("will say that unset serves every request", " ".join(self.text.split()))

    def test_the_trace_for_its_processes_goes_away_and_is_not_needed(self):
        def answer(temporary):
            run = subprocess.run([ALLOCMARK, "why", SNAPSHOT, "--format", "json"], capture_output=True, text=True,
                                 env={**os.environ, "TMPDIR": temporary})
            return json.loads(run.stdout)

        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(answer(folder), self.why)
            self.assertEqual(os.listdir(folder), [])
            self.assertEqual(answer(os.path.join(folder, "is_not_there")), self.why)

    def test_a_history_that_gives_back_more_than_it_had_needs_no_exbibytes(self):
        snapshot = pickle.loads(gzip.decompress(Path(SNAPSHOT).read_bytes()))
        snapshot["device_traces"][0].reverse()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reversed.pickle"
            path.write_bytes(pickle.dumps(snapshot, protocol=4))
            self.assertNotIn("EiB", call("why", str(path)))

    def test_the_order_is_failures_then_room_then_cost(self):
        limit = 0.95 * self.why["capacity_bytes"]
        keys = [(one["failed_count"], one["reserved_bytes_peak"] > limit) for one in self.why["settings"]]
        self.assertEqual(keys, sorted(keys))
        # Costs within 5 % or 1 us count as equal, as in 'advise'.
        for before, after in zip(self.why["settings"], self.why["settings"][1:]):
            if keys[self.why["settings"].index(before)] == keys[self.why["settings"].index(after)]:
                cost, next_cost = before["driver_ns_per_step"], after["driver_ns_per_step"]
                self.assertTrue(cost <= next_cost * 1.05 or cost <= next_cost + 1000, (before, after))

    def test_a_history_without_steps_has_a_cost(self):
        why = json.loads(call("why", "tests/golden/snapshots/streams_recorded.pickle.gz", "--format", "json"))
        self.assertTrue(all(one["driver_ns_per_step"] > 0 for one in why["settings"] + why["other_allocators"]))

    def test_a_string_that_overruns_pinned_memory_is_warned_of(self):
        pair = "pinned_max_round_threshold_mb:128,pinned_max_cached_size_mb:1024"
        with tempfile.TemporaryDirectory() as folder:
            with gzip.open(SNAPSHOT) as file:
                snapshot = pickle.load(file)
            snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] = pair
            recorded = os.path.join(folder, "recorded.pickle")
            with open(recorded, "wb") as file:
                pickle.dump(snapshot, file, protocol=4)
            for words in ((recorded,), (SNAPSHOT, "--conf", pair)):
                for release, warned in (("2.13", True), ("2.14", False), ("2.15", False)):
                    with self.subTest(words=words, release=release):
                        notes = json.loads(call("why", *words, "--pytorch", release, "--format", "json"))["notes"]
                        told = [note for note in notes if "overruns pinned host memory" in note]
                        self.assertEqual([note.startswith(f"{pair}: PyTorch {release} ") for note in told], [True] * warned)

    def test_the_release_is_found_or_given(self):
        self.assertEqual((self.why["pytorch"], self.why["pytorch_given"]), ("2.11", False))
        self.assertIn("release: PyTorch 2.11 or earlier, by where blocks lie; the answer is for 2.11", self.text)
        self.assertIn("--allocator caching@2.11", self.text)
        older = json.loads(call("why", SNAPSHOT, "--pytorch", "2.10.1", "--format", "json"))
        self.assertEqual((older["pytorch"], older["pytorch_given"]), ("2.10", True))
        # A key since 2.11, and an error before.
        self.assertIn("large_segment_size_mb:64", [one["conf"] for one in self.why["settings"]])
        self.assertNotIn("large_segment_size_mb:64", [one["conf"] for one in older["settings"]])
        self.assertIn("release: PyTorch 2.10, as given", call("why", SNAPSHOT, "--pytorch", "2.10"))

    def test_a_release_that_puts_blocks_elsewhere_is_not_trusted(self):
        newer = json.loads(call("why", SNAPSHOT, "--pytorch", "2.15", "--format", "json"))
        self.assertFalse(newer["self_check_complete"])
        self.assertTrue(self.why["self_check_complete"])

    def test_a_key_that_a_possible_release_lacks_is_told(self):
        words = ("why", SNAPSHOT, "--conf", "large_segment_size_mb:64")
        self.assertIn("PyTorch 2.10 and earlier have no such key", call(*words))
        self.assertNotIn("no such key", call(*words, "--pytorch", "2.11"))
        run = subprocess.run([ALLOCMARK, *words, "--pytorch", "2.10"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("large_segment_size_mb", run.stderr)

    def test_other_allocators_are_marked(self):
        marks = {one["name"]: one["is_setting_of_pytorch"] for one in self.why["other_allocators"]}
        self.assertEqual(marks, {"backend:cudaMallocAsync": True, "native": False, "cub": False, "thrust_pool": False,
                                 "vmm_stitch": False})
        self.assertEqual(self.text.count("no setting of PyTorch"), 4)


class Advise(unittest.TestCase):
    def test_what_no_setting_can_serve_is_not_searched(self):
        advice = json.loads(call("advise", "gpt2_train_amp", "--capacity", "1GiB", "--search-only", "--format", "json"))
        self.assertEqual([one["conf"] for one in advice["settings"]], ["", "expandable_segments:True"])
        self.assertIn("no setting can help", call("advise", "gpt2_train_amp", "--capacity", "1GiB", "--search-only"))

    def test_it_warns_where_other_programs_ran_beside_what_it_measured(self):
        # As many passes as take seconds: what is over sooner tells nothing.
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
        try:
            run = subprocess.run([ALLOCMARK, "advise", "gpt2_train_amp", "--conf", "unset", "--passes", "400", "--format", "json"],
                                 capture_output=True, text=True)
        finally:
            for one in others:
                one.kill()
                one.wait()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(any("other programs kept" in text for text in json.loads(run.stdout)["disturbances"]), run.stdout[-500:])
        self.assertIn("the measured times may be off", " ".join(run.stderr.split()))


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page = os.path.join(folder.name, "why.html")
        # A name that would be markup, and a script, if it were not escaped.
        self.snapshot = os.path.join(folder.name, "<script>alert(1)<&script>.pickle.gz")
        shutil.copy(SNAPSHOT, self.snapshot)

    def make(self, snapshot, *words, environment=()):
        return subprocess.run([ALLOCMARK, "why", snapshot, "--out", self.page, *words], capture_output=True, text=True,
                              env={**os.environ, **dict(environment)})

    def test_the_page_says_what_the_text_says_and_runs_only_its_own_script(self):
        run = self.make(self.snapshot)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"page: {self.page}", run.stderr)
        text = Path(self.page).read_text()
        scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.S)
        self.assertEqual(len(scripts), 1)
        digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
        self.assertIn(f"script-src &#x27;sha256-{digest}&#x27;", text)
        self.assertIsNone(re.search(r"(src|href)=\"(?!#|data:)", text))
        plain = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())
        for words in ("A request of 132 MiB failed: 212 MiB were free for it", "self-check: 100 % of 8802 placements equal",
                      "957 MiB live", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                      "will say that unset serves every request", "backend:cudaMallocAsync"):
            self.assertIn(words, plain)
        # The widest segment: 105 MiB of 132 MiB are free.
        widths = {words: float(width) for width, words in
                  re.findall(r'width="([0-9.]+)" height="16" class="[^"]*"><title>(free: 105 MiB|live: 26.6 MiB)</title>', text)}
        self.assertAlmostEqual(widths["free: 105 MiB"] / widths["live: 26.6 MiB"], 105.4 / 26.6, delta=0.05)

    def test_a_history_without_failure_has_a_page_too(self):
        run = self.make("tests/golden/snapshots/train_amp.pickle.gz")
        self.assertEqual(run.returncode, 0, run.stderr)
        text = Path(self.page).read_text()
        self.assertIn("No request failed in this history", text)
        self.assertNotIn("When the request failed", text)

    def test_a_page_is_not_replaced_and_needs_python(self):
        Path(self.page).write_text("mine")
        self.assertEqual(self.make(SNAPSHOT).returncode, 2)
        run = self.make(SNAPSHOT, "--force", environment={"PATH": "/nowhere"})
        self.assertEqual(run.returncode, 4)
        self.assertIn("python3", run.stderr)
        self.assertEqual(Path(self.page).read_text(), "mine")


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
