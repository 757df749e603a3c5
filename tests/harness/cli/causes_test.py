#!/usr/bin/env python3
"""What fills a card is told alike by `run`, `advise` and `trace summary`: the card's context, a limit of the process, another process's
cache, streams, and requests that failed while a log was written.

usage: causes_test.py ALLOCMARK
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ALLOCMARK = ""
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
MIB = 1 << 20


def one_line(text):
    return " ".join(text.split())


class Causes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def trace(self, name, rows):
        return self.path(name, "op,id,size,stream\n" + "\n".join(rows) + "\n")

    def call(self, *words):
        done = subprocess.run([ALLOCMARK, *words], capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return one_line(done.stdout + done.stderr)

    def run_cells(self, workload, *words):
        text = self.call("run", "--workload", workload, "--allocator", "caching", "--passes", "1", "--out", "out", *words)
        with open(os.path.join(self.folder.name, "out", "results.jsonl")) as file:
            cells = [json.loads(line) for line in file]
        return text, [cell for cell in cells if cell["kind"] == "cell"]

    def test_a_job_in_the_contexts_share_is_impossible_for_run_and_advise_alike(self):
        # A card of 1 GiB leaves about half; 700 MiB fit its total and not what is left.
        job = self.trace("last.csv", [f"alloc,{i},{20 * MIB},0" for i in range(1, 36)])
        text, cells = self.run_cells("file:" + job, "--device", "sim:h200,memory=1GiB", "--conf", "unset")
        advice = self.call("advise", job, "--device", "sim:h200,memory=1GiB", "--search-only")
        left = cells[0]["capacity_bytes"]
        self.assertLess(left, 700 * MIB)
        for words in (f"needs 700 MiB live, {left / MIB:.0f} MiB are there", "no setting can help"):
            self.assertIn(words, text)
            self.assertIn(words, advice)

    def test_many_streams_are_no_reason_to_fail(self):
        for count in (13, 40):
            job = self.trace(f"{count}.csv", [f"alloc,{i + 1},{40 * MIB},{i}" for i in range(count)])
            found = subprocess.run([ALLOCMARK, "advise", job, "--search-only", "--format", "json"], capture_output=True,
                                   text=True)
            self.assertEqual(found.returncode, 0, found.stderr)
            settings = {one["conf"]: one for one in json.loads(found.stdout)["settings"]}
            for conf in ("", "expandable_segments:True"):
                self.assertEqual(settings[conf]["oom_count"], 0)
                self.assertIsNotNone(settings[conf]["least_bytes"])

    def test_another_processs_cache_is_named_and_given_back(self):
        holder = self.trace("holder.csv", [f"alloc,1,{600 * MIB},0", "free,1,0,0"] + ["kernel,0,1000,0"] * 64)
        late = self.trace("late.csv", ["kernel,0,1000,0"] * 48 + [f"alloc,1,{600 * MIB},0", "free,1,0,0"])
        both = f"file:{holder} beside file:{late}"
        text, cells = self.run_cells(both, "--capacity", "1GiB", "--conf", "unset")
        self.assertEqual(cells[0]["oom_count_other_process"], 1)
        self.assertIn("process 0 caches 600 MiB; torch.cuda.empty_cache() in process 0 before the request serves all", text)
        advice = json.loads(subprocess.run([ALLOCMARK, "advise", both, "--capacity", "1GiB", "--search-only", "--format",
                                            "json", "--conf", "unset"], capture_output=True, text=True, check=True).stdout)
        self.assertEqual(advice["settings"][0]["oom_count"], 1)

    def test_advise_names_what_helps_beside_settings(self):
        holder = self.trace("holder.csv", [f"alloc,1,{600 * MIB},0", "free,1,0,0"] + ["kernel,0,1000,0"] * 64)
        late = self.trace("late.csv", ["kernel,0,1000,0"] * 48 + [f"alloc,1,{600 * MIB},0", "free,1,0,0"])
        both = self.call("advise", f"file:{holder} beside file:{late}", "--capacity", "1GiB", "--conf", "unset")
        self.assertIn("answer: no setting can help; torch.cuda.empty_cache() in process 0 before the request can", both)
        self.assertIn("process 0 caches 600 MiB", both)
        # 400 MiB of a card of 1 GiB, of which a fraction allows 307 MiB.
        job = self.trace("part.csv", [f"alloc,{i},{20 * MIB},0" for i in range(1, 21)])
        card = ("--device", "sim:h200,memory=1GiB")
        fraction = self.call("advise", job, *card, "--conf", "per_process_memory_fraction:0.3")
        self.assertIn("answer: leave PYTORCH_CUDA_ALLOC_CONF unset", fraction)
        self.assertIn("unset, measured beside them, does", fraction)
        self.assertNotIn("no setting can help", fraction)
        self.assertNotIn("needs at least 400 MiB with per_process_memory_fraction:0.3", fraction)
        self.assertIn("its own live memory fills the limit of the process: 300 MiB live", fraction)
        limited = self.call("advise", job, *card, "--capacity", "200MiB@limit", "--search-only")
        self.assertIn("answer: no setting can help; a higher limit of the process, or none, can", limited)
        self.assertIn("why: needs 400 MiB live, the limit of the process is 200 MiB: no other setting can help; raise the limit "
                      "by 200 MiB", limited)
        # No request of these fits below the limit in one segment; the card has room for all.
        tail = self.trace("tail.csv", [f"alloc,{i},{20 * MIB},0" for i in range(1, 16)] + [f"alloc,16,{4 * MIB},0"])
        text, cells = self.run_cells("file:" + tail, *card, "--conf", "per_process_memory_fraction:0.3")
        self.assertEqual(cells[0]["oom_count_fragmentation"], 1)
        self.assertIn("below the limit of the process, 307 MiB; without it the card leaves", text)

    def test_an_allocator_that_cannot_run_says_why_in_the_answer(self):
        job = self.trace("one.csv", [f"alloc,1,{MIB},0", "free,1,0,0"])
        os.environ["ALLOCMARK_RMM_PLUGIN"] = os.path.join(self.folder.name, "is_not_there.so")
        self.addCleanup(os.environ.pop, "ALLOCMARK_RMM_PLUGIN")
        done = subprocess.run([ALLOCMARK, "run", "--workload", "file:" + job, "--allocator", "rmm", "--device", "sim:h200",
                               "--out", "out"], capture_output=True, text=True, cwd=self.folder.name)
        answer = one_line(done.stdout + done.stderr)
        self.assertRegex(answer, r"nothing was measured: rmm cannot run here: .*is_not_there\.so")
        self.assertIn("No numbers: rmm unset (skipped: rmm cannot run here", answer)

    def test_a_retry_after_the_device_is_done_is_counted_and_serves_what_waits_for_a_stream(self):
        with open(os.path.join(REPOSITORY, "workloads/scenarios/bugs/pending_block_retry.csv")) as file:
            rows = [row for row in file.read().splitlines() if row[:4] not in ("mark", "op,i") and row[:1] != "#"]
        # The last request is the same once more.
        job = self.trace("pending.csv", rows[:-1])
        words = ("--capacity", "1075838976B", "--conf", "unset")
        _, skipped = self.run_cells("file:" + job, *words)
        shutil.rmtree(os.path.join(self.folder.name, "out"))
        _, asked = self.run_cells("file:" + job, *words, "--on-oom", "retry-after-sync")
        self.assertEqual((skipped[0]["oom_count"], asked[0]["oom_count"]), (1, 0))
        self.assertEqual(asked[0]["on_oom"], "retry-after-sync")
        self.assertNotIn("retry_after_sync.asked", skipped[0]["counters"])
        self.assertEqual((asked[0]["counters"]["retry_after_sync.asked"], asked[0]["counters"]["retry_after_sync.served"]), (1, 1))
        self.assertIn("1 of them were served", " ".join(asked[0]["warnings"]))
        self.assertEqual((asked[0]["trial_count"], asked[0]["trial_oom_count"]), (1, 0))

    def test_what_still_fails_after_a_retry_is_a_failure(self):
        job = self.trace("full.csv", [f"alloc,{i},{600 * MIB},0" for i in (1, 2)])
        _, cells = self.run_cells("file:" + job, "--capacity", "1GiB", "--conf", "unset", "--on-oom", "retry-after-sync")
        self.assertEqual(cells[0]["oom_count"], 1)
        self.assertEqual((cells[0]["counters"]["retry_after_sync.asked"], cells[0]["counters"]["retry_after_sync.served"]), (1, 0))

    def test_requests_that_failed_while_a_log_was_written_were_never_live(self):
        rows = ["Thread,Time,Action,Pointer,Size,Stream"]
        for i in range(8):
            rows.append(f"7,10:00:00:{i},allocate,{hex(0x7f0000000000 + i * 64 * MIB)},{50 * MIB},0x0")
            rows.append(f"7,10:00:00:{i},allocate failure,(nil),{2048 * MIB},0x0")
        rows += [f"7,10:00:01:{i},free,{hex(0x7f0000000000 + i * 64 * MIB)},{50 * MIB},0x0" for i in range(8)]
        log = self.path("rmm_log.csv", "\n".join(rows) + "\n")
        self.assertIn(f"requested at peak 400 MiB ({400 * MIB} B)", self.call("trace", "summary", log))
        text, cells = self.run_cells("file:" + log, "--capacity", "1.05x", "--conf", "unset")
        self.assertEqual((cells[0]["capacity_bytes"], cells[0]["oom_count"]), (420 * MIB, 0))
        self.assertEqual((cells[0]["failed_before_count"], cells[0]["failed_again_count"]), (8, 8))
        self.assertNotIn("no setting can help", text)


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
