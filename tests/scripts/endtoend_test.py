#!/usr/bin/env python3
"""Tests scripts/endtoend/ without PyTorch or a GPU: a stand-in for the process that runs jobs, and one for allocmark."""
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import typing
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "endtoend", "endtoend.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
import compare  # noqa: E402
import endtoend  # noqa: E402
import job_process  # noqa: E402
import predict  # noqa: E402
import summary  # noqa: E402

PEAK = (10 << 30) + 12345
FAKE_ALLOCMARK = """#!{python}
import json, os, sys
arguments = sys.argv[1:]
out = arguments[arguments.index("--out") + 1]
os.makedirs(out)
with open({log!r}, "a") as file:
    file.write(json.dumps(arguments) + "\\n")
confs = [arguments[index + 1] for index, one in enumerate(arguments) if one == "--conf"]
with open(os.path.join(out, "results.jsonl"), "w") as file:
    file.write(json.dumps({{"kind": "run"}}) + "\\n")
    for conf in confs:
        dies = conf == "max_split_size_mb:128"
        file.write(json.dumps(dict(kind="cell", conf="" if conf == "unset" else conf, status="ok", reason="", oom_count=int(dies),
            oom_first={{"event_index": 4}} if dies else None, idle_oom_count=None, retry_count=2, device_allocate_count=5, device_free_count=1,
            reserved_bytes_peak=11 << 30, step_ns_mean=None if dies else 50e6, step_ideal_ns_mean=40e6, allocator_ns_per_step=1e6)) + "\\n")
"""


class FakeServers:
    """What the jobs' processes answer: max_split_size_mb:128 dies in step 1."""

    asked: typing.ClassVar = []

    def ask(self, request):
        self.asked.append(request)
        times = {"total_ms": 400.0, "step_host_ms": [50.0] * 8, "step_device_ms": [50.0] * 8}
        if request["action"] == "record":
            with gzip.open(request["trace"], "wt") as file:
                file.write("# device work: kernels\nop,id,size,stream\nmark,begin,0,0\nmark,step0,0,0\nalloc,1,5,0\nmark,step1,0,0\n"
                           "alloc,2,5,0\nfree,1,0,0\n")
            return {**times, "plain_total_ms": 390.0, "live_peak_bytes": PEAK, "card_bytes": 40 << 30, "operations": 3, "rows": 6,
                    "device_work": "kernels", "torch": "2.11.0+cu130"}
        if request["program"] == "gan":
            return {"error": "broken on purpose"}
        dies = request["setting"] == "max_split_size_mb:128"
        return {**({} if dies else times), "oom_step": 1 if dies else None, "retries": 2, "peak_reserved_bytes": 11 << 30}

    def end(self):
        pass


