#!/usr/bin/env python3
"""Checks the rules of our style that a machine can check; run by CTest as `lint`. Prints file:line and the rule.

Rules: pinned clang-format 14; files of at most 400 lines, scripts too, and C++ functions of at most 60 (a comment `lint: long`
with a reason in the same file's head lifts the file limit); headers begin with #pragma once; no TODO; no tab; files
and JSON are opened and parsed in base/ alone; a namespace has one type of a name, in one file (two of them link, and the
destructor of one ends the other); a script that CTest runs can be executed. rooms.py checks which rooms may include which; ruff the rest of Python.

With --without-format clang-format is not asked.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
SCRIPT_ENDINGS = (".py", ".sh", ".cmake", "CMakeLists.txt")
# base/input_file.h, output_file.h and json_text.h have the limits; what else opens files or parses JSON goes around them.
OPENER = re.compile(r"std::(basic_)?[io]?fstream|\bfopen\(|\b(Ordered)?[jJ]son::parse\(|#include <fstream>")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union)\s+(\w+)(?:\s+final)?\s*(?::(?!:)[^;]*)?\{")
PROGRAM_TEST = re.compile(r"allocmark_program_test\(\s*\w+\s+COMMAND\s+([\w/]+\.py)")
OPENERS = {
    "base/": "where files are opened",
    "tests/": "tests make the files that break rules",
    "harness/simcuda/": "a library of its own, without the rooms",
    "harness/core/run/conditions.cc": "/proc and /sys",
    "harness/core/run/environment.cc": "/proc and /sys",
    "base/process_memory.cc": "/proc and /sys",
}


def files_ending(*endings):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [(ROOT / name, name) for name in names.stdout.split() if name.endswith(endings) and (ROOT / name).is_file()]


def check_file_length(lines):
    if len(lines) > FILE_LINES_MAX and not any("lint: long" in line for line in lines[:12]):
        yield 1, f"{len(lines)} lines; at most {FILE_LINES_MAX}"


def check_function_lengths(lines):
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
        elif line.startswith("}") or (line.endswith(";") and not line.startswith((" ", "\t"))):
            start = None


def check_script(name, text):
    yield from check_file_length(text.splitlines())
    for found in PROGRAM_TEST.finditer(text):
        script = (ROOT / name).parent / found[1]
        if script.is_file() and not os.access(script, os.X_OK):
            yield text.count("\n", 0, found.start()) + 1, f"{found[1]} cannot be executed, so CTest does not run it: chmod +x"


def check_source(name, text):
    lines = text.splitlines()
    yield from check_file_length(lines)
    yield from check_function_lengths(lines)
    yield from check_text(name, lines)


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


def types_of(text):
    """Name with namespaces, and line, of each type that is defined at the scope of a named namespace."""
    depth, scopes = 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if opened := re.match(r"\s*(?:inline )?namespace\s*([\w:]*)\s*\{", line):
            scopes.append((depth, opened[1]))
        elif (defined := TYPE.match(line)) and all(name for _, name in scopes):
            yield "::".join([name for _, name in scopes] + [defined[1]]), number
        depth += line.count("{") - line.count("}")
        while scopes and depth <= scopes[-1][0]:
            scopes.pop()


def check_types(sources):
    first = {}
    for path, name in sources:
        if name.startswith("tests/"):
            continue  # programs of their own
        for full_name, line in types_of(path.read_text()):
            if first.setdefault(full_name, name) != name:
                yield name, line, f"{full_name} is defined in {first[full_name]} too"


def check_format(names):
    tool = shutil.which("clang-format-14")
    if tool is None:
        print("lint: clang-format-14 is not installed", file=sys.stderr)
        return 77
    run = subprocess.run([tool, "--dry-run", "-Werror", *names], cwd=ROOT, capture_output=True, text=True)
    sys.stderr.write("".join(line + "\n" for line in run.stderr.splitlines() if "error:" in line))
    return 1 if run.returncode else 0


def main():
    sources = files_ending(".h", ".cc", ".cu")
    scripts = files_ending(*SCRIPT_ENDINGS)
    checks = [(path, name, check_source) for path, name in sources] + [(path, name, check_script) for path, name in scripts]
    broken = 0
    for path, name, check in checks:
        for number, rule in check(name, path.read_text()):
            print(f"{name}:{number}: {rule}", file=sys.stderr)
            broken += 1
    for name, number, rule in check_types(sources):
        print(f"{name}:{number}: {rule}", file=sys.stderr)
        broken += 1
    status, words = 0, "not asked"
    if "--without-format" not in sys.argv:
        status = check_format([name for _, name in sources])
        words = "not ok" if status else "ok"
    print(f"lint: {len(checks)} files, {broken} rule violations, format {words}")
    return 1 if broken else status


if __name__ == "__main__":
    sys.exit(main())
