#!/usr/bin/env python3
"""Tests scripts/record/record_pytorch.py without PyTorch: its conversion on snapshots written by hand, and its recording
against a stand-in for torch whose allocator counts and traces as the real one does."""
import contextlib
import gzip
import io
import os
import pickle
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "record", "record_pytorch.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
import record_pytorch  # noqa: E402
from record_pytorch import Position, RecordError, convert, record  # noqa: E402


def entry(action, addr, size, stream=0):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 1}


def alloc(addr, size, stream=0):
    return [entry("alloc", addr, size, stream)]


def free(addr, size, stream=0):
    return [entry("free_requested", addr, size, stream), entry("free_completed", addr, size, stream)]


def segment(address, stream, blocks, device=0):
    """blocks: (rounded, requested, state)"""
    return {"device": device, "address": address, "stream": stream, "total_size": sum(block[0] for block in blocks),
            "blocks": [{"size": size, "requested_size": requested, "state": state} for size, requested, state in blocks]}


def snapshot(*entries, segments=()):
    return {"segments": list(segments), "device_traces": [[one for group in entries for one in group]]}


def rows(*arguments, **options):
    return convert(*arguments, **options)[0].rows


class Conversion(unittest.TestCase):
    def test_requests_are_unrounded_and_ids_count_up(self):
        made = rows(snapshot(alloc(0x1000, 1000), alloc(0x2000, 7), free(0x1000, 1000), alloc(0x1000, 300)))
        self.assertEqual(made, ["mark,begin,0,0", "alloc,1,1000,0", "alloc,2,7,0", "free,1,0,0", "alloc,3,300,0"])

    def test_a_free_counts_where_it_was_asked_not_where_it_completed(self):
        late = [entry("free_requested", 0x1000, 5), entry("alloc", 0x2000, 6, 0), entry("free_completed", 0x1000, 5)]
        self.assertEqual(rows(snapshot(alloc(0x1000, 5), late))[1:], ["alloc,1,5,0", "free,1,0,0", "alloc,2,6,0"])

    def test_older_blocks_come_first_by_address(self):
        held = segment(0x8000, 0x7f10, [(512, 100, "active_allocated"), (512, 90, "inactive"), (1024, 1024, "active_allocated")])
        made = rows(snapshot(free(0x9000, 77), alloc(0x9000, 5), segments=[held]))
        # 0x8000 and 0x8400 are only in the segments, 0x9000 was freed without an alloc.
        self.assertEqual(made, ["mark,begin,0,0", "alloc,1,100,1", "alloc,2,1024,1", "alloc,3,77,0", "free,3,0,0",
                                "alloc,4,5,0"])

    def test_blocks_waiting_for_events_were_already_given_back(self):
        waiting = segment(0x8000, 0, [(512, 100, "active_pending_free")])
        self.assertEqual(rows(snapshot(alloc(0x1000, 5), segments=[waiting]))[1:], ["alloc,1,5,0"])

    def test_streams_are_dense_and_the_default_stream_is_0(self):
        made, text = convert(snapshot(alloc(0x1000, 1, 0x7fff00), alloc(0x2000, 2, 0x7fff80), alloc(0x3000, 3, 0),
                                      alloc(0x4000, 4, 0x7fff00)))
        self.assertEqual([row.split(",")[3] for row in made.rows[1:]], ["1", "2", "0", "1"])
        self.assertIn("# streams: 3\n", text)

    def test_marks_stand_before_the_request_that_they_precede(self):
        made = rows(snapshot(alloc(0x1000, 1), free(0x1000, 1), alloc(0x1000, 2)),
                    positions=[Position(0, "mark", "a"), Position(2, "mark", "b"), Position(3, "mark", "c")])
        self.assertEqual(made[1:], ["mark,a,0,0", "alloc,1,1,0", "free,1,0,0", "mark,b,0,0", "alloc,2,2,0", "mark,c,0,0"])

    def test_record_names_the_block_that_was_live_there_then(self):
        made = rows(snapshot(alloc(0x1000, 1), free(0x1000, 1), alloc(0x1000, 2)),
                    positions=[Position(1, "record", (0x1000, 0x70)), Position(3, "record", (0x1000, 0x70)),
                               Position(3, "record", (0x5000, 0x70))])
        self.assertEqual(made[1:], ["alloc,1,1,0", "record,1,0,1", "free,1,0,0", "alloc,2,2,0", "record,2,0,1"])

    def test_an_empty_cache_shows_by_releases_that_no_segment_follows(self):
        releases = [entry("segment_free", 0xa000, 2 << 20), entry("segment_unmap", 0xb000, 2 << 20)]
        self.assertEqual(rows(snapshot(alloc(0x1000, 1), releases, alloc(0x2000, 2)))[1:],
                         ["alloc,1,1,0", "empty_cache,0,0,0", "alloc,2,2,0"])
        inside = releases + [entry("segment_alloc", 0xc000, 20 << 20)]
        self.assertEqual(rows(snapshot(alloc(0x1000, 1), inside, alloc(0xc000, 2)))[1:], ["alloc,1,1,0", "alloc,2,2,0"])

    def test_an_empty_cache_that_was_seen_is_not_counted_twice(self):
        releases = [entry("segment_free", 0xa000, 2 << 20)]
        made = rows(snapshot(alloc(0x1000, 1), releases, alloc(0x2000, 2)),
                    positions=[Position(1, "mark", "a"), Position(1, "empty_cache"), Position(1, "mark", "b"),
                               Position(2, "empty_cache")])
        self.assertEqual(made[1:], ["alloc,1,1,0", "mark,a,0,0", "empty_cache,0,0,0", "mark,b,0,0", "alloc,2,2,0",
                                    "empty_cache,0,0,0"])

    def test_a_failed_request_is_marked_and_given_back(self):
        oom = [{"action": "oom", "size": 512, "stream": 0, "device_free": 0, "time_us": 1}]
        made, text = convert(snapshot(alloc(0x1000, 1), [entry("segment_free", 0xa000, 1)], oom, alloc(0x2000, 2)))
        self.assertEqual(made.rows[1:], ["alloc,1,1,0", "alloc,2,512,0,failed", "free,2,0,0", "alloc,3,2,0"])
        self.assertTrue(text.endswith("op,id,size,stream,tensor\nmark,begin,0,0,\nalloc,1,1,0,\nalloc,2,512,0,failed\n"
                                      "free,2,0,0,\nalloc,3,2,0,\n"))
        self.assertIn("# failed: 1 ", text)
        self.assertEqual(made.live_bytes_peak, 3)

    def test_the_peak_is_of_requested_bytes(self):
        self.assertEqual(convert(snapshot(alloc(1, 10), alloc(2, 20), free(1, 10), alloc(3, 5)))[0].live_bytes_peak, 30)

    def test_a_cut_trace_has_so_many_operations_and_says_so(self):
        made, text = convert(snapshot(alloc(1, 10), alloc(2, 20), free(1, 10)), operation_count_max=2)
        self.assertEqual(made.rows, ["mark,begin,0,0", "alloc,1,10,0", "alloc,2,20,0"])
        self.assertIn("# cut: after 2 operations\n", text)
        self.assertNotIn("# cut", convert(snapshot(alloc(1, 10)), operation_count_max=2)[1])

    def test_broken_histories_are_refused(self):
        for broken, word in ((snapshot(alloc(1, 1), alloc(1, 1)), "allocated twice"),
                             (snapshot(alloc(1, 1), free(1, 1), free(1, 1)), "not live"),
                             ({"segments": [], "device_traces": [[]]}, "no history"), ({}, "no history")):
            with self.assertRaisesRegex(RecordError, word):
                convert(broken)
        with self.assertRaisesRegex(RecordError, "holds 1 allocs and frees, the allocator counted 3: the ring overflowed"):
            convert(snapshot(alloc(1, 1)), expected_count=3)

    def test_the_file_is_the_one_that_the_trace_readers_tests_read(self):
        _, text = convert(
            snapshot(alloc(0x1000, 1048576), alloc(0x2000, 512, 0x70), free(0x9000, 4096),
                     [entry("segment_free", 0xa000, 2 << 20)], free(0x1000, 1048576)),
            positions=[Position(0, "mark", "step0"), Position(1, "record", (0x1000, 0x70))], remarks={"name": "by_hand"})
        with open(os.path.join(ROOT, "tests", "golden", "workloads", "recorded_by_hand.ops.csv")) as file:
            self.assertEqual(text, file.read())