class EndToEnd(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.out, self.log = folder.name, os.path.join(folder.name, "out"), os.path.join(folder.name, "log")
        self.allocmark = os.path.join(folder.name, "allocmark")
        with open(self.allocmark, "w") as file:
            file.write(FAKE_ALLOCMARK.format(python=sys.executable, log=self.log))
        os.chmod(self.allocmark, 0o755)
        saved, endtoend.Servers = endtoend.Servers, FakeServers
        self.addCleanup(setattr, endtoend, "Servers", saved)
        FakeServers.asked = []

    def run_it(self, *arguments, only="gpt2_varlen", settings="unset;max_split_size_mb:128", limits="1.05x,card"):
        path = os.path.join(self.folder, "printed")
        with open(path, "w") as file:
            saved, sys.stdout = sys.stdout, file
            try:
                endtoend.main(["--out", self.out, "--only", only, "--settings", settings, "--limits", limits, *arguments])
            finally:
                sys.stdout = saved
        with open(path) as file:
            return file.read()

    def rows(self, kind):
        with open(os.path.join(self.out, f"{kind}.jsonl")) as file:
            return [json.loads(line) for line in file]

    def test_a_job_is_recorded_predicted_run_and_compared(self):
        printed = self.run_it("--allocmark", self.allocmark)
        self.assertEqual([request["action"] for request in FakeServers.asked], ["record"] + ["real"] * 4)
        self.assertIn("4 of 4 runs end or die as predicted, in the step predicted", printed)
        self.assertIn("gpt2_varlen at 1.05x max_split_size_mb:128: predicted dies in step 1; real dies in step 1", printed)
        self.assertIn("gpt2_varlen at card unset: predicted ends, 50.0 ms a step; real ends, 50.0 ms a step", printed)

    def test_limits_are_of_the_peak_in_whole_pages_and_the_card_is_what_was_free(self):
        self.run_it("--allocmark", self.allocmark)
        capacity = int(PEAK * 1.05) // (2 << 20) * (2 << 20)
        self.assertEqual([request["capacity_bytes"] for request in FakeServers.asked[1:]], [capacity, capacity, 0, 0])
        with open(self.log) as file:
            asked = [json.loads(line) for line in file]
        self.assertEqual([one[one.index("--capacity") + 1] for one in asked], [f"{capacity}B", f"{40 << 30}B"])
        self.assertIn("caching@2.11", asked[0])

    def test_rows_that_are_there_are_not_made_again_and_failed_runs_are(self):
        self.run_it("--real-only", "--record-only", only="gpt2_varlen,gan")
        count = len(FakeServers.asked)
        self.assertEqual(count, 2 + 2 * 4)
        self.run_it("--real-only", "--record-only", only="gpt2_varlen,gan")
        self.assertEqual({request["program"] for request in FakeServers.asked[count:]}, {"gan"})
        with open(os.path.join(self.out, "real.jsonl"), "a") as file:
            file.write('{"program": "gpt2_va')  # a machine that went down while it wrote
        self.assertEqual(len(endtoend.Rows(self.out, "real").rows), 4 + 2 * 4)

    def test_a_row_behind_one_that_is_cut_stands_on_a_line_of_its_own(self):
        os.makedirs(self.out)
        with open(os.path.join(self.out, "real.jsonl"), "w") as file:
            file.write('{"program": "gpt2_va')
        endtoend.Rows(self.out, "real").add({"program": "gan"})
        self.assertEqual(endtoend.Rows(self.out, "real").rows, [{"program": "gan"}])

    def test_each_part_can_run_alone(self):
        self.run_it("--record-only")
        self.assertEqual(sorted(name for name in os.listdir(self.out) if name.endswith("l")), ["recorded.jsonl"])
        self.run_it("--predict-only", "--allocmark", self.allocmark)
        self.assertEqual(len(FakeServers.asked), 1)
        self.assertEqual([row["oom_step"] for row in self.rows("predicted")], [None, 1, None, 1])
        self.run_it("--real-only")
        self.assertEqual(len(self.rows("real")), 4)

    def test_where_a_run_is_cut_all_programs_are_in_it(self):
        options = endtoend.parse(["--record-only"])
        cells = endtoend.cells(options, ["a", "b"])
        self.assertEqual(cells[:7], [("a", "1.05x", setting) for setting in endtoend.SETTINGS] + [("b", "1.05x", "")])
        self.assertEqual(cells[12:16], [(name, "card", setting) for name in "ab" for setting in ("", "max_split_size_mb:128")])
        self.assertEqual(len(cells), 2 * 3 * 6)

    def test_no_run_begins_when_the_time_is_over(self):
        self.run_it("--record-only")
        printed = self.run_it("--real-only", "--seconds", "-1")
        self.assertIn("no time left; the same command goes on", printed)
        self.assertEqual(len(FakeServers.asked), 1)

    def test_parts_share_the_programs_and_those_of_two_gpus_need_two(self):
        halves = [endtoend.parse(["--record-only", "--part", f"{part}/2"]).names for part in (0, 1)]
        self.assertEqual(sorted(halves[0] + halves[1]), sorted(set(job_process.programs()) - {"ddp_gpt2"}))
        self.assertIn("ddp_gpt2", endtoend.parse(["--record-only", "--gpu", "0,1"]).names)

    def test_a_prediction_that_differs_is_marked(self):
        real = {"program": "a", "limit": "card", "setting": "", "oom_step": None, "retries": 0, "peak_reserved_bytes": 1 << 30}
        text = compare.table([{**real, "oom_step": 3}], [real], ["a"])
        self.assertIn("! a at card unset: predicted dies in step 3; real ends", text)
        self.assertIn("0 of 1 runs", text)

    def test_the_step_of_an_event_is_that_of_the_mark_before_it(self):
        self.assertEqual([predict.step_of(label) for label in ("begin", "step0", "step12", "stepx")], [-1, 0, 12, -1])

    def test_there_are_at_least_24_programs_and_each_says_what_it_does(self):
        programs = job_process.programs()
        self.assertGreaterEqual(len(programs), 24)
        self.assertTrue(all(one.__doc__ and one.__doc__.endswith(".") for one in programs.values()))

    def test_wrong_options_are_named(self):
        for arguments, word in ((["--only", "gpt5"], "no program 'gpt5'"), ([], "--allocmark PATH"),
                                (["--record-only", "--program", "/nowhere/x.py"], "/nowhere/x.py: no such script")):
            done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_where_there_is_no_torch_it_says_so(self):
        with open(os.path.join(self.folder, "torch.py"), "w") as file:
            file.write("raise ImportError('none here')\n")
        done = subprocess.run([sys.executable, SCRIPT, "--out", self.out, "--record-only", "--only", "gan"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": self.folder})
        self.assertEqual(done.returncode, 1)
        self.assertIn("wanted PyTorch with CUDA and transformers for this Python", done.stderr)


PUBLISHED = os.path.join(ROOT, "results", "published", "2026-11-26-h100-end-to-end")


class Summary(unittest.TestCase):
    def test_the_published_pages_are_made_from_their_rows(self):
        for name in ("beside", "alone"):
            made = subprocess.run([sys.executable, summary.__file__, os.path.join(PUBLISHED, "raw", name)], capture_output=True, text=True, check=True)
            with open(os.path.join(PUBLISHED, f"{name}.md"), encoding="utf-8") as file:
                self.assertEqual(made.stdout, file.read())

    def test_what_counts_as_equal(self):
        real = {"setting": "", "oom_step": None, "retries": 2, "device_allocs": 9, "device_frees": 3, "peak_reserved_bytes": 1 << 30}
        self.assertTrue(all(summary.checks(real, dict(real)).values()))
        for key, what in (("retries", "retries"), ("device_frees", "device calls"), ("peak_reserved_bytes", "peak reserved, to the byte")):
            self.assertEqual([name for name, value in summary.checks(real, {**real, key: real[key] + 1}).items() if not value], [what])
        dies = summary.checks(real, {**real, "oom_step": 4})
        self.assertEqual((dies["dies or not"], dies["in which step"], dies["retries"]), (False, False, None))

    def test_how_near_is_near(self):
        for real_ms, said_ms, near in ((0, 1.9, True), (0, 2.1, False), (40, 31, True), (40, 29, False), (-3, -1.1, True)):
            self.assertEqual(summary.is_near(real_ms, said_ms), near, (real_ms, said_ms))

    def test_the_interval_is_the_one_that_the_answer_prints(self):
        with open(os.path.join(ROOT, "results", "answer", "answer.h"), encoding="utf-8") as file:
            stored = re.search(r"kLostOnCard\{([\d., ]+)\}", file.read()).group(1)
        self.assertEqual(tuple(map(float, stored.split(", "))), (summary.LOST_LOW, summary.LOST_HIGH, summary.LOST_STEP_SHARE))
        for real_ms, said_ms, base_ms, inside in ((75, 50, 0, True), (76, 50, 0, False), (39, 50, 0, False), (90, 50, 100, True), (0, 50, 100, False)):
            self.assertEqual(summary.is_in_interval(real_ms, said_ms, base_ms), inside, (real_ms, said_ms, base_ms))


if __name__ == "__main__":
    unittest.main()
