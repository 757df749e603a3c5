#!/usr/bin/env python3
"""'why' reads its snapshot once, its processes replay the steps that it made of it without reading any, and it holds little of each
block. Method: the system counts the bytes that a command and its processes read, and the memory of the largest; a second reading, a
file of text beside it or a copy of what is live would show in any of them, however busy the machine is.
Usage: once_test.py PATH_OF_ALLOCMARK
"""
import ctypes
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ALLOCMARK = ""
HERE = Path(__file__).resolve().parent
IN_CREATE, IN_NONBLOCK = 0x100, 0x800
PROCESS_COUNT = 7  # two for PyTorch's allocator, five for others
HEAD_BYTES = 1 << 20  # what is read to see what a file is
OTHER_BYTES = 1 << 18  # profiles and the like, each process anew
LIVE_BLOCK_BYTES_MAX = 220 + 190 * os.cpu_count()  # a replay on each processor; 510 are measured on two


class Used:
    """What a command and all processes that it waited for took."""

    def __init__(self, words, environment):
        pid = os.posix_spawn(ALLOCMARK, [ALLOCMARK, *map(str, words)], {**os.environ, **environment},
                             file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)])
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        _, self.status, usage = os.wait4(pid, 0)
        self.read_bytes, self.memory_bytes = int(counts["rchar"]), usage.ru_maxrss << 10


class Folder:
    """Which files are made in a folder from now on, those that are gone again included."""

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(IN_NONBLOCK)
        assert libc.inotify_add_watch(self.fd, os.fsencode(path), IN_CREATE) >= 0, os.strerror(ctypes.get_errno())

    def made(self):
        names = []
        try:
            text = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            text = b""
        os.close(self.fd)
        while text:
            size = struct.unpack_from("iIII", text)[3]
            names.append(text[16 : 16 + size].rstrip(b"\0").decode())
            text = text[16 + size :]
        return names


class Once(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)

    def snapshot(self, maker, *words):
        path = self.work / f"{words[0]}.pickle"
        said = subprocess.run([sys.executable, maker, path, *map(str, words)], check=True, capture_output=True, text=True).stdout
        return path, said

    def test_a_snapshot_is_read_once_and_its_processes_read_nothing_of_it(self):
        path, _ = self.snapshot(HERE.parents[1] / "workloads/import/large_snapshot.py", 12_000_000)
        temporary = self.work / "temporary"
        temporary.mkdir()
        folder = Folder(temporary)
        used = Used(["why", path], {"TMPDIR": str(temporary)})
        self.assertEqual(used.status, 0)
        self.assertEqual(folder.made(), [])
        wanted = path.stat().st_size + 2 * HEAD_BYTES + PROCESS_COUNT * OTHER_BYTES
        print(f"read {used.read_bytes} bytes, at most {wanted}")
        self.assertLess(used.read_bytes, wanted)

    def test_a_live_block_takes_little_memory(self):
        counts = (20_000, 60_000)
        peaks = [Used(["why", self.snapshot(HERE / "live_snapshot.py", count)[0]], {}).memory_bytes for count in counts]
        grown = (peaks[1] - peaks[0]) / (counts[1] - counts[0])
        print(f"{grown:.0f} bytes of memory for each live block more, at most {LIVE_BLOCK_BYTES_MAX}")
        self.assertLess(grown, LIVE_BLOCK_BYTES_MAX)


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
