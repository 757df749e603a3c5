#!/usr/bin/env python3
"""scripts/check/prose.py finds each planted fault, and passes a page without one. Method: a small checkout of its own."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "check"))
import prose

WORDS = "one two three four five six seven eight nine ten"
LONG = f"{WORDS} {WORDS}\n{WORDS}.\n"
OTHER = "OTHER.md"  # put in at run time: else the check takes the planted faults below for faults of this file


class Prose(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        subprocess.run(["git", "init", "-q", folder.name], check=True)
        self.write(OTHER, "# Other\n\n## A section, with `code`\n")

    def write(self, name, text):
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(text)

    def broken(self, text, name="PAGE.md"):
        self.write(name, text)
        return [line for line in prose.check(self.root, []) if "codespell" not in line]

    def test_a_good_page_passes(self):
        good = f"# Page\n\n{WORDS} {WORDS}.\nAnother sentence: [a link](OTHER.md#a-section-with-code).\n\n    {'x' * 130}\n"
        self.assertEqual(self.broken(good), [])

    def test_a_long_sentence_is_found_over_lines(self):
        self.assertRegex(self.broken("# Page\n\n" + LONG)[0], r"^PAGE.md:3: a sentence of 30 words, at most 25")

    def test_a_reason_excuses_one_paragraph(self):
        self.assertEqual(self.broken("<!-- prose: long, a quotation -->\n" + LONG), [])
        self.assertEqual(len(self.broken("<!-- prose: long, -->\n" + LONG)), 1)
        self.assertEqual(len(self.broken("<!-- prose: long, a quotation -->\n" + LONG + "\n" + LONG)), 1)

    def test_long_lines_by_kind(self):
        for text, limit in (("x" * 101, 100), ("    " + "x" * 137, 140), ("| " + "x" * 1199, 1200), ("```\n" + "x" * 141 + "\n```", 140)):
            self.assertRegex(self.broken(text + "\n")[0], f"at most {limit}")

    def test_forms_that_make_a_reader_go_back(self):
        for sentence in (
            "Where there is none, all is well.",
            "Of the others only one was equal.",
            "A cell fails. So does a run.",
            "Whoever looks twice is too sure.",
            "A release is held against an older one.",
            "Until 2026-11-23 it was otherwise.",
        ):
            self.assertEqual(len(self.broken(f"# Page\n\n{sentence}\n")), 1, sentence)
        for sentence in ("| of the host | is none |", "Often two hold. So it holds.", "    Of the code nothing is read."):
            self.assertEqual(self.broken(f"# Page\n\n{sentence}\n"), [], sentence)
        self.assertEqual(self.broken("Until 2026-11-23 it was otherwise.\n", "CHANGELOG.md"), [])

    def test_long_pages(self):
        self.assertRegex(self.broken("x\n\n" * 31, "room/README.md")[0], r"62 lines, at most 60")

    def test_dead_links_and_sections(self):
        self.assertRegex(self.broken("[a](NONE.md)\n")[0], "leads nowhere")
        self.assertRegex(self.broken("[a](OTHER.md#none)\n")[0], "has no section")
        self.assertEqual(self.broken(f'See [it]({OTHER}), "A section, with code".\n'), [])
        self.assertRegex(self.broken(f'See {OTHER}, "Nothing".\n')[0], "has no section")
        (self.root / "PAGE.md").unlink()
        self.assertRegex(self.broken(f'// {OTHER}, "Nothing"\n', "code.h")[0], "^code.h:1: OTHER.md has no section")


if __name__ == "__main__":
    unittest.main()
