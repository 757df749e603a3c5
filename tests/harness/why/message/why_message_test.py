#!/usr/bin/env python3
"""`allocmark why` on pasted messages: what is text and what is a snapshot, standard input, formats, errors, large files; and the
verdict against what `allocmark run` says of the same situation.

usage: why_message_test.py ALLOCMARK
"""
import bz2
import gzip
import json
import lzma
import os
import pty
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ALLOCMARK = ""
SNAPSHOT = "tests/golden/snapshots/train_oom.pickle.gz"
MIB = 1 << 20
CACHED = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total capacity of 15.77 GiB of "
          "which 514.19 MiB is free. Of the allocated memory 13.73 GiB is allocated by PyTorch, and 736.86 MiB is reserved by "
          "PyTorch but unallocated.")
FULL = CACHED.replace("546.00 MiB", "2.00 GiB")


def message(asked, total, free, allocated, unallocated):
    """As PyTorch writes it; sizes in MiB."""
    return (f"CUDA out of memory. Tried to allocate {asked}.00 MiB. GPU 0 has a total capacity of {total}.00 MiB of which "
            f"{free}.00 MiB is free. Of the allocated memory {allocated}.00 MiB is allocated by PyTorch, and {unallocated}.00 MiB "
            "is reserved by PyTorch but unallocated.")


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, text, name="oom.txt"):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def why(self, *words, code=0, text=None):
        run = subprocess.run([ALLOCMARK, "why", *words], capture_output=True, input=text)
        self.assertEqual(run.returncode, code, run.stderr.decode()[-2000:])
        return (run.stdout if code == 0 else run.stderr).decode()

    def facts(self, text):
        return json.loads(self.why(self.file(text), "--format", "json"))


