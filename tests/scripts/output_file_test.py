#!/usr/bin/env python3
"""Goal: Python writes a file as base/output_file.h does: a regular file whole or not at all, everything else straight through, and nothing that
is no regular file is ever replaced. Method: each kind of name in a temporary folder; devices are made there, never the machine's own; the
programs are run, too."""
import inspect
import os
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "scripts/record"), str(SOURCE / "scripts/report")]

import output_file  # noqa: E402
import record_pytorch  # noqa: E402


class OutputFileTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)

    def device(self, minor):
        """A null (3) or full (7) device of our own; skips where this user may make none."""
        path = self.root / f"device{minor}"
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            with open(path, "wb"):
                pass
        except OSError:
            self.skipTest("devices cannot be made here")
        return path

    def test_both_copies_are_the_same(self):
        for name in ("descriptor_of", "open_pipe", "open_part", "write_file"):
            self.assertEqual(inspect.getsource(getattr(output_file, name)), inspect.getsource(getattr(record_pytorch, name)), name)

    def test_a_regular_file_is_replaced_and_keeps_its_mode(self):
        path = self.root / "out"
        path.write_bytes(b"old")
        path.chmod(0o640)
        output_file.write_file(path, b"new")
        self.assertEqual((path.read_bytes(), stat.S_IMODE(path.stat().st_mode)), (b"new", 0o640))
        self.assertEqual(os.listdir(self.root), ["out"])

    def test_a_link_stays_and_its_file_is_written(self):
        for target in ("target", "dangling"):
            link = self.root / f"to_{target}"
            link.symlink_to(target)
        (self.root / "target").write_bytes(b"old")
        for target in ("target", "dangling"):
            output_file.write_file(self.root / f"to_{target}", b"new")
            self.assertTrue((self.root / f"to_{target}").is_symlink())
            self.assertEqual((self.root / target).read_bytes(), b"new")
        (self.root / "round").symlink_to("round")
        with self.assertRaises(OSError):
            output_file.write_file(self.root / "round", b"new")

    def test_a_device_stays_a_device(self):
        path = self.device(3)
        link = self.root / "link"
        link.symlink_to(path)
        for name in (path, link):
            output_file.write_file(name, b"new")
        self.assertTrue(stat.S_ISCHR(path.lstat().st_mode))
        self.assertTrue(link.is_symlink())
        with self.assertRaises(OSError):
            output_file.write_file(self.device(7), b"new")

    def test_a_pipe_stays_a_pipe(self):
        path = self.root / "pipe"
        os.mkfifo(path)
        seen = []
        reader = threading.Thread(target=lambda: seen.append(path.read_bytes()))
        reader.start()
        output_file.write_file(path, b"x" * 200_000)
        reader.join()
        self.assertEqual(seen, [b"x" * 200_000])
        self.assertTrue(path.is_fifo())
        with self.assertRaises(OSError):
            os.close(output_file.open_pipe(path, wait_s=0))

    def test_an_open_descriptor_is_written_where_it_stands(self):
        log = self.root / "log"
        code = f"import sys; sys.path.insert(0, {str(SOURCE / 'scripts/report')!r}); import output_file; output_file.write_file('/dev/stdout', b'b')"
        subprocess.run(["sh", "-c", 'printf a; "$@"; printf c', "sh", sys.executable, "-c", code], stdout=log.open("wb"), check=True)
        self.assertEqual(log.read_bytes(), b"abc")

    def test_what_cannot_be_written_leaves_the_old_file_and_no_other(self):
        path = self.root / "out"
        path.write_bytes(b"old")
        code = ("import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
                f"sys.path.insert(0, {str(SOURCE / 'scripts/report')!r}); import output_file; output_file.write_file({str(path)!r}, b'x' * 1000)")
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        self.assertIn(b"OSError", run.stderr)
        self.assertEqual((path.read_bytes(), os.listdir(self.root)), (b"old", ["out"]))
        with self.assertRaises(OSError):
            output_file.write_file(self.root / "no_folder" / "out", b"new")
        with self.assertRaises(OSError):
            output_file.write_file(self.root, b"new")

    def test_what_a_killed_writer_left_is_used_up(self):
        path = self.root / "out"
        code = (f"import os, signal, sys; sys.path.insert(0, {str(SOURCE / 'scripts/report')!r}); import output_file;"
                f"os.replace = lambda *words: os.kill(os.getpid(), signal.SIGKILL); output_file.write_file({str(path)!r}, b'x' * 1000)")
        for _ in range(3):
            self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, -9)
        self.assertEqual(len(os.listdir(self.root)), 1)
        output_file.write_file(path, b"new")
        self.assertEqual((path.read_bytes(), os.listdir(self.root)), (b"new", ["out"]))

    def test_two_writers_do_not_disturb_each_other(self):
        path = self.root / "out"
        part, descriptor = output_file.open_part(str(path))
        os.write(descriptor, b"first")
        output_file.write_file(path, b"second")
        self.assertEqual(path.read_bytes(), b"second")
        self.assertEqual(Path(part).read_bytes(), b"first")
        os.close(descriptor)

    def test_what_somebody_put_there_is_not_written(self):
        (self.root / "mine").write_bytes(b"mine")
        for make in (lambda part: os.symlink(self.root / "mine", part), lambda part: os.link(self.root / "mine", part), os.mkfifo, os.mkdir):
            part = self.root / ".out.part"
            make(part)
            output_file.write_file(self.root / "out", b"new")
            self.assertEqual(((self.root / "out").read_bytes(), (self.root / "mine").read_bytes()), (b"new", b"mine"))
            os.rmdir(part) if part.is_dir() and not part.is_symlink() else os.unlink(part)

    def test_a_folder_that_cannot_be_written_is_told(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        self.root.chmod(0o500)
        self.addCleanup(self.root.chmod, 0o700)
        with self.assertRaises(PermissionError):
            output_file.write_file(self.root / "out", b"new")

    def test_a_recording_leaves_devices_and_links(self):
        link = self.root / "link.csv.gz"
        link.symlink_to("trace.csv.gz")
        record_pytorch.write_trace(str(link), "op,id,size,stream\n")
        self.assertTrue(link.is_symlink())
        path = self.device(3)
        record_pytorch.write_trace(str(path), "op,id,size,stream\n")
        self.assertTrue(stat.S_ISCHR(path.lstat().st_mode))


if __name__ == "__main__":
    unittest.main()