class FakeAllocator:
    """Counts and traces as PyTorch's does; `entries_max` is the ring."""

    def __init__(self):
        self.allocated = self.freed = 0
        self.entries, self.entries_max = None, 0
        self.live = {0x100: 640}  # held before anything is recorded

    def record_history(self, enabled, max_entries=0, **_):
        self.entries, self.entries_max = ([], max_entries) if enabled else (None, 0)

    def trace(self, entries):
        if self.entries is not None:
            self.entries = (self.entries + entries)[-self.entries_max:]

    def alloc(self, addr, size):
        self.allocated += 1
        self.live[addr] = size
        self.trace(alloc(addr, size))

    def free(self, addr):
        self.freed += 1
        self.trace(free(addr, self.live.pop(addr)))

    def snapshot(self):
        segments = [segment(addr, 0, [(size, size, "active_allocated")], 1) for addr, size in self.live.items()]
        return {"segments": segments, "device_traces": [[], list(self.entries)], "allocator_settings": {}}


class FakeTensor:
    is_cuda = True

    def __init__(self, addr):
        self.addr = addr

    def get_device(self):
        return 1

    def untyped_storage(self):
        return types.SimpleNamespace(data_ptr=lambda: self.addr)

    def record_stream(self, stream):
        self.seen = stream


