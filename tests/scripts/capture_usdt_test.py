#!/usr/bin/env python3
"""scripts/record/capture_usdt.py: what the lines of its bpftrace program become, and whether bpftrace takes that program. Listening
itself needs a kernel with uprobes and a PyTorch, and is not tested here.

usage: capture_usdt_test.py
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "record" / "capture_usdt.py"
# Two processors' lines come in blocks; the second free is of a block that was live before; GPU 1 has one request.
LINES = """Attaching 2 probes...
m 100 7f0000000000 0 1000 0
m 300 7f0000200000 0 5000 55aa
f 350 7e0000000000
m 120 6f0000000000 1 77 0
f 130 6f0000000000
f 200 7f0000000000
m 400 7f0000000000 0 2000 0
"""
ROWS = ["alloc,1,1000,0", "free,1,0,0", "alloc,2,5000,1", "alloc,3,2000,0"]


# The two probes of a libc10_cuda.so, as the linker leaves them.
PROBES = """.section .note.GNU-stack
.text
.weak _.stapsdt.base
_.stapsdt.base: .space 1
""" + "".join(f"""99{number}: nop
.section .note.stapsdt,"","note"
.balign 4
.4byte 992{number}f-991{number}f, 994{number}f-993{number}f, 3
991{number}: .asciz "stapsdt"
992{number}: .balign 4
993{number}: .8byte 99{number}b, _.stapsdt.base, 0
.asciz "pytorch"
.asciz "{name}"
.asciz "{arguments}"
994{number}: .balign 4
.text
""" for number, (name, arguments) in enumerate([("malloc", "-8@%rbp -1@%al -8@%r12 -8@56(%rsp)"), ("free", "-8@%rdi")]))


class Program(unittest.TestCase):
    @unittest.skipUnless(shutil.which("bpftrace") and shutil.which("gcc") and os.geteuid() == 0, "needs bpftrace, gcc and root")
    def test_bpftrace_parses_it_and_finds_all_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder, "libc10_cuda.so")
            subprocess.run(["gcc", "-shared", "-x", "assembler", "-", "-o", library], input=PROBES, text=True, check=True)
            program = subprocess.run([sys.executable, SCRIPT, "--print", library], capture_output=True, text=True, check=True).stdout
            # The code is generated and shown; nothing is attached.
            run = subprocess.run(["bpftrace", "-dd", "-e", program], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout[-2000:] + run.stderr)
        self.assertIn("usdt:", run.stdout)
        self.assertNotIn("ERROR: Could not", run.stderr)


class Convert(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name, "t.ops.csv")

    def convert(self, text, *words):
        return subprocess.run([sys.executable, SCRIPT, "--from", "-", "--out", self.out, *words], input=text, capture_output=True,
                              text=True)

    def rows(self):
        return [line for line in self.out.read_text().splitlines() if not line.startswith(("#", "op,", "mark,"))]

    def test_lines_become_rows_in_the_order_of_time(self):
        run = self.convert(LINES)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.rows(), ROWS)
        self.assertIn("1 frees of blocks that were live before are left out", run.stdout)
        self.assertIn("# streams: 2", self.out.read_text())

    def test_another_device(self):
        self.assertEqual(self.convert(LINES, "--device", "1").returncode, 0)
        self.assertEqual(self.rows(), ["alloc,1,77,0", "free,1,0,0"])

    def test_bad_lines_are_named_and_nothing_is_written(self):
        for text, said in (("m 1 2 3\n", "line 1"), ("", "no request was seen"), ("stdin:1: ERROR\n", "line 1"),
                           ("m 1 aa 0 8 0\nm 2 aa 0 8 0\n", "allocated twice")):
            run = self.convert(text)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn(said, run.stderr)
            self.assertFalse(self.out.exists())

    def test_processes_that_cannot_be_listened_to(self):
        for pid, said in (("999999999", "run as root"), (str(self.sleeper()), "has loaded no libc10_cuda.so")):
            run = subprocess.run([sys.executable, SCRIPT, "--pid", pid, "--out", self.out], capture_output=True, text=True)
            self.assertEqual(run.returncode, 2)
            self.assertIn(said, run.stderr)

    def sleeper(self):
        process = subprocess.Popen(["sleep", "60"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process.pid

    def test_the_program_names_both_probes_of_the_library(self):
        run = subprocess.run([sys.executable, SCRIPT, "--print", "/lib/libc10_cuda.so"], capture_output=True, text=True)
        self.assertIn("usdt:/lib/libc10_cuda.so:pytorch:malloc { printf(\"m %llu %llx %d %llu %llx\\n\", nsecs,", run.stdout)
        self.assertIn("usdt:/lib/libc10_cuda.so:pytorch:free {", run.stdout)


if __name__ == "__main__":
    unittest.main()
