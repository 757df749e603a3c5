#!/usr/bin/env python3
"""Runs one Catch2 program several times at once, each time with another filter of its test cases, and prints what each said.
For parts of a test that mostly wait. Usage: at_once.py PROGRAM FILTER FILTER..."""
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77


def main(program, *filters):
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for at, each in enumerate(filters):
            with open(f"{folder}/{at}", "w") as out:
                runs.append(subprocess.Popen([program, each], stdout=out, stderr=subprocess.STDOUT))
        codes = [run.wait() for run in runs]
        said = [Path(f"{folder}/{at}").read_text(errors="replace") for at in range(len(filters))]
    for each, code, text in zip(filters, codes, said, strict=True):
        print(f"{each}: exit code {code}\n{text}", flush=True)
    if set(codes) == {SKIPPED}:
        return SKIPPED
    # A part that was skipped alone is missing, and so is one that has no test case.
    return int(any(codes) or any("No tests ran" in text for text in said))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
