#!/usr/bin/env python3
"""Checks the rules of our style that a machine can check; run by CTest as `lint`. Prints file:line and the rule.

Rules: pinned clang-format 14; files of at most 400 lines, of tests 500, and functions of at most 60 (a comment `lint: long`
with a reason in the same file's head lifts the file limit); headers begin with #pragma once; no TODO; no tab; files
and JSON are opened and parsed in base/ alone. Which rooms may include which is checked by rooms.py.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
# Files that are to be split yet, and what they may have until then. Never add one.
LONG_FILES = {
    "results/compare/interleaved.cc": 500,
    "results/fields.h": 500,  # a table: a row a field
    "results/json.cc": 510,
    "harness/check/verify.cc": 420,
}
# Test programs are lists of cases: a file may have this many lines.
TEST_LINES_MAX = 500
# base/input_file.h, output_file.h and json_text.h have the limits; what else opens files or parses JSON goes around them.
OPENER = re.compile(r"std::(basic_)?[io]?fstream|\bfopen\(|\b(Ordered)?[jJ]son::parse\(|#include <fstream>")
OPENERS = {
    "base/": "where files are opened",
    "tests/": "tests make the files that break rules",
    "harness/simcuda/": "a library of its own, without the rooms",
    "harness/run/conditions.cc": "/proc and /sys",
    "harness/run/environment.cc": "/proc and /sys",
    "harness/run/host_memory.cc": "/proc and /sys",
    "harness/speed/generation_speed.cc": "/proc",
}


def sources():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in names.stdout.split():
        path = ROOT / name
        if path.suffix in {".h", ".cc", ".cu"} and path.is_file():
            yield path, name


def check_lengths(name, lines):
    limit = LONG_FILES.get(name, TEST_LINES_MAX if name.startswith("tests/") else FILE_LINES_MAX)
    if len(lines) > limit and not any("lint: long" in line for line in lines[:12]):
        yield 1, f"{len(lines)} lines; at most {limit}"
    start = None
    for number, line in enumerate(lines, 1):
        if re.match(r"[A-Za-z].*[{(,]$|[A-Za-z].*\)( const)?( noexcept)? \{$", line) and not re.match(
            r"(namespace|class|struct|enum|union|extern|static const|constexpr|inline constexpr|const|TEST_CASE|#)", line
        ):
            start = number if start is None else start
        elif line == "}" and start is not None:
            if number - start + 1 > FUNCTION_LINES_MAX:
                yield start, f"function of {number - start + 1} lines; at most {FUNCTION_LINES_MAX}"
            start = None
        elif line.startswith("}") or line.endswith(";") and not line.startswith((" ", "\t")):
            start = None


def check_text(name, lines):
    if name.endswith(".h") and not any(line == "#pragma once" for line in lines):
        yield 1, "a header needs #pragma once"
    for number, line in enumerate(lines, 1):
        if "TODO" in line or "FIXME" in line:
            yield number, "TODO without an issue"
        if "\t" in line:
            yield number, "tab"
        if OPENER.search(line) and not name.startswith(tuple(OPENERS)):
            yield number, "opens a file or parses JSON: use base/input_file.h, base/output_file.h or base/json_text.h"


def check_format(names):
    tool = shutil.which("clang-format-14")
    if tool is None:
        print("lint: clang-format-14 is not installed", file=sys.stderr)
        return 77
    run = subprocess.run([tool, "--dry-run", "-Werror", *names], cwd=ROOT, capture_output=True, text=True)
    sys.stderr.write("".join(line + "\n" for line in run.stderr.splitlines() if "error:" in line))
    return 1 if run.returncode else 0


def main():
    names, broken = [], 0
    for path, name in sources():
        names.append(name)
        lines = path.read_text().splitlines()
        for number, rule in [*check_lengths(name, lines), *check_text(name, lines)]:
            print(f"{name}:{number}: {rule}", file=sys.stderr)
            broken += 1
    status = check_format(names)
    print(f"lint: {len(names)} files, {broken} rule violations, format {'ok' if status == 0 else 'not ok'}")
    return status or (1 if broken else 0)


if __name__ == "__main__":
    sys.exit(main())
