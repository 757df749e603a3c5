#!/usr/bin/env python3
"""Which release of PyTorch a job is simulated with, where nobody names one: the recording's own, in every command alike, and it is said.

usage: job_release_test.py ALLOCMARK
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ALLOCMARK = ""
MIB = 1 << 20
SNAPSHOT = os.path.abspath("tests/golden/snapshots/train_oom.pickle.gz")
ROWS = [f"alloc,{i},{50 * MIB},0" for i in range(1, 9)] + ["free,3,0,0", "free,6,0,0", f"alloc,20,{50 * MIB},0"]


class JobRelease(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def job(self, torch=None, name="job"):
        path = os.path.join(self.folder, f"{name}.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write((f"# torch: {torch}\n" if torch else "") + "op,id,size,stream\n" + "\n".join(ROWS) + "\n")
        return path

    def call(self, *words, code=0):
        done = subprocess.run([ALLOCMARK, *words], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, " ".join(done.stderr.split())

    def planned(self, *words, workloads):
        out, told = self.call("run", "-w", *workloads, "-d", "sim:h200", "--dry-run", *words)
        return [line.split(" / ")[1] for line in out.splitlines() if " / " in line], told

    def releases(self, job):
        """Of every command, the release that it says."""
        found = {}
        for command in ("advise", "fit"):
            out, _ = self.call(command, job, "--format", "json", "-c", "unset", *(["--search-only"] if command == "advise" else []))
            found[command] = json.loads(out)["release"]["name"]
        allocators, told = self.planned("-a", "caching", workloads=["file:" + job])
        found["run"] = allocators[0]
        self.assertIn("'caching' is simulated as caching@" + found["advise"], told)
        found["export"] = self.call("export", job, f"{job}.pickle", "--force")[0].split("PyTorch ")[1].split("'")[0]
        return found

    def test_every_command_takes_the_recordings_own(self):
        for torch, release in (("2.11.0+cu130", "2.11"), ("2.13.0a0+gitabc", "2.13"), ("2.9", "2.9"), ("2.8.0", "2.9"), ("2.17.0", "2.15")):
            found = self.releases(self.job(torch))
            self.assertEqual(found, {"advise": release, "fit": release, "run": f"caching@{release}", "export": release}, torch)

    def test_where_nothing_is_known_it_is_the_newest_and_that_is_said(self):
        for torch in (None, "unknown", "1.13.1"):
            found = self.releases(self.job(torch))
            self.assertEqual(found, {"advise": "2.15", "fit": "2.15", "run": "caching", "export": "2.15"}, torch)

    def test_a_snapshot_is_of_the_release_that_its_blocks_show(self):
        found = self.releases_of_snapshot()
        self.assertEqual(found["run"], [f"caching@{found['advise']}"])
        self.assertEqual(found["why"], found["advise"])

    def releases_of_snapshot(self):
        out, _ = self.call("advise", SNAPSHOT, "--format", "json", "-c", "unset", "--search-only")
        why, _ = self.call("why", SNAPSHOT, "--format", "json")
        return {"advise": json.loads(out)["release"]["name"], "why": json.loads(why)["pytorch"],
                "run": self.planned("-a", "caching", workloads=["file:" + SNAPSHOT])[0]}

    def test_kernels_that_are_added_change_nothing(self):
        for path, allocator in ((self.job("2.12.0"), "caching@2.12"), (SNAPSHOT, self.releases_of_snapshot()["run"][0])):
            for words in (["--kernels", "20us"], ["--kernels", "off"]):
                self.assertEqual(self.planned("-a", "caching", *words, workloads=["file:" + path])[0], [allocator])
            self.assertEqual(self.planned("-a", "caching", workloads=[f"file:{path}+kernels:20us+empty_cache:steps"])[0], [allocator])

    def test_a_release_that_is_named_is_simulated(self):
        job = self.job("2.11.0")
        allocators, told = self.planned("-a", "caching@2.15", workloads=["file:" + job])
        self.assertEqual(allocators, ["caching@2.15"])
        self.assertNotIn("is simulated as", told)
        allocators, told = self.planned("-a", "caching", "caching@2.15", "native", workloads=["file:" + job])
        self.assertEqual(allocators, ["caching@2.11", "caching@2.15", "native"])
        self.assertIn("as the recording says; -a caching@2.15 asks about the newest", told)
        self.assertIn("PyTorch 2.13's allocator, as given", self.call("export", job, "named.pickle", "--pytorch", "2.13")[0])

    def test_jobs_of_several_releases_each_have_their_own(self):
        jobs = ["file:" + self.job("2.11.0", "old"), "file:" + self.job(None, "unnamed"), "file:" + self.job("2.13.1", "later")]
        allocators, told = self.planned("-a", "caching", "-c", "caching=max_split_size_mb:64", workloads=jobs)
        self.assertEqual(allocators, ["caching@2.11", "caching", "caching@2.13"])
        for said in ("caching@2.11", "caching@2.13", "caching@2.15, the newest that is modelled"):
            self.assertIn(f"'caching' is simulated as {said}", told)

    def test_without_an_allocator_it_is_the_same(self):
        allocators, _ = self.planned(workloads=["file:" + self.job("2.11.0")])
        self.assertIn("caching@2.11", allocators)
        self.assertNotIn("caching", allocators)
        out, told = self.call("run", "-w", "file:" + self.job("2.11.0"), "-d", "sim:h200", "--capacity", "1.05x", "--dry-run", "--ab", "max_split_size_mb:64",
                              "unset")
        self.assertEqual(out.count("caching@2.11"), 2)
        self.assertIn("'caching' is simulated as caching@2.11", told)

    def test_what_is_stored_names_the_release(self):
        self.call("run", "-w", "file:" + self.job("2.11.0"), "-a", "caching", "-d", "sim:h200", "--passes", "1", "--no-html", "-o", "out")
        with open(os.path.join(self.folder, "out", "results.jsonl"), encoding="utf-8") as file:
            cells = [cell for cell in map(json.loads, file) if cell["kind"] == "cell"]
        self.assertEqual([cell["allocator"] for cell in cells], ["caching@2.11"])

    def test_a_key_that_the_release_has_not_is_refused_as_by_advise(self):
        job = self.job("2.9.1")
        for words in (("advise", job, "--search-only"), ("run", "-w", "file:" + job, "-a", "caching", "-d", "sim:h200", "--dry-run")):
            _, told = self.call(*words, "-c", "large_segment_size_mb:20", code=2)
            self.assertIn("a key since 2.11; you asked for 2.9", told)

    def test_threads_and_ranks_take_it_too(self):
        job = "file:" + self.job("2.11.0")
        self.assertIn("on caching@2.11", self.call("threads", job, "--threads", "1", "-d", "sim:h200", "--passes", "1")[0])
        self.assertIn("caching@2.11", self.call("ranks", job, job, "-d", "sim:h200")[0])


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
