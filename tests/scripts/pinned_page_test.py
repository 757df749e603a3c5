#!/usr/bin/env python3
"""Goal: the page of pinned memory says what its raw files say, and the program still answers as the page does. Method: the committed page made
again; one workload asked again; and a page whose measured bytes were changed.

Usage: pinned_page_test.py PROGRAM"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/measure/pinned_page.py"
FOLDER = ROOT / "results/published/2026-11-27-h200-pinned"
PROGRAM = sys.argv.pop(1)


def page_of(folder):
    return subprocess.run([sys.executable, SCRIPT, folder], check=True, capture_output=True, text=True).stdout


class Page(unittest.TestCase):
    def test_the_published_page_is_what_its_raw_files_make(self):
        self.assertEqual(page_of(FOLDER), (FOLDER / "README.md").read_text())

    def test_simcuda_charges_the_middle_of_the_hosts(self):
        charged = (ROOT / "harness/simcuda/core/pinning_costs.cc").read_text()
        table = re.sub(r"\s+", " ", charged)
        rows = subprocess.run([sys.executable, ROOT / "scripts/measure/pin_middle.py"], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(len(rows), 7)
        for row in rows:
            self.assertIn(row, table)

    def test_another_measurement_makes_another_page(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "page"
            shutil.copytree(FOLDER, folder)
            card = folder / "raw/pinned_card.jsonl"
            lines = [json.loads(line) for line in card.read_text().splitlines()]
            changed = next(line for line in lines if line.get("compare") == "torchao" and line["what"] == "pinned_bytes")
            changed["measured"] *= 2
            card.write_text("".join(json.dumps(line) + "\n" for line in lines))
            self.assertIn("-50.0 %", page_of(folder))

    def test_the_program_answers_as_the_page_says(self):
        for line in (FOLDER / "raw/pinned.jsonl").read_text().splitlines():
            told = json.loads(line)
            if told["name"] not in ("deepspeed", "kv_chunks"):
                continue
            done = subprocess.run([PROGRAM, "pinned", "--workload", told["workload"], "--format", "json"], check=True, capture_output=True, text=True)
            self.assertEqual({key: told[key] for key in ("rows", "exact", "asked_bytes")},
                             {key: json.loads(done.stdout)[key] for key in ("rows", "exact", "asked_bytes")})


if __name__ == "__main__":
    unittest.main()
