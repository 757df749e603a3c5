#!/usr/bin/env python3
"""Goal: rmm_original.py says where RMM's own replay and ours differ. Method: a program in REPLAY_BENCH's place that says and calls what it is
told to, beside the real allocmark; it is no program of CUDA, so its calls come from a launcher of the test's own.

usage: rmm_original_test.py ALLOCMARK
"""
import os
import stat
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/measure/rmm_original.py")
MIB = 1 << 20
LOG = f"""Thread,Time,Action,Pointer,Size,Stream
1,00:00:00.000001,allocate,0x100000000,{3 * MIB},0x20
1,00:00:00.000002,allocate failure,(nil),{9 * MIB},0x20
1,00:00:00.000003,allocate,0x200000000,{10 * MIB},0
1,00:00:00.000004,free,0x100000000,{3 * MIB},0x20
"""
BENCH = """#!/bin/sh
echo "Total Events: 4"
[ -n "$ENDS" ] && { echo "Exception caught: std::bad_alloc: out_of_memory"; exit 0; }
echo "Pool Resource/threads:1          9.30 ms         4.13 ms          193"
"""
LAUNCHER = """#!/bin/sh
{ echo api,arguments; for i in $(seq "$MALLOCS"); do echo cudaMalloc,; done; } > "$SIMCUDA_CALL_LOG"
exec "$@"
"""


class RmmOriginal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.symlink(PROGRAM, os.path.join(self.folder, "allocmark"))
        for name, text in {"log.csv": LOG, "made/gtests/REPLAY_BENCH": BENCH, "simcuda-run": LAUNCHER}.items():
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def replay(self, *options, **variables):
        command = [sys.executable, SCRIPT, "replay", os.path.join(self.folder, "allocmark"), os.path.join(self.folder, "made"),
                   os.path.join(self.folder, "log.csv"), "--resource", "pool", *options]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, timeout=300)

    def test_equal_calls_are_no_difference(self):
        """3 MiB of the device and 10. The failed request is not asked again, which would be a third call."""
        done = self.replay(MALLOCS="2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("| log.csv | pool | 4 | 3 | 2 | 2 | 0 | - | - | nothing |", done.stdout)

    def test_another_count_of_calls_is_named(self):
        done = self.replay(MALLOCS="5")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("cudaMalloc: 5 and 2", done.stdout)

    def test_failures_of_one_side_are_named(self):
        done = self.replay(MALLOCS="2", ENDS="yes")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("only RMM fails", done.stdout)
        done = self.replay("--memory", "0.00293", MALLOCS="2")  # 3 MiB
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("only ours fails", done.stdout)


if __name__ == "__main__":
    unittest.main()
