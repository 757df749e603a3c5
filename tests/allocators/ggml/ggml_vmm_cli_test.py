#!/usr/bin/env python3
"""ggml_vmm, as a person runs it: a trace that is a stack, and one that is none."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20


class GgmlVmm(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_rows(self, rows, *options):
        """The cells of ggml_vmm and caching."""
        trace = os.path.join(self.folder.name, "t.csv")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("op,id,size,stream\n" + "\n".join(rows) + "\n")
        out = os.path.join(self.folder.name, "run")
        subprocess.run([PROGRAM, "run", "-w", "file:" + trace, "--allocator", "ggml_vmm", "caching", "--device", "sim:h200", "--passes", "2",
                        "--no-html", "--out", out, *options], check=False, capture_output=True, timeout=300)
        with open(os.path.join(out, "results.jsonl"), encoding="utf-8") as file:
            return {cell["allocator"]: cell for cell in map(json.loads, list(file)[1:])}

    def test_stack_is_served(self):
        """Two streams, whose frees need no order between them; what is left at the end is given back."""
        cell = self.run_rows([f"alloc,1,{3 * MIB},0", f"alloc,2,{MIB},1", "alloc,3,100,0", "free,3,0,0", f"alloc,4,{2 * MIB},0", "free,2,0,0",
                              "free,4,0,0", f"alloc,5,{MIB},0", "alloc,6,0,0", "alloc,7,1,1"])["ggml_vmm"]
        self.assertEqual((cell["status"], cell["oom_count"]), ("ok", 0), cell["reason"])
        # 5 MiB on stream 0, 1 MiB on stream 1, in units of 2 MiB.
        self.assertEqual(cell["reserved_bytes_peak"], 8 * MIB)
        self.assertEqual(cell["allocated_bytes_peak"], 6 * MIB)

    def test_other_order_is_refused_by_event_and_other_cells_kept(self):
        rows = ["alloc,11,4096,0", "alloc,12,4096,0", "free,11,0,0", "alloc,13,4096,0", "free,12,0,0", "free,13,0,0"]
        cells = self.run_rows(rows)
        self.assertEqual(cells["ggml_vmm"]["status"], "skipped")
        self.assertIn("event 2 of the trace frees block 11 before block 12", cells["ggml_vmm"]["reason"])
        self.assertEqual(cells["caching"]["status"], "ok")

    def test_other_order_is_served_where_it_is_asked_for(self):
        rows = [f"alloc,1,{MIB},0", f"alloc,2,{MIB},0", "free,1,0,0", f"alloc,3,{MIB},0", "free,2,0,0", "free,3,0,0"]
        cell = self.run_rows(rows, "--conf", "ggml_vmm=free_order:any")["ggml_vmm"]
        self.assertEqual((cell["status"], cell["conf"]), ("ok", "free_order:any"), cell["reason"])
        self.assertEqual(cell["reserved_bytes_peak"], 4 * MIB)
        self.assertEqual(cell["allocated_bytes_peak"], 2 * MIB)


if __name__ == "__main__":
    unittest.main()
