#!/usr/bin/env python3
"""planned, as a person runs it: hits of the plan, and a trace that marks no steps."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))


def run(folder, workload, *options):
    subprocess.run([PROGRAM, "run", "-w", workload, *options, "--allocator", "planned", "caching", "--conf", "unset", "--device", "sim:h200",
                    "--passes", "1", "--no-html", "--out", folder], check=False, capture_output=True, timeout=300)
    with open(os.path.join(folder, "results.jsonl"), encoding="utf-8") as file:
        return {cell["allocator"]: cell for cell in map(json.loads, list(file)[1:])}


class Planned(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_steps_after_the_profile_are_hits(self):
        cell = run(os.path.join(self.folder.name, "run"), "train:gpt2-124m,batch=1,seq=128,steps=4")["planned"]
        self.assertEqual(cell["status"], "ok")
        # Of four steps two are profiled, beside what comes before them.
        self.assertEqual(cell["counters"]["plan_hits"], 2 * cell["counters"]["plan_placed"])
        self.assertGreater(cell["counters"]["plan_placed"], 1000)
        self.assertEqual(cell["counters"]["plan_misses"], 0)
        self.assertEqual(cell["counters"]["plan_refusals"], 0)

    def test_plan_that_has_no_room_is_named_in_the_cell(self):
        """A step of 3 GiB is planned. What lives on from the second step then leaves less than that."""
        rows = ["op,id,size,stream"]
        for step in range(5):
            rows += [f"mark,step{step},0,0", f"alloc,{step + 1},{3 << 30},0", f"free,{step + 1},0,0"]
            rows += [f"alloc,99,{2 << 30},0"] if step == 2 else []
        trace = os.path.join(self.folder.name, "room.csv")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("\n".join(rows) + "\n")
        cells = run(os.path.join(self.folder.name, "run"), "file:" + trace, "--capacity", "5.5GiB")
        self.assertEqual(cells["planned"]["status"], "ok")
        self.assertGreater(cells["planned"]["counters"]["plan_refusals"], 0)
        own = [text for text in cells["planned"]["warnings"] if text.startswith("planned: ")]
        self.assertEqual(len(own), 1, own)
        self.assertIn("the plan was refused: there was no room for its reservation of 3.00 GiB", own[0])
        self.assertFalse([text for text in cells["caching"]["warnings"] if "plan" in text])

    def test_trace_that_ends_within_the_profile_is_named_in_the_cell(self):
        cell = run(os.path.join(self.folder.name, "run"), "train:gpt2-124m,layers=2,batch=1,seq=128,steps=1")["planned"]
        self.assertIn("planned: no plan was made: the trace ends within the 3 steps that are profiled", cell["warnings"])

    def test_trace_without_steps_is_skipped_and_others_kept(self):
        trace = os.path.join(self.folder.name, "t.csv")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("op,id,size,stream\nalloc,1,4096,0\nfree,1,0,0\n")
        cells = run(os.path.join(self.folder.name, "run"), "file:" + trace)
        self.assertEqual(cells["caching"]["status"], "ok")
        self.assertEqual(cells["planned"]["status"], "skipped")
        self.assertIn("the trace marks no steps", cells["planned"]["reason"])


if __name__ == "__main__":
    unittest.main()
