#!/usr/bin/env python3
"""Goal: 'advise' and 'fit' say one thing first, and nothing that their table or 'run' contradicts. Method: small jobs whose right answer is
known by arithmetic, and the recommended cell run again.

usage: advise_cli_test.py ALLOCMARK
"""
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ALLOCMARK = ""
SNAPSHOT = "tests/golden/snapshots/train_oom.pickle.gz"
GIB = 1 << 30
SLEEPS = "colocate:gpt2-124m,layers=2,cycles=1,steps=1,requests=2,kv_memory=64MiB"


def call(*words, code=0):
    run = subprocess.run([ALLOCMARK, *words], capture_output=True, text=True)
    assert run.returncode == code, (run.returncode, run.stderr)
    return run.stdout


def told(*words):
    return " ".join(call(*words).split())


def advice(*words):
    return json.loads(call("advise", *words, "--format", "json"))


class Advise(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def trace(self, name, rows, head=""):
        path = Path(self.folder.name) / name
        path.write_text(head + "op,id,size,stream\n" + "\n".join(rows) + "\n")
        return str(path)

    def stairs(self):
        """Of eight steps each has a larger tensor than the last one, which no cached segment serves: 8 GiB live at most, 36 GiB reserved. Then
        nothing changes any more."""
        rows = []
        for step in range(1, 33):
            rows += [f"mark,step{step},0,0", f"alloc,{step},{min(step, 8) * GIB},0", f"free,{step},0,0"]
        return self.trace("stairs.csv", rows)

    def test_what_a_card_of_the_asked_size_leaves_is_what_it_is_said_to_leave(self):
        job = self.trace("small.csv", ["mark,step,0,0", f"alloc,1,{GIB},0", "free,1,0,0"])
        words = ["advise", job, "--search-only"]
        run = subprocess.run([ALLOCMARK, *words, "--capacity", "24GiB"], capture_output=True, text=True)
        cards = re.findall(r"-d (sim:\S+) \(\S+ GiB, leaves (\S+ GiB)\)", " ".join(run.stderr.split()))
        self.assertIn("sim:rtx-4090", dict(cards))
        for card, left in cards:
            self.assertIn(f"{left} are there", told(*words, "-d", card))

    def test_a_job_that_fits_is_told_what_reserves_least_and_run_agrees(self):
        job = self.stairs()
        found = advice(job, "--capacity", "40GiB")
        self.assertEqual(found["verdict"]["kind"], "paste")
        self.assertEqual(found["verdict"]["conf"], "expandable_segments:True")
        self.assertEqual(found["verdict"]["paste"], "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
        peaks = {one["conf"]: one["peak_bytes"] for one in found["settings"]}
        self.assertEqual((peaks[""], peaks["expandable_segments:True"]), (36 * GIB, 8200 << 20))
        out = Path(self.folder.name) / "run"
        call("run", "--workload", f"file:{job}", "--allocator", "caching", "--conf", "unset", "expandable_segments:True", "--capacity", "40GiB",
             "--device", "sim:h200", "--passes", "1", "--no-html", "--allow-debug", "--out", str(out))
        cells = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        reserved = {one["conf"]: one["reserved_bytes_peak"] for one in cells if one["kind"] == "cell"}
        self.assertEqual(reserved, {"": peaks[""], "expandable_segments:True": peaks["expandable_segments:True"]})

    def test_the_answer_comes_first_and_the_table_is_short(self):
        text = call("advise", self.stairs(), "--capacity", "40GiB", "--search-only")
        lines = text.splitlines()
        self.assertEqual(lines[0], "answer: paste this line:")
        self.assertEqual(lines[1], "  export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
        self.assertIn("is it safe? not with sleep mode", " ".join(text.split()))
        self.assertNotIn("max_split_size_mb:512", text)
        self.assertNotIn("reserves less", text)
        self.assertIn("max_split_size_mb:512", call("advise", self.stairs(), "--capacity", "40GiB", "--search-only", "--all"))

    def test_markdown_is_a_table_with_the_line_as_code(self):
        text = call("advise", self.stairs(), "--capacity", "40GiB", "--search-only", "--format", "markdown")
        self.assertIn("**answer: paste this line:**\n\n```\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n```\n", text)
        self.assertIn("\n| setting | OOMs | needs | reserves | CUDA calls, ms/step |\n| :-- | --: | --: | --: | --: |\n", text)
        self.assertIn("\n| `unset` | 0 |", text)
        self.assertIn("| setting | needs | above live | passes |\n", call("fit", self.stairs(), "--conf", "unset", "--format", "markdown"))

    def test_there_is_always_one_verdict(self):
        small = self.trace("small.csv", ["mark,step1,0,0", "alloc,1,512,0", "free,1,0,0"])
        self.assertTrue(call("advise", small, "--search-only").startswith("answer: leave PYTORCH_CUDA_ALLOC_CONF unset\n"))
        text = told("advise", self.stairs(), "--capacity", "7GiB")
        self.assertTrue(text.startswith("answer: no setting can help why: needs 8.00 GiB live, 7.00 GiB are there: 1.00 GiB must go."), text)

    def test_a_server_that_sleeps_gets_no_expandable_segments(self):
        found = advice(SLEEPS, "--search-only")
        self.assertGreater(len(found["settings"]), 20)
        self.assertFalse([one["conf"] for one in found["settings"] if "expandable" in one["conf"]])
        self.assertIn("left out: expandable_segments (the server sleeps", told("advise", SLEEPS, "--search-only"))
        awake = advice(SLEEPS + ",sleep=none", "--search-only")
        self.assertTrue([one["conf"] for one in awake["settings"] if "expandable" in one["conf"]])

    def test_a_recording_forbids_keys_and_names_its_release(self):
        rows = ["alloc,1,512,0", "free,1,0,0"]
        job = self.trace("old.csv", rows, "# torch: 2.10.0+cu128\n# forbids: backend it shares tensors\n")
        found = advice(job, "--search-only")
        self.assertEqual(found["release"], {"name": "2.10", "basis": "as the recording says"})
        self.assertFalse([one["conf"] for one in found["settings"] if "large_segment" in one["conf"] or "backend" in one["conf"]])
        self.assertIn("backend (it shares tensors)", told("fit", job))
        newer = advice(job, "--search-only", "--pytorch", "2.13")
        self.assertTrue([one["conf"] for one in newer["settings"] if "large_segment" in one["conf"]])

    def test_a_snapshot_of_unclear_release_gets_only_what_all_of_them_know(self):
        found = advice(SNAPSHOT, "--search-only")
        self.assertEqual(found["release"], {"name": "2.11", "basis": "one of 2.9, 2.10, 2.11 by where blocks lie"})
        self.assertFalse([one["conf"] for one in found["settings"] if "large_segment" in one["conf"]])

    def test_without_leaves_a_key_out(self):
        found = advice(self.stairs(), "--capacity", "40GiB", "--search-only", "--without", "expandable_segments", "--without",
                       "backend:cudaMallocAsync")
        self.assertFalse([one["conf"] for one in found["settings"] if "expandable" in one["conf"] or "backend" in one["conf"]])
        self.assertEqual(found["without"], ["expandable_segments", "backend:cudaMallocAsync"])
        self.assertNotIn("expandable", call("fit", self.stairs(), "--without", "expandable_segments").replace("expandable_segments (--without)", ""))
        run = subprocess.run([ALLOCMARK, "advise", self.stairs(), "--without", "expandable"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("expandable_segments", run.stderr)

    def holes(self):
        """In each step a tensor of 2 GiB, where every second one of 200 smaller ones has gone: 6.74 GiB live at most."""
        rows, number = [], 0
        for step in range(6):
            rows.append(f"mark,step{step},0,0")
            small = range(number + 1, number + 201)
            rows += [f"alloc,{one},{((one - number - 1) % 13 + 1) * (5 << 20)},0" for one in small]
            rows += [f"free,{one},0,0" for one in small[::2]] + [f"alloc,{number + 201},{2 * GIB},0"]
            rows += [f"free,{one},0,0" for one in small[1::2]] + [f"free,{number + 201},0,0"]
            number += 201
        return self.trace("holes.csv", rows)

    def test_jax_is_told_which_of_its_variables_saves_the_job(self):
        job = self.holes()
        found = advice(job, "--framework", "jax", "--capacity", "8GiB")
        self.assertEqual(found["verdict"]["kind"], "paste")
        self.assertEqual(found["verdict"]["paste"], "export XLA_PYTHON_CLIENT_ALLOCATOR=vmm XLA_PYTHON_CLIENT_MEM_FRACTION=.95")
        self.assertIn("experimental", found["verdict"]["safety"])
        failed = {one["conf"]: one["oom_count"] for one in found["settings"]}
        self.assertEqual([name for name, count in failed.items() if count == 0],
                         ["XLA_PYTHON_CLIENT_ALLOCATOR=vmm XLA_PYTHON_CLIENT_MEM_FRACTION=.95", "XLA_PYTHON_CLIENT_ALLOCATOR=platform"])
        backends = {one["setting"]: (one["allocator"], one["conf"]) for one in found["framework"]["settings"]}
        self.assertEqual(backends[""], ("bfc@xla-2026-09", ""))
        self.assertEqual(backends["XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_PYTHON_CLIENT_PREALLOCATE=false"],
                         ("async", "release_threshold_mb:6144"))
        self.assertNotIn("PYTORCH", json.dumps(found["verdict"]))

    def test_a_share_of_the_card_is_a_share_of_each_card_that_is_asked_about(self):
        """75 % of 11.6 GiB serve, so a limit that a larger card would have is not taken for this one's."""
        found = advice(self.holes(), "--framework", "jax", "--capacity", "8GiB", "--search-only")
        least = next(one["least_bytes"] for one in found["settings"] if one["conf"] == "")
        job = self.holes()
        for size, code in ((least, 0), (least - (2 << 20), 1)):
            out = Path(self.folder.name) / f"share{code}"
            call("run", "--workload", f"file:{job}", "--allocator", "bfc@xla-2026-09", "--capacity", f"{size}B", "--device", "sim:h200",
                 "--passes", "1", "--no-html", "--allow-debug", "--out", str(out))
            cell = next(json.loads(line) for line in (out / "results.jsonl").read_text().splitlines() if '"cell"' in line)
            self.assertEqual(cell["oom_count"] > 0, code == 1)

    def test_a_job_that_fits_needs_none_of_jax_s_variables(self):
        text = told("advise", self.holes(), "--framework", "jax", "--capacity", "24GiB", "--search-only")
        self.assertTrue(text.startswith("answer: leave JAX's memory variables unset why: unset serves every request"), text)

    def test_tensorflow_has_a_table_too_and_without_leaves_a_variable_out(self):
        found = advice(self.holes(), "--framework", "tensorflow", "--search-only", "--without", "TF_GPU_ALLOCATOR")
        self.assertEqual([one["conf"] for one in found["settings"]], ["", "TF_FORCE_GPU_ALLOW_GROWTH=true"])

    def test_seeds_and_the_longest_lengths_decide_with(self):
        job = "train:gpt2-124m,layers=2,batch=2,lengths=lognormal,median=64,seq=1024,steps=4"
        found = advice(job, "--conf", "unset", "--search-only", "--seeds", "3")
        self.assertEqual([one["name"] for one in found["variants"]],
                         ["seed 2", "seed 3", "longest lengths", "a quarter at the longest length"])
        longest = max(one["needed_bytes"] for one in found["variants"])
        self.assertGreater(longest, found["needed_bytes"] * 1.2)
        text = told("advise", job, "--conf", "unset", "--search-only", "--capacity", f"{(longest + found['needed_bytes']) // 2}B")
        self.assertIn("not safe: with longest lengths it needs", text)
        self.assertIn("with the longest lengths (not served)", text)
        self.assertIn("longest lengths", call("fit", job, "--conf", "unset"))
        self.assertIn("over 2 seeds", call("fit", job, "--conf", "unset", "--seeds", "2"))
        self.assertEqual(advice("gpt2_train_amp", "--conf", "unset", "--search-only", "--seeds", "3")["variants"], [])

    def test_fit_does_not_call_zero_what_was_not_measured(self):
        found = json.loads(call("fit", self.stairs(), "--conf", "unset", "--format", "json"))
        self.assertIsNone(found["settings"][0]["peak_bytes"])
        self.assertGreater(found["settings"][0]["least_bytes"], 0)

    def test_an_interrupt_gives_what_is_there(self):
        rows = []
        for step in range(1, 4000):
            rows += [f"mark,step{step},0,0"] + [f"alloc,{step * 100 + i},{(step * i) % 97 + 1}000000,0" for i in range(20)]
            rows += [f"free,{step * 100 + i},0,0" for i in range(20)]
        process = subprocess.Popen([ALLOCMARK, "advise", self.trace("long.csv", rows), "--search-only"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        if process.returncode == 0:
            self.skipTest("the search was over before the signal")
        self.assertEqual(process.returncode, 3, err)
        self.assertIn("interrupted: ", err)
        if "interrupted: 0 of" not in err:
            self.assertTrue(out.startswith("answer: "), out)


if __name__ == "__main__":
    ALLOCMARK = sys.argv.pop(1)
    unittest.main()
