#!/usr/bin/env python3
"""What `allocmark export` writes: a snapshot that Python reads and that keeps the rules of PyTorch's viewer, curves for
Perfetto, intervals for minimalloc.

usage: export_test.py ALLOCMARK
"""
import csv
import gzip
import json
import os
import pickle
import pickletools
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
# What MemoryViz.js knows: protocol 4 at most, and these opcodes.
VIEWER = set("PROTO FRAME MARK STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE "
             "EMPTY_LIST APPEND APPENDS LIST EMPTY_DICT SETITEM SETITEMS DICT EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 MEMOIZE "
             "BINPUT LONG_BINPUT BINGET LONG_BINGET".split())


class Export(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_export(self, name, *words, workload="fuzz_r1"):
        path = os.path.join(self.folder.name, name)
        run = subprocess.run([PROGRAM, "export", workload, path, *words], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return path

    def test_an_rmm_log_comes_back_as_the_same_requests(self):
        # Failures, several streams, and marks that the log cannot hold.
        rows = ["op,id,size,stream", "alloc,1,1000,0", "alloc,2,7,1", "free,1,0,0", "alloc,3,0,1", "free,3,0,0", "free,2,0,0"]
        source, back = os.path.join(self.folder.name, "t.csv"), os.path.join(self.folder.name, "back.csv")
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(rows) + "\n")
        path = self.run_export("t.rmm.csv", workload=source)
        with open(path, encoding="utf-8") as file:
            table = list(csv.DictReader(file))
        self.assertEqual([row["Action"] for row in table], ["allocate", "allocate", "free", "allocate", "free", "free"])
        self.assertEqual([row["Stream"] for row in table], ["0", "0x1", "0", "0x1", "0x1", "0x1"])
        self.assertEqual(table[0]["Pointer"], table[2]["Pointer"])
        self.assertRegex(table[5]["Time"], r"^\d\d:\d\d:\d\d\.000005$")
        subprocess.run([PROGRAM, "trace", "convert", path, back], check=True, capture_output=True)
        with open(back, encoding="utf-8") as file:
            self.assertEqual([line.split(",")[:4] for line in file.read().split("\n") if line and not line.startswith(("#", "op"))],
                             [row.split(",") for row in rows[1:]])
        run = subprocess.run([PROGRAM, "export", source, path, "--force", "--memory", "1GiB"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("depend on no setting", run.stderr)

    def test_a_snapshot_keeps_the_viewers_rules(self):
        for conf in ("unset", "expandable_segments:True"):
            with open(self.run_export(f"{conf[:5]}.pickle", "--conf", conf), "rb") as file:
                data = file.read()
            self.assertEqual(data[:2], b"\x80\x04")
            self.assertLessEqual({opcode.name for opcode, _, _ in pickletools.genops(data)}, VIEWER)
            snapshot = pickle.loads(data)
            in_use = set()
            for segment in snapshot["segments"]:
                address = segment["address"]
                for block in segment["blocks"]:
                    self.assertEqual(block["address"], address)
                    address += block["size"]
                    if block["state"] != "inactive":
                        in_use.add(block["address"])
                self.assertEqual(address, segment["address"] + segment["total_size"])
            live = set()
            for entry in snapshot["device_traces"][0]:
                if entry["action"] == "alloc":
                    self.assertNotIn(entry["addr"], live)
                    live.add(entry["addr"])
                elif entry["action"] == "free_completed":
                    live.remove(entry["addr"])
            self.assertEqual(live, in_use)
            self.assertEqual(snapshot["allocator_settings"]["expandable_segments"], conf != "unset")

    def test_why_reproduces_what_was_exported(self):
        path = self.run_export("s.pickle.gz", "--memory", "20800MiB", workload="gpt2_train_amp")
        run = subprocess.run([PROGRAM, "why", path, "--format", "json"], capture_output=True, text=True)
        answer = json.loads(run.stdout)
        self.assertTrue(answer["self_check_complete"], run.stdout)
        self.assertGreater(answer["oom_count"], 0)

    def test_a_kernel_that_the_host_waited_for_has_ended(self):
        # Block 1 waits for stream 1, whose kernel has no end. Only its memory serves block 2: the host waits. After that stream 1 is idle.
        rows = ["alloc,1,41943040,0", "record,1,0,1", "busy,0,0,1", "free,1,0,0", "alloc,2,62914560,0", "alloc,3,2097152,0", "record,3,0,1", "free,3,0,0",
                "alloc,4,1000,0"]
        trace = os.path.join(self.folder.name, "waits.csv")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("op,id,size,stream\n" + "\n".join(rows) + "\n")
        with open(self.run_export("w.pickle", "--memory", "96MiB", workload=trace), "rb") as file:
            entries = pickle.load(file)["device_traces"][0]
        frees = [(entry["action"], entry["size"]) for entry in entries if entry["action"].startswith("free_")]
        self.assertEqual(frees, [("free_requested", 41943040), ("free_completed", 41943040), ("free_requested", 2097152), ("free_completed", 2097152)])

    def test_perfetto(self):
        with gzip.open(self.run_export("p.json.gz")) as file:
            events = json.load(file)["traceEvents"]
        names = {event["name"] for event in events}
        self.assertLessEqual({"reserved", "live (requested)", "reserved, not live"}, names)
        peaks = {name: max((event["args"]["bytes"] for event in events if event["name"] == name), default=0) for name in names
                 if name != "process_name"}
        self.assertGreaterEqual(peaks["reserved"], peaks["live (requested)"])

    def test_minimalloc(self):
        with open(self.run_export("m.csv")) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(list(rows[0]), ["id", "lower", "upper", "size"])
        self.assertEqual(len({row["id"] for row in rows}), len(rows))
        self.assertTrue(all(int(row["lower"]) < int(row["upper"]) for row in rows))

    def test_endings_and_sizes_are_checked(self):
        for words, phrase in ((("out.txt",), ".pickle, .json or .csv"), (("out.csv", "--memory", "24"), "24GiB or 24B"),
                              (("out.csv", "--conf", "backend:cudaMallocAsync"), "keeps no history")):
            path = os.path.join(self.folder.name, words[0])
            run = subprocess.run([PROGRAM, "export", "fuzz_1", path, *words[1:]], capture_output=True, text=True)
            self.assertEqual(run.returncode, 2)
            self.assertIn(phrase, run.stderr)
            self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
