#!/usr/bin/env python3
"""Goal: nothing that a script downloads is used before its hash is held against one that lies here.

Method: every command of the scripts that loads something is looked at, and so is every list of hashes; and scripts/setup.sh is given wheels
of the right names with other contents. No network is asked.
"""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = ("scripts/build/cuda_wheels.txt", "scripts/build/cupy_wheels.txt", "tests/scripts/report/requirements.txt")
LOADERS = re.compile(r"\b(curl|wget|git clone|urlopen|urlretrieve|pip3?\"? install|pip3?\"? download|pip\", \"install)\b")
# The first reads ranges of a wheel; what it reads is held against hashes by fetch_torch_test. The second loads an archive, and has its hash.
# The third installs the wheel that it made itself, without an index.
HASHES_OF_THEIR_OWN = ("scripts/build/torch_wheel.py", "scripts/measure/simcuda_suites.py", "tests/install/wheel_test.sh")


def requirements(path):
    """Each requirement of a list, with what stands behind it."""
    text = re.sub(r"\\\n", " ", (ROOT / path).read_text())
    return [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def commands(path):
    """Lines of a script that load something, without comments and messages; joined where they go on."""
    text = re.sub(r"\\\n\s*", " ", path.read_text())
    for line in text.splitlines():
        if LOADERS.search(line) and not re.match(r"\s*(#|fail|say|echo)", line.strip()):
            yield line.strip()


class Downloads(unittest.TestCase):
    def test_every_requirement_has_one_version_and_a_hash(self):
        for path in LISTS:
            rows = requirements(path)
            self.assertGreater(len(rows), 3, path)
            for row in rows:
                self.assertRegex(row[0], r"^[A-Za-z0-9._-]+==[^*]+$", path)
                hashes = [word for word in row if word.startswith("--hash=sha256:")]
                self.assertTrue(hashes, f"{path}: {row[0]} has no hash")
                for one in hashes:
                    self.assertRegex(one, r"^--hash=sha256:[0-9a-f]{64}$", f"{path}: {row[0]}")

    def test_every_script_that_loads_something_wants_hashes(self):
        found = []
        for folder in ("scripts", "tests"):
            for path in sorted((ROOT / folder).rglob("*")):
                name = str(path.relative_to(ROOT))
                if path.suffix in (".sh", ".py") and path.is_file() and name not in HASHES_OF_THEIR_OWN and path != Path(__file__).resolve():
                    found += [(name, line) for line in commands(path)]
        self.assertIn("scripts/setup.sh", [name for name, _ in found])
        self.assertIn("tests/scripts/report/install.sh", [name for name, _ in found])
        for name, line in found:
            self.assertIn("--require-hashes", line, name)
            self.assertIn("--only-binary :all:", line, name)


def fake_wheel(folder, requirement):
    """A wheel of the name and version that are wanted, with nothing in it that is."""
    name, version = requirement.split("==")
    plain = name.replace("-", "_")
    path = folder / f"{plain}-{version}-py3-none-any.whl"
    info = f"{plain}-{version}.dist-info"
    files = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
             f"nvidia/{plain}.txt": "another content"}
    rows = [f"{one},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')},{len(text)}" for one, text in files.items()]
    with zipfile.ZipFile(path, "w") as archive:
        for one, text in files.items():
            archive.writestr(one, text)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,", ""]))
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Toolkit(unittest.TestCase):
    """A copy of the scripts, in a folder of its own, which takes wheels from a folder."""

    def setUp(self):
        if subprocess.run(["python3", "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("pip is missing")
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)
        shutil.copytree(ROOT / "scripts", self.root / "scripts", ignore=shutil.ignore_patterns("report", "record", "__pycache__"))
        self.wheels = self.root / "wheels"
        self.wheels.mkdir()
        self.made = {row[0]: fake_wheel(self.wheels, row[0]) for row in requirements(LISTS[0])}

    def fetch(self):
        environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PIP_CONFIG_FILE": os.devnull}
        ran = subprocess.run(["bash", "-c", "source scripts/setup.sh; fetch_toolkit"], cwd=self.root, env=environment, capture_output=True,
                             text=True, check=False, timeout=300)
        return ran.returncode, ran.stdout + ran.stderr

    def test_wheels_of_the_right_names_with_other_contents_are_refused(self):
        code, said = self.fetch()
        self.assertEqual(code, 4, said)
        self.assertIn("DO NOT MATCH THE HASHES", said)
        self.assertFalse(list((self.root / "build/cuda-toolkit").rglob("*.txt")), "a wheel was unpacked")

    def test_the_same_wheels_are_unpacked_where_the_list_has_their_hashes(self):
        rows = [f"{name} --hash=sha256:{made}" for name, made in self.made.items()]
        (self.root / LISTS[0]).write_text("\n".join(rows) + "\n")
        code, said = self.fetch()
        self.assertEqual(code, 4, said)  # nothing in them is a toolkit
        self.assertIn("hold no toolkit", said)
        self.assertEqual(len(list((self.root / "build/cuda-toolkit").rglob("*.txt"))), len(self.made))


if __name__ == "__main__":
    unittest.main()
