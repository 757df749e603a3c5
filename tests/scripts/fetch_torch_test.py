#!/usr/bin/env python3
"""Goal: scripts/build/fetch_torch.sh takes what it should from a wheel, and says of every wheel that cannot serve why not.

Method: small wheels made here; no network is asked, and nothing is compiled but where a wheel is whole.
"""
import base64
import contextlib
import hashlib
import io
import platform
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
OWN_MACHINE = {"x86_64": 62, "aarch64": 183}[platform.machine()]
OTHER_MACHINE = 183 if OWN_MACHINE == 62 else 62
sys.path.insert(0, str(ROOT / "scripts" / "build"))
import torch_wheel  # noqa: E402


def library(machine=OWN_MACHINE, runtime=b"libcudart.so.13"):
    return b"\x7fELF" + bytes(14) + struct.pack("<H", machine) + bytes(44) + runtime


def wheel(folder, version="2.13.0+cu130", cuda="'13.0'", libraries=("libc10.so", "libc10_cuda.so"), machine=OWN_MACHINE, extra=()):
    path = Path(folder) / "torch.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch/version.py", f"__version__ = '{version}'\ncuda: Optional[str] = {cuda}\n")
        for name in libraries:
            archive.writestr(f"torch/lib/{name}", library(machine))
        archive.writestr("torch/include/c10/core/Allocator.h", "// a header\n")
        archive.writestr("torch/include/ATen/core/CachingHostAllocator.h", "// a header\n")
        archive.writestr("torch/include/ATen/core/Tensor.h", "// a header\n")
        archive.writestr("torch/lib/libtorch_cuda.so", bytes(1000))
        for name in extra:
            archive.writestr(name, "")
    return path


