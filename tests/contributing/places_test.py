#!/usr/bin/env python3
"""Holds "Where things are" in CONTRIBUTING.md to the sources: each file is there and has the text that the row names, and a
room without a folder of tests has a row that says where its tests are.

places_test.py SOURCE_FOLDER
"""
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "check"))
import rooms

SOURCE = Path(sys.argv[1]).resolve()
ROW = re.compile(r"^\| (?P<what>[^|]+) \| `(?P<path>[^`|]+)` \| `(?P<text>[^`|]+)` \|$", re.M)


TESTED = re.compile(r"^\| (?P<rooms>`[^|]+`) \| (?P<folders>`tests/[^|]+`) \|$", re.M)


def section():
    page = (SOURCE / "CONTRIBUTING.md").read_text()
    return page.split("\n## Where things are\n", 1)[1].split("\n## ", 1)[0]


def rows():
    return list(ROW.finditer(section()))


def quoted(text):
    return re.findall(r"`([^`]+)`", text)


class Places(unittest.TestCase):
    def test_the_table_has_its_ten_rows(self):
        self.assertGreaterEqual(len(rows()), 10)

    def test_every_file_is_there_and_has_the_text(self):
        for row in rows():
            with self.subTest(row["what"]):
                path = SOURCE / row["path"]
                self.assertTrue(path.is_file(), f"{row['path']} is not there; CONTRIBUTING.md names it for {row['what']}")
                self.assertTrue(row["text"] in path.read_text(), f"{row['path']} has no {row['text']}; find where it is now")

    def test_each_room_has_tests_under_its_path_or_where_a_row_says(self):
        tested = list(TESTED.finditer(section()))
        for folder in {name for row in tested for name in quoted(row["folders"])}:
            self.assertTrue((SOURCE / folder).is_dir(), f"{folder} is not there; CONTRIBUTING.md says that tests are in it")
        without = {room for room in rooms.read_rooms(SOURCE)
                   if not (SOURCE / "tests" / re.sub("^harness/(core|tools)/", "harness/", room)).is_dir()}
        self.assertEqual({name for row in tested for name in quoted(row["rooms"])}, without)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
