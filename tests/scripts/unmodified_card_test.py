#!/usr/bin/env python3
"""Goal: the page of unmodified programs says what its rows say. Method: the committed page made again, and made from rows that differ.

usage: unmodified_card_test.py
"""
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/measure/unmodified_card.py"
PAGE = ROOT / "results/published/2026-11-28-h200-unmodified"


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "page"
        shutil.copytree(PAGE, self.folder)

    def made(self):
        subprocess.run([sys.executable, SCRIPT, "page", self.folder], check=True, capture_output=True)
        return (self.folder / "README.md").read_text()

    def change(self, program, **numbers):
        path = self.folder / "card.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if row["program"] == program:
                row.update(numbers)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def test_the_committed_page_is_made_again(self):
        committed = (PAGE / "README.md").read_text()
        self.assertEqual(self.made(), committed)

    def test_a_program_that_took_more_is_told(self):
        row = json.loads(next(line for line in (PAGE / "card.jsonl").read_text().splitlines() if '"recurrent"' in line))
        self.change("recurrent", reserved=2 * row["reserved"])
        text = self.made()
        self.assertIn("peak reserved: 14 of 18 equal to the byte, the worst 50.00 % off", text)
        self.assertRegex(text, r"\| `recurrent` \| [\d.]+ \| [\d.]+ \| equal \| -50\.0000 %")

    def test_ranks_are_compared_by_the_one_that_took_most(self):
        self.change("fully_sharded", returned=[[0, 1576460296, 2132803584, 433], [1, 1576460296, 4265607168, 433]])
        self.assertRegex(self.made(), r"\| `fully_sharded` \| 1\.47 \| 3\.97 \| equal \| -50\.0000 %")

    def test_a_program_that_failed_on_the_card_is_no_equal_one(self):
        self.change("algebra", error="RuntimeError: planted")
        text = self.made()
        self.assertIn("| `algebra` | ran | RuntimeError: planted |", text)
        self.assertIn("7 of 18 are equal in everything", text)


if __name__ == "__main__":
    unittest.main()