class FakeMemPool:
    count = 0

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        FakeMemPool.count += 1
        self.id = (0, FakeMemPool.count)


class FakeGraph:
    """Tells its pool when it was captured, as the real one."""

    def capture_begin(self, pool=None, capture_error_mode="global"):
        self.given = pool or (7, 0)
        self.captured = None

    def capture_end(self):
        self.captured = self.given

    def pool(self):
        if self.captured is None:
            raise RuntimeError("not captured")
        return self.captured

    def replay(self):
        pass

    def reset(self):
        pass


def fake_torch(allocator, available=True, backend="native"):
    """PyTorch with two devices, the second current."""
    torch = types.ModuleType("torch")
    stats = lambda device: {"allocation": {"all": {"allocated": allocator.allocated, "freed": allocator.freed}}}  # noqa: E731
    memory = types.SimpleNamespace(
        _record_memory_history=allocator.record_history, _snapshot=allocator.snapshot, memory_stats_as_nested_dict=stats,
        get_allocator_backend=lambda: backend, empty_cache=lambda: None, MemPool=type("MemPool", (FakeMemPool,), {}),
        **{name: lambda *_: None for name in ("_cuda_beginAllocateCurrentThreadToPool", "_cuda_endAllocateToPool", "_cuda_releasePool")})
    event = lambda **_: types.SimpleNamespace(record=lambda stream: None, elapsed_time=lambda after: 0.0)  # noqa: E731
    torch.cuda = types.SimpleNamespace(
        CUDAGraph=type("CUDAGraph", (FakeGraph,), {}),
        current_stream=lambda device=None: types.SimpleNamespace(cuda_stream=0), Event=event, synchronize=lambda device=None: None,
        memory=memory, is_available=lambda: available, init=lambda: None, current_device=lambda: 1, device_count=lambda: 2,
        empty_cache=memory.empty_cache, get_device_name=lambda device: "a stand-in")
    torch._C = types.SimpleNamespace()
    torch.empty = lambda *_, **__: None
    torch.Tensor = type("Tensor", (FakeTensor,), {})
    torch.__version__ = "2.11.0"
    hooks = []
    optimizer = types.ModuleType("torch.optim.optimizer")

    def register(hook):
        hooks.append(hook)
        return types.SimpleNamespace(remove=lambda: hooks.remove(hook))

    optimizer.register_optimizer_step_post_hook = register
    optimizer.hooks = hooks
    return {"torch": torch, "torch.optim": types.ModuleType("torch.optim"), "torch.optim.optimizer": optimizer}


