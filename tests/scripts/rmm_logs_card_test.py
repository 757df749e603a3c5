#!/usr/bin/env python3
"""Goal: rmm_logs_card.py records RMM's logs and says where a replay fails otherwise. Method: a package `rmm` of a few lines, whose resources
refuse what is above a limit as RMM's limiting adaptor does; another limit than the replay's must be seen.

usage: rmm_logs_card_test.py ALLOCMARK
"""
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/measure/rmm_logs_card.py")
STREAM = """
class Stream:
    def __init__(self):
        self.number = id(self)
DEFAULT_STREAM = Stream()
DEFAULT_STREAM.number = 0
"""
MR = """
import os, threading
LIMIT_MB = int(os.environ.get("LIMIT_MB", 0))
class CudaMemoryResource:
    limit = 1 << 62
    def __init__(self, *_):
        self.used, self.next = 0, 1 << 40
    def allocate(self, size, _stream=None):
        rounded = -(-size // 256) * 256
        if self.used + rounded > self.limit:
            raise MemoryError
        self.used, self.next = self.used + rounded, self.next + rounded
        return self.next - rounded
    def deallocate(self, _address, size, _stream):
        self.used -= -(-size // 256) * 256
class LimitingResourceAdaptor(CudaMemoryResource):
    def __init__(self, _, limit):
        super().__init__()
        self.limit = LIMIT_MB << 20 or limit
class LoggingResourceAdaptor:
    def __init__(self, upstream, log_file_name):
        self.upstream, self.name = upstream, log_file_name + ".dev0"
        self.file = open(self.name, "w")
        self.file.write("Thread,Time,Action,Pointer,Size,Stream\\n")
    def write(self, action, address, size, stream):
        self.file.write(f"{threading.get_ident()},00:00:00.0,{action},{hex(address) if address else '(nil)'},{size},{hex(stream.number)}\\n")
    def allocate(self, size, stream):
        try:
            address = self.upstream.allocate(size, stream)
        except MemoryError:
            self.write("allocate failure", 0, size, stream)
            raise
        self.write("allocate", address, size, stream)
        return address
    def deallocate(self, address, size, stream):
        self.write("free", address, size, stream)
        self.upstream.deallocate(address, size, stream)
    def flush(self):
        self.file.flush()
    def get_file_name(self):
        return self.name
def available_device_memory():
    return 100 << 30, 140 << 30
"""
PACKAGE = {"__init__.py": "from rmm import mr\n__version__ = '26.10.00'\n", "mr.py": MR.replace("\\\\n", "\\n"), "pylibrmm/__init__.py": "",
           "pylibrmm/stream.py": STREAM}


class RmmLogsCard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in PACKAGE.items():
            path = os.path.join(self.folder, "package/rmm", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)

    def run_script(self, *arguments, **variables):
        environment = {**os.environ, "PYTHONPATH": os.path.join(self.folder, "package"), **variables}
        return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, env=environment, timeout=300)

    def record(self, names, **variables):
        logs = os.path.join(self.folder, "logs")
        done = self.run_script("record", logs, "--only", names, **variables)
        return logs, done

    def test_the_same_limit_fails_in_the_same_requests(self):
        logs, done = self.record("cuda_limited,cuda_full")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_script("compare", PROGRAM, logs)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 of 2 logs fail here where they failed there.", done.stdout)
        self.assertRegex(done.stdout, r"`resource:cuda,limit_mb:1024` \| 1 \| 1 \| \d+ \| (\d\d+) \| \1 \| 0 \| yes \|")

    def test_another_limit_is_seen(self):
        logs, _ = self.record("cuda_limited", LIMIT_MB="900")
        done = self.run_script("compare", PROGRAM, logs)
        self.assertEqual(done.returncode, 1)
        self.assertIn("**no**", done.stdout)

    def test_a_program_that_ends_early_is_named(self):
        logs, done = self.record("cuda_limited,arena")
        self.assertEqual(done.returncode, 1)
        done = self.run_script("compare", PROGRAM, logs)
        self.assertEqual(done.returncode, 3)
        self.assertIn("| arena |", done.stdout)


if __name__ == "__main__":
    unittest.main()
