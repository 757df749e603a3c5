#!/usr/bin/env python3
"""The page and the figures of the allocators' comparison are what its raw results give, and a changed number is seen. Usage: published_allocators_test.py
ALLOCMARK"""

import lzma
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "results" / "published" / "2026-11-27-h200-allocators"
PROGRAM = Path(sys.argv.pop(1))


def report(folder):
    """Makes the page in a folder that has nothing but raw results."""
    command = [sys.executable, ROOT / "scripts" / "publish" / "publish.py", "report", folder, "--allocmark", PROGRAM]
    return subprocess.run(command, capture_output=True, text=True)


class Page(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.addCleanup(self.kept.cleanup)
        self.copy = Path(self.kept.name)
        shutil.copytree(FOLDER / "raw", self.copy / "raw")

    def test_page_and_figures_are_made_from_the_raw_results(self):
        done = report(self.copy)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("allocators.md", "environment.md", *(f"figures/{path.name}" for path in sorted((FOLDER / "figures").iterdir()))):
            self.assertEqual((self.copy / name).read_bytes(), (FOLDER / name).read_bytes(), name)
        self.assertEqual(len(list((self.copy / "figures").iterdir())), len(list((FOLDER / "figures").iterdir())))

    def test_places_that_are_not_the_cards_are_refused(self):
        path = self.copy / "raw" / "allocators_training.jsonl.xz"
        with lzma.open(path, "rt") as file:
            lines = [line.replace('"placement_hash":"', '"placement_hash":"0') for line in file]
        with lzma.open(path, "wt") as file:
            file.writelines(lines)
        done = report(self.copy)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("placed its blocks elsewhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
