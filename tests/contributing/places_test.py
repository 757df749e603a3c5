#!/usr/bin/env python3
"""Holds "Where things are" in CONTRIBUTING.md to the sources: each file is there and has the text that the row names.

places_test.py SOURCE_FOLDER
"""
import re
import sys
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1]).resolve()
ROW = re.compile(r"^\| (?P<what>[^|]+) \| `(?P<path>[^`|]+)` \| `(?P<text>[^`|]+)` \|$", re.M)


def rows():
    page = (SOURCE / "CONTRIBUTING.md").read_text()
    section = page.split("\n## Where things are\n", 1)[1].split("\n## ", 1)[0]
    return list(ROW.finditer(section))


class Places(unittest.TestCase):
    def test_the_table_has_its_ten_rows(self):
        self.assertGreaterEqual(len(rows()), 10)

    def test_every_file_is_there_and_has_the_text(self):
        for row in rows():
            with self.subTest(row["what"]):
                path = SOURCE / row["path"]
                self.assertTrue(path.is_file(), f"{row['path']} is not there; CONTRIBUTING.md names it for {row['what']}")
                self.assertTrue(row["text"] in path.read_text(), f"{row['path']} has no {row['text']}; find where it is now")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