def hashed(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def fetch(*arguments):
    ran = subprocess.run([ROOT / "scripts/build/fetch_torch.sh", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return ran.returncode, ran.stdout + ran.stderr


class FetchTorch(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.folder = Path(self.place.name)

    def refused(self, path, text, version="2.13.0"):
        code, said = fetch("--into", self.folder / "into", "--wheel", path, version)
        self.assertEqual(code, 2, said)
        self.assertIn(text, said)
        self.assertFalse((self.folder / "into" / version).exists(), "a release that cannot serve was left there")

    def test_takes_two_libraries_and_headers_only(self):
        major, cuda = torch_wheel.take_torch("2.13.0", self.folder / "out", str(wheel(self.folder)))
        self.assertEqual((major, cuda), (13, "13.0"))
        files = sorted(str(path.relative_to(self.folder / "out")) for path in (self.folder / "out").rglob("*") if path.is_file())
        headers = ["include/ATen/core/CachingHostAllocator.h", "include/c10/core/Allocator.h"]
        self.assertEqual(files, [*headers, "lib/libc10.so", "lib/libc10_cuda.so", "version.py"])

    def test_refuses_a_cpu_only_wheel(self):
        self.refused(wheel(self.folder, "2.13.0+cpu", "None", ("libc10.so",)), "PyTorch 2.13.0+cpu is a CPU-only wheel")

    def test_refuses_another_architecture(self):
        self.refused(wheel(self.folder, machine=OTHER_MACHINE), f"and this machine is {platform.machine()}")

    def test_refuses_another_version(self):
        self.refused(wheel(self.folder, "2.12.1+cu130"), "the wheel holds PyTorch 2.12.1+cu130, not 2.13.0")

    def test_takes_a_build_before_the_release(self):
        for stated in ("2.13.0a0+git1234567", "2.13.0.dev20261101+cu130", "2.13.0rc2"):
            self.assertEqual(torch_wheel.take_torch("2.13.0", self.folder / "out", str(wheel(self.folder, stated)))[0], 13)
        for stated in ("2.13.0.post1", "2.13.01", "2.13.0a0x"):
            self.refused(wheel(self.folder, stated), f"the wheel holds PyTorch {stated}, not 2.13.0")

    def test_refuses_what_is_no_wheel(self):
        (self.folder / "text").write_text("no archive")
        self.refused(self.folder / "text", "no wheel can be read")
        self.refused(self.folder / "missing", "no wheel can be read")

    def test_refuses_a_library_without_a_build_id(self):
        code, said = fetch("--into", self.folder / "into", "--wheel", wheel(self.folder), "2.13.0")
        self.assertEqual(code, 2, said)
        self.assertIn("has no build id", said)

    def test_refuses_files_that_the_wheel_does_not_list_so(self):
        path = wheel(self.folder)
        with zipfile.ZipFile(path) as archive:
            rows = "".join(f"{name},sha256={hashed(archive.read(name))},1\n" for name in archive.namelist())
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("torch-2.13.0.dist-info/RECORD", rows)
        torch_wheel.take_torch("2.13.0", self.folder / "out", str(path))
        path = wheel(self.folder)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("torch-2.13.0.dist-info/RECORD", rows.replace(hashed(library()), hashed(b"another")))
        self.refused(path, "is not the file that the wheel lists")

    def test_refuses_a_release_that_is_not_what_it_was(self):
        taken = {"lib/libc10.so": library(), "include/c10/core/Allocator.h": b"// a header"}
        known = self.folder / "known.txt"
        known.write_text(f"# release machine hash\ntorch==2.13.0 {platform.machine()} {torch_wheel.digest(taken)}\n")
        torch_wheel.check_known("torch==2.13.0", taken, known)
        for changed in ({**taken, "lib/libc10.so": library() + b"x"}, {**taken, "include/c10/more.h": b""}, {"lib/libc10.so": library()}):
            with self.assertRaisesRegex(torch_wheel.Refused, "is not what it was"):
                torch_wheel.check_known("torch==2.13.0", changed, known)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            torch_wheel.check_known("torch==2.99.0", taken, known)
        self.assertIn("torch==2.99.0", said.getvalue())

    def test_what_comes_over_the_network_is_held_against_what_it_was(self):
        path = wheel(self.folder)
        with zipfile.ZipFile(path) as archive:
            rows = "".join(f"{name},sha256={hashed(archive.read(name))},1\n" for name in archive.namelist())
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("torch-2.13.0.dist-info/RECORD", rows)
        with (mock.patch.object(torch_wheel, "open_wheel", lambda requirement, given: zipfile.ZipFile(path)),
              self.assertRaisesRegex(torch_wheel.Refused, "torch==2.13.0 is not what it was")):
            torch_wheel.take_torch("2.13.0", self.folder / "out", None)
        self.assertFalse((self.folder / "out").exists())

    def test_known_releases_have_a_hash_each(self):
        rows = [line.split() for line in torch_wheel.KNOWN_FILES.read_text().splitlines() if not line.startswith("#")]
        self.assertGreaterEqual(sum(row[0].startswith("torch==") for row in rows), 10)
        for release, machine, made in rows:
            self.assertIn(machine, ("x86_64", "aarch64"), release)
            self.assertRegex(made, "^[0-9a-f]{64}$", release)

    def test_refuses_names_that_lead_out_of_the_folder(self):
        self.refused(wheel(self.folder, extra=("torch/include/c10/../../../../x.h",)), "leads out of its folder")

    def test_refuses_what_is_no_version(self):
        for version, text in (("2.13", "wanted three numbers"), ("newest", "wanted three numbers"), ("2.8.0", "older than 2.9")):
            code, said = fetch("--into", self.folder, "--wheel", wheel(self.folder), version)
            self.assertEqual(code, 2, said)
            self.assertIn(text, said)
        self.assertEqual(fetch()[0], 2)

    def test_help_says_what_it_does(self):
        code, said = fetch("--help")
        self.assertEqual(code, 0)
        self.assertIn("ALLOCMARK_TORCH_RELEASES", said)


if __name__ == "__main__":
    unittest.main()
