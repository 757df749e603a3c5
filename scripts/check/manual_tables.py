#!/usr/bin/env python3
"""Writes the tables of the manuals that come from the program, between the lines `<!-- made by scripts/check/manual_tables.py: TABLE -->`
and `<!-- end -->` of a page. Flows in: what `allocmark list --format json` and `qualify --print-thresholds` print. Flows out: the
pages, changed.

scripts/check/manual_tables.py ALLOCMARK           writes the tables
scripts/check/manual_tables.py --check ALLOCMARK   changes nothing; exit code 1 where a table is not what the program says
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("workloads/GENERATORS.md", "allocators/BACKENDS.md", "harness/tools/qualify/TESTS.md")
BLOCK = re.compile(r"(<!-- made by scripts/check/manual_tables\.py: (\w+) -->\n).*?(<!-- end -->)", re.S)
REMARK = re.compile(r" \(cannot run here: .*\)$")  # depends on the machine
UNITS = {"bytes": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1, "B"))}


def answer(program, *words):
    return json.loads(subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout)


def rows(headings, alignment, lines):
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [headings, alignment, *lines])


def generators(program):
    listed = [(entry["name"], entry["summary"]) for entry in answer(program, "list", "workloads", "--format", "json")["workloads"]]
    made = [(name, summary.removeprefix("(generator) ")) for name, summary in listed if summary.startswith("(generator) ")]
    return rows(("generator", "what it does", "example"), ("---",) * 3, [(f"`{re.split('[:,]', name)[0]}`", summary, f"`{name}`") for name, summary in made])


def backends(program):
    lines = []
    for entry in answer(program, "list", "allocators", "--format", "json")["allocators"]:
        summary, _, keys = REMARK.sub("", entry["summary"]).partition("; keys: ")
        lines.append((f"`{entry['name']}`", summary, ", ".join(f"`{key}`" for key in keys.split(", ")) if keys else "none"))
    return rows(("name", "what it is", "config keys"), ("---",) * 3, lines)


def limit_text(value, unit, sign):
    if value is None:
        return ""
    for size, name in UNITS.get(unit, ()):
        if value and value % size == 0:
            return f"{sign} {value // size} {name}"
    return f"{sign} {value:g}"


def thresholds(program):
    lines = []
    for key, limit in answer(program, "qualify", "--print-thresholds").items():
        sign, limits = ("<", limit["min"]) if "min" in limit else (">", limit["max"])
        lines.append((f"`{key}`", limit["meaning"], *(limit_text(limits.get(verdict), limit["unit"], sign) for verdict in ("warn", "fail"))))
    return rows(("threshold", "figure", "WARN", "FAIL"), ("---", "---", "--:", "--:"), lines)


TABLES = {"generators": generators, "backends": backends, "thresholds": thresholds}


def main(argv=None):
    parser = argparse.ArgumentParser(description="Write the manuals' tables that come from the program.")
    parser.add_argument("program", help="a built allocmark")
    parser.add_argument("--check", action="store_true", help="change nothing, and say what differs")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout [the one of this script]")
    arguments = parser.parse_args(argv)
    stale, found = [], set()
    for page in PAGES:
        path = arguments.root / page
        text = path.read_text()
        found.update(match.group(2) for match in BLOCK.finditer(text))
        made = BLOCK.sub(lambda match: match.group(1) + TABLES[match.group(2)](arguments.program) + match.group(3), text)
        if made != text:
            stale.append(page)
            if not arguments.check:
                path.write_text(made)
    for table in sorted(set(TABLES) - found):
        print(f"manual_tables: no page has the table {table}; wanted in {', '.join(PAGES)}", file=sys.stderr)
    for page in stale if arguments.check else ():
        print(f"{page}: a table is not what the program says; run scripts/check/manual_tables.py {arguments.program}", file=sys.stderr)
    return 1 if (arguments.check and stale) or set(TABLES) - found else 0


if __name__ == "__main__":
    sys.exit(main())
