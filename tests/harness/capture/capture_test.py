#!/usr/bin/env python3
"""`allocmark capture` on programs that end in every way, on simcuda; and replays that must put every block where the program
had it.

usage: capture_test.py ALLOCMARK PROGRAM [TORCH_FOLDER TORCH_PROGRAM TORCH_PLUGIN]
"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ALLOCMARK = PROGRAM = ""
TORCH = []
SCRIPTS = Path(__file__).resolve().parents[3] / "scripts" / "build"


def placements(path):
    """Addresses of a golden after the first one; 'oom' where a request failed."""
    segments, places = {}, []
    for line in Path(path).read_text().splitlines():
        words = line.split()
        if words[0] == "g":
            segments[words[1]] = int(words[2], 16)
        elif words[0] == "a":
            places.append("oom" if words[1] == "oom" else segments[words[1]] + int(words[2], 16))
    first = next(place for place in places if place != "oom")
    return [place if place == "oom" else place - first for place in places]


def caching_of(torch):
    """The allocator by the rules of that PyTorch: "caching@2.11"."""
    return "caching@" + re.search(r"__version__ = '(\d+\.\d+)", Path(torch, "version.py").read_text())[1]


class Capture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        runtime = os.path.join(os.path.dirname(ALLOCMARK), "../lib/simcuda")
        # As in a cell: the first kernel is loaded before the first request.
        self.environment = {**os.environ, "LD_LIBRARY_PATH": runtime, "SIMCUDA_START": "kernel"}

    def capture(self, *words, options=(), out="captured", environment=()):
        return subprocess.run([ALLOCMARK, "capture", "--out", os.path.join(self.folder, out), *options, "--", *words],
                              capture_output=True, text=True, timeout=120, env={**self.environment, **dict(environment)})

    def traces(self, out="captured"):
        return sorted(glob.glob(os.path.join(self.folder, out, "*.ops.csv")))

    def rows(self, path):
        run = subprocess.run([ALLOCMARK, "trace", "validate", path], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return [line.split(",") for line in Path(path).read_text().splitlines() if not line.startswith("#")]

    def count(self, path, operation):
        return sum(row[0] == operation for row in self.rows(path))

    def replayed(self, path, allocator, capacity="unlimited"):
        goldens = os.path.join(self.folder, "goldens")
        run = subprocess.run([ALLOCMARK, "run", "--workload", f"file:{path}", "--allocator", allocator, "--device", "sim:h200",
                              "--capacity", capacity, "--record-placements", goldens, "--out", os.path.join(self.folder, "run")],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return placements(glob.glob(os.path.join(goldens, "*.txt"))[0])

    def test_a_replay_puts_every_block_where_the_program_had_it(self):
        for what, allocator in (("heap", "native"), ("pools", "async")):
            with self.subTest(what):
                self.folder = os.path.join(self.folder, what)
                os.mkdir(self.folder)
                run = self.capture(PROGRAM, what)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("400 requests", run.stderr)
                self.assertEqual([int(line) for line in run.stdout.split()], self.replayed(self.traces()[0], allocator))

    def test_frees_on_another_stream_are_uses_there(self):
        self.capture(PROGRAM, "crosses")
        rows = self.rows(self.traces()[0])
        recorded = [row[1] for row in rows if row[0] == "record"]
        freed = [row[1] for row in rows if row[0] == "free"]
        self.assertGreater(len(freed), 50)
        self.assertEqual(recorded, freed)
        self.assertGreater(sum(row[0] == "sync" for row in rows), 10)

    def events(self, path):
        """Rows as they stand, without the tensor column, the head and marks."""
        return [",".join(row[:4]) for row in self.rows(path) if row[0] not in ("op", "mark")]

    def test_the_memory_of_a_graph_is_a_private_pool(self):
        run = self.capture(PROGRAM, "graphs")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.events(self.traces()[0]), [
            "alloc,1,1048576,1", "pool_begin,1,0,1", "capture_begin,1,0,1", "alloc,2,3145728,1", "alloc,3,5242880,1", "free,2,0,0",
            "capture_end,1,0,1", "pool_end,1,0,0", "graph_replay,1,0,1", "free,3,0,0", "graph_replay,1,0,1", "pool_release,1,0,0", "free,1,0,0"])
        self.assertIn("2 requests were of graphs' own memory", run.stderr)

    def test_what_a_killed_program_had_begun_is_ended(self):
        run = self.capture(PROGRAM, "ends_in_capture")
        self.assertIn("all its whole rows are kept", run.stderr)
        self.assertEqual(self.events(self.traces()[0])[-3:], ["alloc,3,5242880,1", "capture_end,1,0,1", "pool_end,1,0,0"])

    def test_pools_of_the_driver_are_one_and_are_counted(self):
        run = self.capture(PROGRAM, "driver_pools")
        self.assertIn("requests went to 2 pools of the driver", run.stderr)
        self.assertNotIn("pools of the driver", self.capture(PROGRAM, "pools", out="one").stderr)

    def test_pinned_memory_of_the_host_has_rows_of_its_own(self):
        run = self.capture(PROGRAM, "pinned")
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = ["alloc,1,1000,0", "host_alloc,2,3000,0", "host_alloc,3,5000,0", "host_alloc,4,8192,0", "host_free,2,0,0", "host_free,4,0,0"]
        of_pool = ["host_alloc,5,7000,0", "host_free,5,0,0"]  # CUDA 12's headers cannot say where a pool is
        found = self.events(self.traces()[0])
        self.assertEqual([row for row in found if row not in of_pool], [*rows, "free,1,0,0", "host_free,3,0,0"])

    def test_however_it_ends_every_row_is_kept(self):
        for what, code, said in (("exits", 5, ""), ("crashes", 128 + signal.SIGSEGV, "SIGSEGV"),
                                 ("is_killed", 128 + signal.SIGKILL, "all its whole rows are kept")):
            with self.subTest(what):
                run = self.capture(PROGRAM, what, out=what)
                self.assertEqual(run.returncode, code)
                self.assertIn(said, run.stderr)
                self.assertEqual(self.count(self.traces(what)[0], "free"), 400)

    def test_threads_forks_and_closed_descriptors(self):
        for what, counts in (("threads", [1600]), ("fork", [800, 400]), ("vfork", [800]), ("closes", [80400])):
            with self.subTest(what):
                run = self.capture(PROGRAM, what, out=what)
                self.assertEqual(run.returncode, 0, run.stderr)
                found = [self.count(path, "alloc") for path in self.traces(what)]
                self.assertEqual(sorted(found, reverse=True), counts)
                self.assertEqual(found, [self.count(path, "free") for path in self.traces(what)])

    def test_failures_are_requests(self):
        run = self.capture(PROGRAM, "fails")
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = self.rows(self.traces()[0])
        self.assertEqual(rows[-2:], [["alloc", "401", str(1 << 50), "0", "failed"], ["free", "401", "0", "0", ""]])

    def test_a_program_without_requests_leaves_nothing_and_is_told_so(self):
        run = self.capture("true")
        self.assertEqual((run.returncode, self.traces()), (0, []))
        self.assertIn("nothing was recorded", run.stderr)

    def test_a_killed_capture_can_be_finished(self):
        out = os.path.join(self.folder, "captured")
        process = subprocess.Popen([ALLOCMARK, "capture", "--out", out, "--", PROGRAM, "waits"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, env=self.environment)
        self.assertEqual(process.stdout.readline(), "ready\n")
        pid = int(self.traces()[0].rsplit("-", 2)[1])
        process.kill()
        process.wait()
        process.stdout.close()
        finish = [ALLOCMARK, "capture", "--finish", "--out", out]
        run = subprocess.run(finish, capture_output=True, text=True)
        self.assertIn("its process still runs", run.stderr)
        refused = subprocess.run([ALLOCMARK, "trace", "summary", self.traces()[0]], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("allocmark capture --finish", refused.stderr)
        os.kill(pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{pid}/maps") and Path(f"/proc/{pid}/maps").read_text():
            time.sleep(0.01)
        run = subprocess.run(finish, capture_output=True, text=True)
        self.assertIn("all its whole rows are kept", run.stderr)
        self.assertEqual(self.count(self.traces()[0], "free"), 400)

    def test_the_library_alone(self):
        library = os.path.join(os.path.dirname(ALLOCMARK), "../lib/allocmark/liballocmark_capture.so")
        run = subprocess.run([PROGRAM, "heap"], capture_output=True, text=True,
                             env={**self.environment, "LD_PRELOAD": library, "ALLOCMARK_CAPTURE": self.folder})
        self.assertIn("400 requests, 0 of them failed", run.stderr)
        run = subprocess.run([PROGRAM, "heap"], capture_output=True, text=True,
                             env={**self.environment, "LD_PRELOAD": library, "ALLOCMARK_CAPTURE": "/no/such/folder"})
        self.assertEqual((run.returncode, len(run.stdout.split())), (0, 400))
        self.assertIn("nothing is recorded", run.stderr)

    def test_a_program_marks_its_steps(self):
        self.assertEqual(self.capture(PROGRAM, "marks").returncode, 0)
        # The file begins with the first request.
        self.assertEqual([row[1] for row in self.rows(self.traces()[0]) if row[0] == "mark"], ["begin", "step_2"])
        self.assertEqual(subprocess.run([PROGRAM, "marks"], env=self.environment).returncode, 0)

    def test_programs_that_simcuda_run_starts(self):
        launcher = os.path.join(os.path.dirname(ALLOCMARK), "simcuda-run")
        for number, words in enumerate(([PROGRAM, "heap"], ["sh", "-c", f"exec '{PROGRAM}' heap"])):
            run = self.capture(launcher, *words, out=f"launched{number}")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(self.count(self.traces(f"launched{number}")[0], "alloc"), 400)

    def test_mistakes(self):
        os.mkdir(os.path.join(self.folder, "full"))
        Path(self.folder, "full", "file").touch()
        for words, code, said in ((["--out", f"{self.folder}/full", "--", "true"], 2, "not empty"),
                                  (["--out", f"{self.folder}/a", "--", "/no/such/program"], 6, "cannot be started"),
                                  (["--out", f"{self.folder}/b"], 2, "no program"),
                                  (["--finish", "--out", f"{self.folder}/none"], 6, "cannot be read"),
                                  (["--torch", "/no/plugin", "--", "true"], 6, "build_torch_capture.sh")):
            run = subprocess.run([ALLOCMARK, "capture", *words], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout), (code, ""))
            self.assertIn(said, run.stderr)

    def test_pytorchs_allocator(self):
        if not TORCH:
            self.skipTest("needs ALLOCMARK_TORCH_DIR")
        torch, program, plugin = TORCH
        listener = os.path.join(self.folder, "listener.so")
        build = subprocess.run([SCRIPTS / "build_torch_capture.sh", torch, listener], capture_output=True, text=True)
        self.assertEqual(build.returncode, 0, build.stderr)
        trace = os.path.join(self.folder, "gpt2.ops.csv")
        subprocess.run([ALLOCMARK, "trace", "convert", "gpt2_train_amp", trace], check=True, capture_output=True)
        limit = "22830375874"
        run = self.capture(program, plugin, trace, limit, options=("--torch", listener))
        self.assertEqual(run.returncode, 0, run.stderr)
        places = [line if line == "oom" else int(line) for line in run.stdout.split()]
        self.assertEqual((len(places), places.count("oom")), (6803, 3))
        self.assertEqual(places, self.replayed(self.traces()[0], caching_of(torch), f"{limit}B@limit"))
        self.assertEqual(self.count(self.traces()[0], "empty_cache"), 0)
        run = self.capture(program, plugin, trace, limit, out="without")
        self.assertIn("this is PyTorch", run.stderr)

    def test_pytorchs_cache_is_emptied_where_the_program_did_it(self):
        if not TORCH:
            self.skipTest("needs ALLOCMARK_TORCH_DIR")
        torch, program, plugin = TORCH
        listener = os.path.join(self.folder, "listener.so")
        subprocess.run([SCRIPTS / "build_torch_capture.sh", torch, listener], capture_output=True, text=True, check=True)
        rows = ["alloc,1,40000000,0", "free,1,0,0", "empty_cache,0,0,0", "alloc,2,600,0", "free,2,0,0"]
        trace = Path(self.folder, "trace.csv")
        trace.write_text("op,id,size,stream\n" + "\n".join(rows) + "\n")
        for conf in ("", "expandable_segments:True"):
            self.capture(program, plugin, str(trace), "0", options=("--torch", listener), out=f"captured{conf[:3]}",
                         environment={"PYTORCH_CUDA_ALLOC_CONF": conf})
            captured = self.rows(self.traces(f"captured{conf[:3]}")[0])
            self.assertEqual([",".join(row[:4]) for row in captured if row[0] not in ("op", "mark")], rows)

    def test_private_pools_of_pytorch(self):
        if not TORCH:
            self.skipTest("needs ALLOCMARK_TORCH_DIR")
        torch, program, plugin = TORCH
        listener = os.path.join(self.folder, "listener.so")
        subprocess.run([SCRIPTS / "build_torch_capture.sh", torch, listener], capture_output=True, text=True, check=True)
        rows = [
            "pool_create,1,0,0", "pool_no_split,1,0,0", "pool_begin,1,1,0", "alloc,1,40000000,0", "pool_end,1,0,0", "pool_release,1,0,0",
            "alloc,2,40000000,0", "empty_cache,0,0,0",
            # Two graphs in one pool.
            "pool_create,2,0,0", "pool_begin,2,1,0", "capture_begin,2,0,1", "alloc,3,600,1", "free,3,0,0", "alloc,4,5000000,1",
            "capture_end,2,0,1", "pool_end,2,0,0", "graph_replay,2,0,1", "pool_begin,2,1,0", "capture_begin,2,0,1", "alloc,5,3000000,1",
            "capture_end,2,0,1", "pool_end,2,0,0", "graph_replay,2,0,2", "free,4,0,0", "free,5,0,0", "pool_release,2,0,0",
            "pool_release,2,0,0", "pool_release,2,0,0", "empty_cache,2,0,0",
            "pool_on_oom,1,1,0", "pool_on_oom,1,0,0", "free,1,0,0", "pool_release,1,0,0", "empty_cache,1,0,0", "free,2,0,0",
        ]
        trace = Path(self.folder, "trace.csv")
        trace.write_text("op,id,size,stream\n" + "\n".join(rows) + "\n")
        run = self.capture(program, plugin, str(trace), "0", options=("--torch", listener))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.events(self.traces()[0]), rows)
        self.assertNotIn("went to other pools", run.stderr)
        self.assertEqual([int(line) for line in run.stdout.split()], self.replayed(self.traces()[0], caching_of(torch)))

    def test_recording_may_begin_in_mid_run(self):
        if not TORCH:
            self.skipTest("needs ALLOCMARK_TORCH_DIR")
        torch, program, plugin = TORCH
        listener = os.path.join(self.folder, "listener.so")
        subprocess.run([SCRIPTS / "build_torch_capture.sh", torch, listener], capture_output=True, text=True, check=True)
        trace = os.path.join(self.folder, "gpt2.ops.csv")
        subprocess.run([ALLOCMARK, "trace", "convert", "gpt2_train_amp", trace], check=True, capture_output=True)
        late = os.path.join(self.folder, "captured")
        os.mkdir(late)
        library = os.path.join(os.path.dirname(ALLOCMARK), "../lib/allocmark/liballocmark_capture.so")
        run = subprocess.run([program, plugin, trace, "0", late], capture_output=True, text=True,
                             env={**self.environment, "LD_PRELOAD": library, "ALLOCMARK_CAPTURE_TORCH": listener})
        self.assertEqual(run.returncode, 0, run.stderr)
        events = [row for row in self.rows(trace) if row[0] in ("alloc", "free", "mark")]
        before, after = events[:4999], events[4999:]  # it begins before event 5000
        freed = {row[1] for row in before if row[0] == "free"}
        live = [row[2] for row in before if row[0] == "alloc" and row[1] not in freed]
        captured = [row for row in self.rows(self.traces()[0]) if row[0] in ("alloc", "free")]
        self.assertEqual(sorted(row[2] for row in captured[:len(live)]), sorted(live))
        rest = [row for row in after if row[0] != "mark"]
        self.assertEqual([(row[0], row[2]) for row in captured[len(live):]], [(row[0], row[2]) for row in rest])

    def test_pytorch_with_another_backend(self):
        if not TORCH:
            self.skipTest("needs ALLOCMARK_TORCH_DIR")
        torch, program, plugin = TORCH
        listener = os.path.join(self.folder, "listener.so")
        subprocess.run([SCRIPTS / "build_torch_capture.sh", torch, listener], capture_output=True, text=True, check=True)
        trace = os.path.join(self.folder, "infer.ops.csv")
        subprocess.run([ALLOCMARK, "trace", "convert", "bert_varlen_infer", trace], check=True, capture_output=True)
        run = self.capture(program, plugin, trace, "0", options=("--torch", listener),
                           environment={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})
        self.assertIn("another allocator than its native one", run.stderr)
        self.assertEqual(self.count(self.traces()[0], "alloc"), len(run.stdout.split()))


if __name__ == "__main__":
    ALLOCMARK, PROGRAM, *TORCH = sys.argv[1:]
    del sys.argv[1:]
    unittest.main()