class Recorded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "t.ops.csv.gz")
        self.allocator = FakeAllocator()
        self.use(fake_torch(self.allocator))

    def use(self, modules):
        saved = {name: sys.modules.get(name) for name in modules}
        sys.modules.update(modules)

        def restore():
            for name, module in saved.items():
                sys.modules.pop(name, None)
                if module is not None:
                    sys.modules[name] = module

        self.addCleanup(restore)
        self.torch = modules["torch"]

    def lines(self):
        with gzip.open(self.path, "rt") as file:
            return [line for line in file.read().splitlines() if not line.startswith("#")][1:]

    def test_a_with_block_is_recorded_with_marks_records_and_empty_cache(self):
        original = self.torch.Tensor.record_stream
        self.allocator.alloc(0x200, 128)
        with record(self.path) as recording:
            recording.mark("step0")
            self.allocator.alloc(0x1000, 1000)
            self.torch.Tensor(0x1000).record_stream(types.SimpleNamespace(cuda_stream=0x70))
            self.allocator.free(0x200)
            self.torch.cuda.empty_cache()
            record_pytorch.mark("step1")
            self.allocator.alloc(0x1400, 9)
        self.assertEqual(self.lines(), ["mark,begin,0,0", "alloc,1,640,0", "alloc,2,128,0", "mark,step0,0,0",
                                        "alloc,3,1000,0", "record,3,0,1", "free,2,0,0", "empty_cache,0,0,0",
                                        "mark,step1,0,0", "alloc,4,9,0"])
        self.assertEqual(recording.converter.live_bytes_peak, 1768)
        self.assertIsNone(self.allocator.entries)
        self.assertIs(self.torch.Tensor.record_stream, original)

    def test_an_overflowed_ring_is_refused_and_nothing_is_written(self):
        with self.assertRaisesRegex(RecordError, "overflowed"), record(self.path, entries_max=3):
            for addr in range(0x1000, 0x1005):
                self.allocator.alloc(addr, 1)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_the_trace_is_written_when_the_program_fails(self):
        with self.assertRaises(ZeroDivisionError), record(self.path):
            self.allocator.alloc(0x1000, 5)
            print(1 // 0)
        self.assertEqual(self.lines()[-1], "alloc,2,5,0")

    def test_a_recording_that_cannot_be_written_does_not_hide_the_programs_own_error(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(ZeroDivisionError), record(self.path, entries_max=3):
            for addr in range(0x1000, 0x1005):
                self.allocator.alloc(addr, 1)
            print(1 // 0)
        self.assertIn("t.ops.csv.gz: not written: the history holds", said.getvalue())
        with record(self.path):  # the failed one has ended
            self.allocator.alloc(0x1000, 5)

    def test_bad_labels_and_nested_recordings_are_refused(self):
        with record(self.path) as recording:
            self.allocator.alloc(0x1000, 5)
            for label in ("", "a,b", "a\nb", "x" * 257):
                with self.assertRaisesRegex(RecordError, "wanted 1 to 256"):
                    recording.mark(label)
            with self.assertRaisesRegex(RecordError, "already recording"), record(self.path):
                pass
        record_pytorch.mark("nobody records")

    def test_a_script_runs_with_its_arguments_and_gets_step_marks(self):
        script = os.path.join(self.folder.name, "program.py")
        with open(script, "w") as file:
            file.write("import sys, record_pytorch\nfrom torch.optim.optimizer import hooks\n"
                       "import torch\nassert sys.argv[1:] == ['--lr', '3'] and __name__ == '__main__'\n"
                       "for step in range(2):\n    torch.allocator.alloc(0x1000 + step, 7)\n"
                       "    for hook in hooks: hook(None, (), {})\nrecord_pytorch.mark('after')\n")
        self.torch.allocator = self.allocator
        argv, path = sys.argv, list(sys.path)
        try:
            record_pytorch.main(["--out", self.path, script, "--lr", "3"])
        finally:
            sys.argv, sys.path[:] = argv, path
        self.assertEqual(self.lines()[2:], ["mark,step0,0,0", "alloc,2,7,0", "mark,step1,0,0", "alloc,3,7,0",
                                            "mark,step2,0,0", "mark,after,0,0"])

    def test_other_allocators_and_missing_devices_are_refused(self):
        for modules, options, word in (
                (fake_torch(self.allocator, available=False), {}, "sees no CUDA device"),
                (fake_torch(self.allocator, backend="cudaMallocAsync"), {}, "keeps no history"),
                (fake_torch(self.allocator), {"device": 2}, "device 2: wanted 0 to 1")):
            self.use(modules)
            with self.assertRaisesRegex(RecordError, word), record(self.path, **options):
                pass


class CommandLine(unittest.TestCase):
    def run_script(self, *arguments, **environment):
        return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                              env={**os.environ, **environment})

    def test_a_pickled_snapshot_becomes_a_trace_and_code_in_it_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            dump, out = os.path.join(folder, "dump.pickle"), os.path.join(folder, "t.csv")
            with open(dump, "wb") as file:
                pickle.dump(snapshot(alloc(0x1000, 5)), file)
            done = self.run_script("--out", out, "--snapshot", dump)
            self.assertEqual((done.returncode, done.stdout), (0, ""))
            self.assertIn("1 operations, 1 allocs, peak 5 requested bytes", done.stderr)
            with open(out) as file:
                self.assertTrue(file.read().endswith("mark,begin,0,0\nalloc,1,5,0\n"))
            for content in (pickle.dumps(os.getcwd), b"", b"not a pickle", pickle.dumps([1])):
                with open(dump, "wb") as file:
                    file.write(content)
                done = self.run_script("--out", out, "--snapshot", dump)
                self.assertEqual(done.returncode, 1)
                self.assertNotIn("Traceback", done.stderr)
            done = self.run_script("--out", os.path.join(folder, "none", "t.csv"), "--snapshot", os.path.join(folder, "no"))
            self.assertIn("not a memory snapshot", done.stderr)

    def test_the_references_are_listed_and_each_failure_leaves_the_others_alone(self):
        script = os.path.join(ROOT, "scripts", "record", "record_references.py")
        done = subprocess.run([sys.executable, script, "--list"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertGreaterEqual(len(done.stdout.splitlines()), 8)
        done = subprocess.run([sys.executable, script, "--only", "bert_mlm"], capture_output=True, text=True)
        self.assertIn("no recording 'bert_mlm': wanted some of gpt2_medium_amp", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "torch.py"), "w") as file:
                file.write("raise ImportError('broken on purpose')\n")
            done = subprocess.run([sys.executable, script, "--out", folder, "--only", "vit_amp,gpt2_bf16_sgd"],
                                  capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folder})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.count("broken on purpose"), 2)
        self.assertIn("0 of 2 recorded", done.stdout)

    def test_wrong_options_are_named(self):
        for arguments, environment, word in (
                (["--out", "t.gz"], {}, "either a program to run or --snapshot"),
                (["--out", "t.gz", "--max-ops", "0", "x.py"], {}, "--max-ops 0: wanted at least 1"),
                (["--out", "t.gz", "/nowhere/x.py"], {}, "/nowhere/x.py: no such script"),
                (["--out", "t.gz", "x.py"], {"WORLD_SIZE": "2"}, "{rank}")):
            done = self.run_script(*arguments, **environment)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(word, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
