#!/usr/bin/env python3
"""Holds the import of PyTorch's snapshots to a second reading of the format: Python's own pickle and the conversion of
scripts/record/record_pytorch.py. Every recorded snapshot, and made-up ones of every protocol, must give the same rows.

usage: import_oracle_test.py ALLOCMARK
"""
import gzip
import os
import pickle
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "record"))
import record_pytorch  # noqa: E402
import snapshot_pools  # noqa: E402

PROGRAM = ""
GOLDENS = os.path.join(ROOT, "tests", "golden", "snapshots")


def imported(path, folder):
    out = os.path.join(folder, "out.csv")
    run = subprocess.run([PROGRAM, "trace", "convert", "--force", path, out], capture_output=True, text=True)
    if run.returncode:
        return None, run.stderr
    with open(out) as file:
        rows = [line.rstrip("\n").rstrip(",") for line in file if not line.startswith(("#", "op,"))]
    # Marks of annotations are ours alone.
    return [row for row in rows if not row.startswith("mark,") or row.startswith("mark,begin,")], run.stderr


def made_up(count, seed):
    draw, live, entries, address = random.Random(seed), {}, [], 0x7f0000000000
    frames = [{"filename": f"f{i}.py", "line": i, "name": f"call{i}"} for i in range(20)]
    stacks = [draw.sample(frames, 5) for _ in range(30)]
    for step in range(count):
        def add(action, addr, size, stream, step=step):
            entries.append({"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 1700000000000000 + step,
                            "frames": draw.choice(stacks), "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0)})
        if live and draw.random() < 0.5:
            addr = draw.choice(list(live)[-50:])
            add("free_requested", addr, *live[addr])
            add("free_completed", addr, *live.pop(addr))
        else:
            address += 1 << 23
            live[address] = (draw.randint(1, 1 << 22), draw.choice([0, 0, 0x55d0c0ffee00]))
            add("alloc", address, *live[address])
    segments = [{"device": 0, "address": addr, "total_size": 1 << 23, "stream": stream, "segment_type": "large",
                 "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                 "blocks": [{"address": addr, "size": 1 << 22, "requested_size": size, "state": "active_allocated", "frames": []},
                            {"address": addr + (1 << 22), "size": 1 << 22, "requested_size": 0, "state": "inactive", "frames": []}]}
                for addr, (size, stream) in live.items()]
    return {"device_traces": [entries[count // 10:]], "segments": segments, "external_annotations": []}


def with_late_frees(snapshot):
    """The same history with each block given back when it became free, where that was not right after its owner gave it back."""
    traces = []
    for entries in snapshot["device_traces"]:
        trace, waiting = [], set()
        for index, entry in enumerate(entries):
            following = entries[index + 1] if index + 1 < len(entries) else {}
            at_once = following.get("action") == "free_completed" and following.get("addr") == entry.get("addr")
            if entry["action"] == "free_requested" and not at_once:
                waiting.add(entry["addr"])
                continue
            asked = index > 0 and entries[index - 1]["action"] == "free_requested" and entries[index - 1]["addr"] == entry.get("addr")
            if entry["action"] == "free_completed" and not asked:
                waiting.discard(entry["addr"])
                trace.append({**entry, "action": "free_requested"})
            trace.append(entry)
        traces.append(trace)
    segments = [{**segment, "blocks": [{**block, "state": block["state"].replace("active_pending_free", "active_allocated")}
                                       for block in segment["blocks"]]} for segment in snapshot["segments"]]
    return {**snapshot, "device_traces": traces, "segments": segments}


# The conversion takes blocks that torch.compile's checkpoint puts back for requests, from the first one on.
WITH_CHECKPOINTS = ("graph_trees", "graph_trees_expandable")


def is_pool_step(row):
    return row.startswith(("pool_", "capture_", "graph_"))


def routed_pools(rows):
    """The pool of each request in turn, "0" for the common one."""
    begun, pools = [], []
    for row in rows:
        step, block, size, stream = (row.split(",") + ["0"] * 4)[:4]
        if step == "pool_begin":
            begun.append((block, size == "1", stream))
        elif step == "pool_end":
            begun = [one for one in begun if one[0] != block]
        elif step == "alloc":
            pools.append(next((pool for pool, everywhere, of in reversed(begun) if everywhere or of == stream), "0"))
    return pools


def of_the_device(rows):
    """The rows without those of pinned memory, which the conversion does not read, numbered as if there had been none."""
    if not any(row.startswith("host_") for row in rows):
        return rows
    numbers, found = {}, []
    for row in rows:
        step, block, rest = row.split(",", 2)
        if step in ("alloc", "free"):
            block = str(numbers.setdefault(block, len(numbers) + 1))
        if not step.startswith("host_"):
            found.append(f"{step},{block},{rest}")
    return found


class Oracle(unittest.TestCase):
    def compare(self, snapshot, path, folder):
        wanted = record_pytorch.convert(with_late_frees(snapshot), 0)[0].rows
        rows, message = imported(path, folder)
        self.assertIsNotNone(rows, message)
        rows = of_the_device(rows)
        if any(map(is_pool_step, rows)):
            self.compare_pools(snapshot, rows, wanted)
            # The conversion knows no pools, so it cannot tell what a trim leaves to them.
            rows, wanted = ([row for row in some if not is_pool_step(row) and not row.startswith("empty_cache")] for some in (rows, wanted))
        # assertEqual would spend minutes on the difference of long lists.
        pairs = enumerate(zip(rows, wanted))
        self.assertIsNone(next(((at, ours, theirs) for at, (ours, theirs) in pairs if ours != theirs), None))
        self.assertEqual(len(rows), len(wanted))

    def compare_pools(self, snapshot, rows, wanted):
        """Requests that the second opinion gives a pool's stand-in stream go to one pool for each of these."""
        stand_in = record_pytorch.convert(snapshot_pools.with_stand_in_streams(with_late_frees(snapshot)), 0)[0].rows
        streams = [(plain.split(",")[3], other.split(",")[3]) for plain, other in zip(wanted, stand_in) if plain.startswith("alloc,")]
        pool_of = {}
        for pool, (plain, other) in zip(routed_pools(rows), streams):
            if plain != other:
                pool_of.setdefault(other, set()).add(pool)
        self.assertNotIn("0", set().union(*pool_of.values()))
        self.assertEqual(len(set().union(*pool_of.values())), len(pool_of))
        self.assertTrue(all(len(pools) == 1 for pools in pool_of.values()), pool_of)

    def test_recorded_snapshots(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in sorted(os.listdir(GOLDENS)):
                if not name.endswith(".pickle.gz") or name.startswith("without_history") or name.split(".")[0] in WITH_CHECKPOINTS:
                    continue
                with self.subTest(name), gzip.open(os.path.join(GOLDENS, name)) as file:
                    self.compare(record_pytorch.PlainUnpickler(file).load(), os.path.join(GOLDENS, name), folder)

    def test_every_protocol_and_old_structures(self):
        with tempfile.TemporaryDirectory() as folder:
            for protocol in (2, 3, 4, 5):
                for drop in ((), ("time_us", "compile_context", "user_metadata", "pool_id"), ("frames",)):
                    snapshot = made_up(3000, protocol)
                    for entry in snapshot["device_traces"][0]:
                        for key in drop:
                            del entry[key]
                    if drop:  # PyTorch 2.0 had no addresses of blocks
                        for segment in snapshot["segments"]:
                            for block in segment["blocks"]:
                                del block["address"]
                    path = os.path.join(folder, "made.pickle")
                    with open(path, "wb") as file:
                        pickle.dump(snapshot, file, protocol=protocol)
                    with self.subTest(protocol=protocol, drop=drop):
                        self.compare(snapshot, path, folder)

    def test_objects_are_refused_and_not_run(self):
        class Evil:
            def __reduce__(self):
                return (os.mkdir, (os.path.join(folder, "it_ran"),))
        with tempfile.TemporaryDirectory() as folder:
            for protocol in (0, 1, 2, 3, 4, 5):
                path = os.path.join(folder, "evil.pickle")
                with open(path, "wb") as file:
                    pickle.dump({"segments": [], "device_traces": [[Evil()]]}, file, protocol=protocol)
                rows, message = imported(path, folder)
                self.assertIsNone(rows)
                self.assertIn("protocol 0 or 1" if protocol < 2 else "GLOBAL", message)
                self.assertFalse(os.path.exists(os.path.join(folder, "it_ran")))


class Sqlite(unittest.TestCase):
    def test_an_export_of_nsight_systems(self):
        import sqlite3
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.sqlite")
            base = sqlite3.connect(path)
            base.execute("create table CUDA_GPU_MEMORY_USAGE_EVENTS (start int, globalPid int, deviceId int, streamId int,"
                         " address int, bytes int, memKind int, memoryOperationType int, name text)")
            base.executemany("insert into CUDA_GPU_MEMORY_USAGE_EVENTS values (?,?,?,?,?,?,?,?,null)",
                             [(30, 9, 0, 7, 4096, 512, 2, 1), (10, 9, 0, 7, 4096, 512, 2, 0), (20, 9, 0, 7, 9, 9, 2, None)])
            base.commit()
            base.close()
            rows, message = imported(path, folder)
            self.assertEqual(rows, ["alloc,1,512,1", "free,1,0,0"], message)
            base = sqlite3.connect(os.path.join(folder, "other.sqlite"))
            base.execute("create table other (a int)")
            base.commit()
            base.close()
            rows, message = imported(os.path.join(folder, "other.sqlite"), folder)
            self.assertIsNone(rows)
            self.assertIn("a database without the table", message)
            self.assertIn("--cuda-memory-usage=true", message)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
