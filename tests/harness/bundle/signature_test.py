#!/usr/bin/env python3
"""A bundle that somebody signed: another's key, a changed byte and a missing signature are refused. Usage: signature_test.py ALLOCMARK"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ALLOCMARK = ""


def run(*words, environment=()):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, env={**os.environ, **dict(environment)}, stdin=subprocess.DEVNULL)


class Signatures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = Path(cls.folder.name)
        for name in ("mine", "others"):
            assert run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", cls.work / name).returncode == 0
            public = (cls.work / f"{name}.pub").read_text()
            (cls.work / f"{name}_signers").write_text(f"{name}@example.org {' '.join(public.split()[:2])}\n")
        assert run(ALLOCMARK, "run", "-w", "comb:count=40", "-a", "caching", "-d", "sim:h200", "--allow-debug", "-q", "--no-html",
                   "--out", cls.work / "run").returncode == 0
        cls.bundle = cls.work / "b.tar"
        cls.made = run(ALLOCMARK, "bundle", cls.work / "run", "--out", cls.bundle, "--sign", cls.work / "mine")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, bundle, signers="mine", *words):
        return run(ALLOCMARK, "check", bundle, "--signers", self.work / f"{signers}_signers", *words)

    def copied(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in ("b.tar", "b.tar.sig"):
            shutil.copy(self.work / name, folder.name)
        return Path(folder.name) / "b.tar"

    def test_a_bundle_is_signed_and_its_signer_named(self):
        self.assertIn(f"signature: {self.bundle}.sig", " ".join(self.made.stdout.split()))
        checked = self.check(self.bundle)
        self.assertIn("signature: good, by mine@example.org", checked.stdout)
        self.assertEqual(checked.returncode, run(ALLOCMARK, "check", self.bundle).returncode)
        self.assertIn("signature: good", self.check(self.bundle, "mine", "--format", "json").stderr)

    def test_anothers_key_is_refused(self):
        checked = self.check(self.bundle, "others")
        self.assertEqual(checked.returncode, 1)
        self.assertIn("signature: BROKEN", checked.stdout)

    def test_a_changed_byte_is_refused_wherever_it_is(self):
        size = self.bundle.stat().st_size
        for at in (0, size // 2, size - 1):
            with self.subTest(at=at):
                bundle = self.copied()
                data = bytearray(bundle.read_bytes())
                data[at] ^= 1
                bundle.write_bytes(data)
                checked = self.check(bundle)
                self.assertIn("signature: BROKEN", checked.stdout)
                self.assertNotEqual(checked.returncode, 0)

    def test_a_signature_of_something_else_is_refused(self):
        bundle = self.copied()
        run("ssh-keygen", "-Y", "sign", "-f", self.work / "mine", "-n", "file", bundle)
        Path(f"{bundle}.sig").unlink()
        run("ssh-keygen", "-Y", "sign", "-f", self.work / "mine", "-n", "file", bundle)
        self.assertEqual(self.check(bundle).returncode, 1)
        Path(f"{bundle}.sig").write_text("no signature\n")
        self.assertEqual(self.check(bundle).returncode, 1)

    def test_what_is_missing_is_told(self):
        bundle = self.copied()
        Path(f"{bundle}.sig").unlink()
        missing = self.check(bundle)
        self.assertEqual((missing.returncode, f"{bundle}.sig" in "".join(missing.stderr.split())), (6, True))
        none = run(ALLOCMARK, "check", self.bundle, "--signers", self.work / "mine_signers", environment={"PATH": "/nowhere"})
        self.assertEqual(none.returncode, 4)
        self.assertIn("ssh-keygen", none.stderr)
        nokey = run(ALLOCMARK, "bundle", self.work / "run", "--out", self.work / "c.tar", "--sign", self.work / "nokey")
        self.assertEqual(nokey.returncode, 4)
        self.assertIn("not signed", nokey.stderr)


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    if not shutil.which("ssh-keygen"):
        print("ssh-keygen is missing: nothing was tried (Debian: apt-get install openssh-client)")
        sys.exit(77)
    unittest.main()
