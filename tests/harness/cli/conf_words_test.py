#!/usr/bin/env python3
"""A bad config string gets the same words from every command that takes one, whichever way it is pasted.

usage: conf_words_test.py ALLOCMARK
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ALLOCMARK = ""
SNAPSHOT = "tests/golden/snapshots/train_oom.pickle.gz"
# What is typed, and a part of what is told.
BAD = (
    ("max_split_size_mb:5", "key max_split_size_mb, column 19: a config value is not allowed; wanted an integer, at least"),
    ("max_splitsize_mb:128", "column 1: there is no config key 'max_splitsize_mb'. did you mean 'max_split_size_mb'?"),
    ("max_split_size_mb:128;expandable_segments:True", "';' is not a separator in a config string"),
    ("max_split_size_mb:128,max_split_size_mb:256", "a config key stands twice"),
    ("expandable_segments:true", "the words are case-sensitive"),
    ("roundup_power2_divisions:[256:1", "a list is not closed"),
    ("backend:cudaMallocAsync,max_split_size_mb:128", "has no effect with backend:cudaMallocAsync"),
    ("garbage_collection_threshold:1.5", "a config value is not allowed"),
)
# Commands that take --conf. The first is the one that all others are held to.
COMMANDS = (
    ("run", "--workload", "comb", "--allocator", "caching", "--device", "sim:h200", "--out", "FOLDER/run"),
    ("advise", "comb"),
    ("fit", "comb"),
    ("export", "comb", "FOLDER/out.pickle"),
    ("why", SNAPSHOT),
    ("threads", "comb", "--device", "sim:h200", "--allocator", "caching"),
    ("ranks", "comb", "comb", "--device", "sim:h200", "--allocator", "caching"),
    ("fidelity",),
    ("simcheck", "--on", "sim:h200", "--allocator", "caching"),
)


# What overruns pinned host memory in 2.13, and in no other release.
OVERRUN = ("pinned_max_round_threshold_mb:128,pinned_max_cached_size_mb:1024", "pinned_max_round_threshold_mb:64,max_split_size_mb:128")


class Words(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def told(self, *words):
        """The error, and nothing else: no traces of a run."""
        run = subprocess.run([ALLOCMARK, *[word.replace("FOLDER", self.folder) for word in words]], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2, (words, run.stdout, run.stderr))
        lines = [line for line in run.stderr.splitlines() if line.startswith("allocmark: ")]
        self.assertEqual(len(lines), 1, (words, run.stderr))
        return lines[0].removeprefix("allocmark: ")

    def test_every_command_says_the_same(self):
        for text, part in BAD:
            wanted = self.told(*COMMANDS[0], "--conf", text)
            self.assertIn(part, wanted)
            self.assertTrue(wanted.startswith(f"--conf '{text}', allocator caching, config string, "), wanted)
            for command in COMMANDS[1:]:
                with self.subTest(command=command[0], text=text):
                    self.assertEqual(self.told(*command, "--conf", text), wanted)

    def test_explain_says_the_same_of_the_only_string_that_it_has(self):
        for text, _ in BAD:
            with self.subTest(text):
                wanted = self.told(*COMMANDS[0], "--conf", text).split("allocator caching, ")[1]
                run = subprocess.run([ALLOCMARK, "explain", text], capture_output=True, text=True)
                self.assertEqual(run.returncode, 2)
                self.assertEqual(" ".join(run.stdout.split()).split(" PyTorch 2.")[0], f"not accepted: {wanted}")

    def test_a_string_that_overruns_pinned_memory_is_warned_of(self):
        commands = (
            ("run", "--workload", "comb", "--device", "sim:h200", "--dry-run", "--allocator", "caching@RELEASE", "--conf"),
            ("run", "-q", "--workload", "comb", "--device", "sim:h200", "--dry-run", "--allocator", "caching@RELEASE", "--conf"),
            ("advise", "comb:count=8", "--search-only", "--pytorch", "RELEASE", "--conf"),
            ("fit", "comb:count=8", "--pytorch", "RELEASE", "--conf"),
            ("explain", "--pytorch", "RELEASE"),
        )
        for text in OVERRUN:
            for command in commands:
                for release, warned in (("2.13", True), ("2.14", False), ("2.15", False)):
                    with self.subTest(command=command[0], text=text, release=release):
                        words = [word.replace("RELEASE", release) for word in command]
                        run = subprocess.run([ALLOCMARK, *words, text], capture_output=True, text=True)
                        self.assertEqual(run.returncode, 0, run.stderr)
                        told = " ".join((run.stdout if command[0] == "explain" else run.stderr).split())
                        self.assertEqual(f"PyTorch {release} overruns pinned host memory" in told, warned, told)

    def test_explain_tells_programs_what_pytorch_makes_of_a_string_that_is_refused(self):
        for text, accepts, aborts, words in (
            ("max_split_size_mb: 6 4", True, False, ""),
            ("max_split_size_mb:10", False, False, "too small, must be >= 20"),
            ("max_split_size_mb=128", False, True, "INTERNAL ASSERT FAILED"),
        ):
            run = subprocess.run([ALLOCMARK, "explain", "--format", "json", "--pytorch", "2.11", text], capture_output=True, text=True)
            found = json.loads(run.stdout)
            self.assertFalse(found["valid"])
            self.assertEqual((found["pytorch"]["accepts"], found["pytorch"]["aborts_import"]), (accepts, aborts))
            self.assertIn(words, found["pytorch"]["error"])

    def test_explain_tells_programs_what_it_tells_people(self):
        told = {}
        for release in ("2.13", "2.15"):
            text = f"{OVERRUN[0]},max_split_size_mb:25"
            run = subprocess.run([ALLOCMARK, "explain", "--format", "json", "--pytorch", release, text], capture_output=True, text=True)
            told[release] = json.loads(run.stdout)
        self.assertIn("PR 192722", told["2.13"]["dangers"][0])
        self.assertEqual(told["2.15"]["dangers"], [])
        self.assertIn("above 24 MiB and below 25 MiB", told["2.15"]["effects"][0])

    def test_a_pasted_line_is_the_string_in_it(self):
        for paste in ("export PYTORCH_CUDA_ALLOC_CONF='{}'", "PYTORCH_ALLOC_CONF={}", "'{}'"):
            text = "max_split_size_mb:5"
            wanted = self.told(*COMMANDS[0], "--conf", text)
            for command in COMMANDS:
                with self.subTest(command=command[0], paste=paste):
                    self.assertEqual(self.told(*command, "--conf", paste.format(text)), wanted)

    def test_what_why_prints_to_unset_the_variable_is_no_config_string(self):
        run = subprocess.run([ALLOCMARK, "explain", "unset PYTORCH_CUDA_ALLOC_CONF"], capture_output=True, text=True)
        plain = subprocess.run([ALLOCMARK, "explain", "unset"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (0, plain.stdout))


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
