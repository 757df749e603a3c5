#!/usr/bin/env python3
"""scripts/check/rooms.py finds each planted fault of the plan of rooms, and --write mends what it may. Method: a small checkout of its
own."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "check"))
import rooms

# Each room, and the rooms that its one file includes.
PLAN = {
    "base": [],
    "results": ["base"],
    "harness/core/cell": ["base", "results"],
    "harness/core/run": ["harness/core/cell"],
    "harness/shell": ["base"],
    "harness/tools/one": ["harness/core/run", "harness/shell"],
    "harness/tools/two": ["harness/shell"],
    "harness/tools/two/part": ["harness/tools/two"],
}


class Rooms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        subprocess.run(["git", "init", "-q", folder.name], check=True)
        for room, used in PLAN.items():
            self.make(room, used)
        self.write("harness/tools/main.cc", '#include "harness/tools/one/a.h"\n#include "harness/tools/two/a.h"\n')

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def make(self, room, used, uses=None):
        uses = used if uses is None else uses
        names = "".join(f"  {one}\n" for one in sorted(uses))
        self.write(f"{room}/CMakeLists.txt", f"allocmark_room(\n  SOURCES\n  a.cc\n  USES\n{names}  COLD)\n")
        inner = "[part](part/README.md)" if room == "harness/tools/two" else ""
        self.write(f"{room}/README.md", f"# {room}\n\n**Open first:** `a.*`. {inner}\n\n"
                   f"## May include\n\n{rooms.may_include(sorted(uses))}\n\n## Limits\n\n- None.\n")
        self.write(f"{room}/a.h", "#pragma once\n")
        self.write(f"{room}/a.cc", "".join(f'#include "{one}/a.h"\n' for one in used))

    def found(self):
        return "\n".join(rooms.check(self.root))

    def test_the_plan_itself_has_no_fault(self):
        self.assertEqual(self.found(), "")

    def test_an_include_that_is_not_planned(self):
        self.make("harness/shell", ["base", "results"], ["base"])
        self.assertIn("harness/shell/a.cc:2: harness/shell/ may not include results/a.h; its USES do not name results", self.found())

    def test_a_use_that_nothing_needs(self):
        self.make("harness/shell", ["base"], ["base", "results"])
        self.assertIn("USES results and includes nothing of it", self.found())

    def test_a_tool_that_includes_another(self):
        self.make("harness/tools/one", ["harness/tools/two"])
        self.assertIn("harness/tools/one/CMakeLists.txt:1: USES harness/tools/two: a tool includes no other tool", self.found())
        self.make("harness/tools/one", ["harness/tools/two/part"])
        self.assertIn("a tool includes no other tool", self.found())

    def test_an_arrow_back(self):
        for room, used, text in (
            ("harness/core/cell", "harness/shell", "harness/core includes nothing of harness/shell"),
            ("harness/core/run", "harness/tools/two", "harness/core includes nothing of harness/tools"),
            ("harness/shell", "harness/tools/two", "harness/shell includes nothing of harness/tools"),
            ("results", "harness/core/cell", "only the harness includes the harness"),
        ):
            self.make(room, [used])
            self.assertIn(text, self.found())
            self.make(room, PLAN[room])

    def test_a_circle(self):
        self.make("harness/core/cell", ["harness/core/run"])
        self.assertIn("a circle of rooms: harness/core/", self.found())

    def test_a_file_in_no_room(self):
        for name in ("harness/stray.cc", "harness/tools/three/three_command.cc"):
            self.write(name, "\n")
            self.assertIn(f"{name}:1: lies in no room", self.found())
            (self.root / name).unlink()

    def test_a_program_that_is_included(self):
        self.write("harness/tools/main.h", "\n")
        self.write("harness/shell/a.cc", '#include "base/a.h"\n#include "harness/tools/main.h"\n')
        self.assertIn("harness/tools/main.h belongs to a program", self.found())

    def test_a_readme_that_lies_or_is_missing(self):
        readme = self.root / "harness/core/run/README.md"
        right = readme.read_text()
        for wrong in (right.replace("`harness/core/cell`", "`base`"), right.replace("## May include", "## May have")):
            readme.write_text(wrong)
            self.assertIn('"May include" is not what USES name', self.found())
        readme.unlink()
        self.assertIn("the room has no README.md", self.found())

    def test_a_file_that_no_readme_names(self):
        readme = self.root / "base/README.md"
        for name in ("base/b.h", "base/b.cc", "base/b_{one,two}.cc", "base/part/b.cc"):
            for file in rooms.spelled_out(name):
                self.write(file, "")
        for named, missing in (
            ("b", {"b.h", "b.cc", "b_one.cc", "b_two.cc", "part/b.cc"}),  # the word alone may be another thing's name
            ("b.cc", {"b_one.cc", "b_two.cc"}),  # and its header
            ("b.*` and `b_{one,two}.cc", set()),
            ("b*.cc", set()),
            ("part/` and `base/b.h", {"b_one.cc", "b_two.cc"}),
            ("*.cc", {"b.h", "b.cc", "b_one.cc", "b_two.cc", "part/b.cc"}),
        ):
            with self.subTest(named):
                readme.write_text(f"`a.*`, `{named}`\n\n## May include\n\nNo other room.\n")
                found = {line.split(":", 1)[0] for line in rooms.check_named(self.root)}
                self.assertEqual(found, {f"base/{name}" for name in missing})

    def test_a_readme_that_does_not_say_what_to_open_first(self):
        readme = self.root / "harness/shell/README.md"
        readme.write_text(readme.read_text().replace("**Open first:**", "Open"))
        self.assertIn("harness/shell/README.md:1: does not say which file to open first", self.found())

    def test_a_room_that_the_readme_above_does_not_name(self):
        readme = self.root / "harness/tools/two/README.md"
        for other in ("", "`depart/`", "[parts](parts/README.md)"):
            readme.write_text(f"**Open first:** `a.*` {other}\n\n## May include\n\n{rooms.may_include(['harness/shell'])}\n")
            self.assertIn("harness/tools/two/part/README.md:1: harness/tools/two/README.md does not name the room", self.found())
        readme.write_text(readme.read_text().replace("parts", "part"))
        self.assertEqual(self.found(), "")

    def test_a_file_that_is_named_and_not_there(self):
        readme = self.root / "base/README.md"
        text = readme.read_text()
        for name, is_there in (("a.cc", True), ("harness/shell/a.h", True), ("../results/a.h", True), ("NAME.cc", True), ("cuda.h", True),
                               ("b.cc", False), ("harness/b/a.h", False), ("aa.{h,cc}", False)):
            with self.subTest(name):
                readme.write_text(text + f"- `{name}`\n")
                self.assertEqual("which is not there" in self.found(), not is_there)

    def test_commands_follow_from_their_folders(self):
        self.write("harness/tools/one/one_command.cc", "")
        self.assertEqual(list(rooms.check_named(self.root)), [])

    def test_write_makes_both_say_what_is_included(self):
        self.make("harness/shell", ["base", "results"], ["harness/core/run"])
        self.assertNotEqual(self.found(), "")
        rooms.write(self.root)
        self.assertEqual(self.found(), "")
        self.assertIn("`base` and `results`.\n\n## Limits", (self.root / "harness/shell/README.md").read_text())


if __name__ == "__main__":
    unittest.main()