class Formats(Base):
    def test_the_answer_is_first_and_what_to_set_last(self):
        lines = self.why(self.file(CACHED)).splitlines()
        self.assertIn("fragmentation is possible, not sure", " ".join(lines[:4]))
        self.assertEqual(lines[-1], "To try: export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
        self.assertEqual(self.why(self.file(FULL)).splitlines()[-1], "To set: nothing; no setting of the allocator can help here.")

    def test_json_has_every_figure_with_its_meaning(self):
        facts = self.facts(CACHED)
        self.assertEqual((facts["kind"], facts["cause"], facts["setting_can_help"], facts["setting_to_try"]),
                         ("message", "fragmentation_possible", "possible", "expandable_segments:True"))
        self.assertEqual([(one["name"], one["printed"]) for one in facts["figures"]],
                         [("asked", "546.00 MiB"), ("total", "15.77 GiB"), ("free", "514.19 MiB"), ("allocated", "13.73 GiB"),
                          ("unallocated", "736.86 MiB")])
        self.assertEqual(facts["figures"][0]["bytes"], 546 * MIB)
        self.assertTrue(all(one["meaning"] for one in facts["figures"]))
        full = self.facts(FULL)
        self.assertEqual((full["cause"], full["setting_to_try"]), ("too_big", None))
        self.assertAlmostEqual(full["must_go_bytes"] / MIB, 2048 - 514.19 - 736.86, delta=0.02)

    def test_markdown_has_the_answer_a_table_and_lines_to_paste(self):
        text = self.why(self.file(CACHED), "--format", "markdown")
        self.assertIn("| figure | as printed | what it is |", text)
        self.assertIn("| asked | 546.00 MiB | what the failed request needed |", text)
        self.assertIn("```\ntorch.cuda.memory._record_memory_history", text)
        self.assertIn("fragmentation is possible", text.splitlines()[0])

    def test_ranks_that_differ_are_told_below_the_first(self):
        text = self.why(self.file(f"[rank0]: {CACHED}\n[rank1]: {CACHED}\n[rank2]: {FULL}\n"))
        self.assertIn("line 1, 2 times", text)
        self.assertIn("Other messages in this text", text)
        self.assertIn("line 3", text)


class Inputs(Base):
    def test_standard_input_and_packed_files_are_read(self):
        self.assertIn("standard input: a request of 546.00 MiB", self.why("-", text=CACHED.encode()))
        self.assertIn("546.00 MiB", self.why(self.file(gzip.compress(CACHED.encode()), "log.gz")))
        self.assertIn("546.00 MiB", self.why(self.file(CACHED.encode("utf-16"), "powershell.log")))

    def test_the_message_itself_may_stand_for_a_file(self):
        self.assertIn("the message: a request of 546.00 MiB", self.why(CACHED))
        self.assertEqual(json.loads(self.why(CACHED, "--format", "json"))["cause"], "fragmentation_possible")
        self.assertIn("546.00 MiB", self.why(f"Traceback (most recent call last):\n  File x\n{CACHED}\n"))
        self.assertIn("paste the whole error", self.why("Traceback (most recent call last):\nRuntimeError: 3", code=2))
        # A file of that name comes first.
        self.assertIn("nor a text with an out-of-memory message", self.why(self.file("step 3\n", "Tried to allocate 2.00 GiB"), code=2))

    def test_a_person_may_paste_at_a_terminal_and_end_with_ctrl_d(self):
        terminal, end = pty.openpty()
        run = subprocess.Popen([ALLOCMARK, "why", "-"], stdin=end, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(end)
        os.write(terminal, (CACHED[:300] + "\n" + CACHED[300:] + "\n").encode())
        os.write(terminal, b"\x04")
        out, err = run.communicate(timeout=60)
        os.close(terminal)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn(b"fragmentation is possible", out)
        self.assertIn(b"Ctrl-D", err)

    def test_a_silent_pipe_is_waited_for_and_a_terminal_is_told(self):
        terminal, end = pty.openpty()
        run = subprocess.Popen([ALLOCMARK, "why", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=end)
        os.close(end)
        self.assertEqual(os.read(terminal, 1000).decode().strip(), "waiting for a text on standard input")
        text = run.communicate(b"CUDA out of memory. Tried to allocate 2.00 GiB\n")[0].decode()
        os.close(terminal)
        self.assertEqual(run.returncode, 0)
        self.assertIn("2.00 GiB", text)

    def test_a_text_without_a_message_says_what_was_looked_for(self):
        for content in (b"", b"step 3 loss 0.25\n", bytes(range(256)) * 40, b"(dp0 is how some pickles begin"):
            error = self.why(self.file(content), code=2)
            self.assertTrue("Tried to allocate" in error or "pickle" in error, error)
        self.assertIn("standard input", self.why("-", code=2, text=b"nothing of this kind"))
        self.why("there is no such file", code=6)
        self.why(str(self.folder), code=6)

    def test_options_of_a_snapshot_are_refused(self):
        for words in (["--memory", "24GiB"], ["--conf", "unset"], ["--pytorch", "2.11"], ["--out", str(self.folder / "page.html")]):
            self.assertIn("needs a memory snapshot", self.why(self.file(CACHED), *words, code=2))

    def test_a_snapshot_is_no_text_even_where_it_is_piped(self):
        self.assertIn("self-check", self.why(SNAPSHOT))
        self.assertIn("a snapshot cannot be read from standard input",
                      self.why("-", code=2, text=gzip.decompress(Path(SNAPSHOT).read_bytes())))

    def test_a_file_that_cannot_be_read_to_its_end_or_is_json_says_so(self):
        packed = gzip.compress(Path(SNAPSHOT).read_bytes() + CACHED.encode())
        (self.folder / "cut.log").write_bytes(packed[:-200])
        self.assertIn("end in mid-stream", self.why(str(self.folder / "cut.log"), code=2))
        self.assertIn("pickle.dump(json.load", self.why(self.file('{"segments": [], "device_traces": []}'), code=2))
        (self.folder / "oom.pickle").write_bytes(Path(SNAPSHOT).read_bytes())
        self.assertIn("self-check", self.why(str(self.folder / "oom.pickle")))  # packed, and its name does not say so

    def test_a_message_of_a_file_that_is_cut_comes_with_the_damage(self):
        # What does not pack well, so that the message is not in what is cut.
        path = self.file(gzip.compress(CACHED.encode() + b"\n" + random.Random(3).randbytes(100_000).hex().encode())[:-5000], "cut.gz")
        self.assertIn("Not all of the text was read: the gzip data end in mid-stream.", self.why(path))
        self.assertEqual(json.loads(self.why(path, "--format", "json"))["damage"], "the gzip data end in mid-stream")
        self.assertEqual(self.facts(CACHED)["damage"], "")

    def test_a_file_that_another_program_packed_is_named(self):
        self.assertIn("xz -d", self.why(self.file(lzma.compress(CACHED.encode()), "log.xz"), code=2))
        self.assertIn("bzip2 -d", self.why(self.file(bz2.compress(CACHED.encode()), "log.bz2"), code=2))

    def test_a_message_is_found_at_the_end_of_a_log_of_many_megabytes(self):
        path = self.folder / "big.log"
        line = b"2026-11-25 13:00:00 INFO step 1 loss 2.5 memory allocated 12.1 GiB, cache 3 blocks failed 0\n"
        with open(path, "wb") as file:
            for _ in range(24):
                file.write(line * (MIB // len(line)))
            file.write(CACHED.encode() + b"\n")
        facts = json.loads(self.why(str(path), "--format", "json"))
        self.assertEqual((facts["line"], facts["cause"]), (24 * (MIB // len(line)) + 1, "fragmentation_possible"))

    def test_terminal_marks_of_a_text_do_not_come_through(self):
        out = self.why(self.file("\x1b]0;title\x07" + CACHED.replace("GPU 0", "GPU \x1b[31m0\x1b[0m")))
        self.assertNotIn("\x1b", out)


class Agreement(Base):
    """A job of a few blocks, by `advise` on its trace and by `why` on the message that PyTorch would leave there."""

    def failures(self, steps, capacity):
        path = self.file("op,id,size,stream\n" + "\n".join(steps) + "\n", "job.csv")
        run = subprocess.run([ALLOCMARK, "advise", path, "--capacity", f"{capacity}MiB", "--format", "json", "--conf", "unset",
                              "--conf", "expandable_segments:True", "--search-only"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return {one["conf"]: one["oom_count"] for one in json.loads(run.stdout)["settings"]}

    def test_what_no_setting_serves_is_not_told_to_be_possible(self):
        # 400 MiB stay, 600 are asked of 900.
        failures = self.failures([f"alloc,1,{400 * MIB},0", f"alloc,2,{600 * MIB},0", "free,2,0,0", "free,1,0,0"], 900)
        self.assertTrue(all(count > 0 for count in failures.values()), failures)
        facts = self.facts(message(600, 900, 500, 400, 0))
        self.assertEqual((facts["cause"], facts["must_go_bytes"]), ("too_big", 100 * MIB))

    def test_what_expandable_segments_serve_is_told_to_be_possible(self):
        # Four segments of 200 MiB, of which the second half of each is free: no free block is larger than 100 MiB.
        halves = range(10, 18)
        steps = [f"alloc,{block},{200 * MIB},0" for block in range(4)] + [f"free,{block},0,0" for block in range(4)]
        steps += [f"alloc,{block},{100 * MIB},0" for block in halves] + [f"free,{block},0,0" for block in halves if block % 2]
        steps += [f"alloc,100,{300 * MIB},0", "free,100,0,0"] + [f"free,{block},0,0" for block in halves if block % 2 == 0]
        failures = self.failures(steps, 900)
        self.assertGreater(failures[""], 0)
        self.assertEqual(failures["expandable_segments:True"], 0)
        facts = self.facts(message(300, 900, 100, 400, 400))
        self.assertEqual((facts["cause"], facts["setting_to_try"]), ("fragmentation_possible", "expandable_segments:True"))


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
