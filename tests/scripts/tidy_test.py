#!/usr/bin/env python3
"""scripts/check/tidy.sh finds what was planted, and nothing in a sound file. Skipped where the pinned clang-tidy is not there."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONG = "int sum(int x) {\n" + "  x += 1;\n" * 60 + "  return x;\n}\n"
PLANTED = {
    "misc-include-cleaner": "#include <map>\n#include <string>\n\nstd::string name() { return {}; }\n",
    "readability-function-size": LONG,
    "bugprone-use-after-move": "#include <string>\n#include <utility>\n\nvoid keep(std::string text);\n\n"
                               "std::size_t twice(std::string text) {\n  keep(std::move(text));\n  return text.size();\n}\n",
    "bugprone-too-small-loop-variable": "#include <vector>\n\nint sum(const std::vector<int>& all) {\n  int sum = 0;\n"
                                        "  for (short i = 0; i < static_cast<int>(all.size()); ++i) sum += all[i];\n  return sum;\n}\n",
    "bugprone-suspicious-semicolon": "void act();\n\nvoid maybe(bool does) {\n  if (does);\n    act();\n}\n",
    # A header may bring what the file names: includes.py says which one must not.
    "": "#include <string>\n\nstd::size_t length(const std::string& text) { return text.size(); }\n",
}


class Tidy(unittest.TestCase):
    def test_planted(self):
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
            files = {rule: Path(name) / f"file{index}.cc" for index, rule in enumerate(PLANTED)}
            for rule, file in files.items():
                file.write_text(PLANTED[rule])
            (Path(name) / "compile_commands.json").write_text(json.dumps(
                [{"directory": name, "file": str(file), "command": f"g++ -std=c++20 -c {file}"} for file in files.values()]))
            for rule, file in files.items():
                done = subprocess.run([ROOT / "scripts/check/tidy.sh", file], capture_output=True, text=True, check=False,
                                      env={"PATH": "/usr/local/bin:/usr/bin:/bin", "ALLOCMARK_TIDY_BUILD": name})
                with self.subTest(rule or "sound"):
                    self.assertEqual(done.returncode, 1 if rule else 0, done.stdout + done.stderr)
                    self.assertIn(f"[{rule}" if rule else "", done.stdout)
                    self.assertEqual(done.stdout.count("error: "), 1 if rule else 0, done.stdout)


if __name__ == "__main__":
    without_files = subprocess.run([ROOT / "scripts/check/tidy.sh"], capture_output=True, text=True, check=False)
    if without_files.returncode == 77:
        print(without_files.stdout.strip())
        sys.exit(77)
    unittest.main()
