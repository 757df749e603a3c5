#!/usr/bin/env python3
"""The history of merges: changes that no single comparison calls add up, chance does not, and a file that is no history is refused.
Comparisons are made up in the form that `allocmark compare --format json` writes. Usage: drift_test.py DRIFT.py"""

import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

NUMBERS = ("allocate_own_ns_p50", "deallocate_own_ns_p50", "allocator_ns_per_step", "allocate_own_ns_p99")
CELLS = [(f"work{i}", capacity) for i in range(4) for capacity in ("unlimited", "1.05x")]


def comparison(change_of, error=0.008):
    """One with the log of each number's change as the function says, and intervals of that standard error."""
    cells = []
    for workload, capacity in CELLS:
        numbers = [{"number": "driver_calls.cudaMalloc", "change": 0}]
        for name in NUMBERS:
            change = change_of(workload, name)
            numbers.append({"number": name, "change": math.expm1(change), "change_low": math.expm1(change - 1.96 * error),
                            "change_high": math.expm1(change + 1.96 * error)})
        numbers.append({"number": "cold_ns", "change": None, "change_low": None, "change_high": None})
        cells.append({"workload": workload, "capacity": capacity, "seed": 0, "numbers": numbers})
    return {"cells": cells}


class Merges:
    def __init__(self, folder):
        self.history, self.file = Path(folder) / "history.jsonl", Path(folder) / "comparison.json"

    def add(self, made, *words):
        self.file.write_text(json.dumps(made))
        return subprocess.run([sys.executable, sys.argv[1], str(self.history), str(self.file), *words], capture_output=True, text=True)

    def count(self):
        return len(self.history.read_text().splitlines()) if self.history.exists() else 0


def main():
    failures = []

    def check(holds, text):
        if not holds:
            failures.append(text)

    with tempfile.TemporaryDirectory() as folder:
        merges = Merges(folder)
        codes = []
        for _ in range(4):
            done = merges.add(comparison(lambda workload, name: math.log(1.025) if (workload, name) == ("work2", "allocate_own_ns_p50") else 0))
            codes.append(done.returncode)
        check(codes[0] == 0 and 1 in codes[1:], f"2.5 % a merge: {codes}")
        check("drifted  work2 unlimited seed 0 allocate_own_ns_p50: +" in done.stdout and "work1" not in done.stdout, done.stdout)
        check(merges.count() == codes.index(1), f"a merge that drifted is kept: {merges.count()} of {codes}")
    with tempfile.TemporaryDirectory() as folder:
        merges = Merges(folder)
        draw = random.Random(5)
        codes = {merges.add(comparison(lambda *_: draw.gauss(0, 0.008))).returncode for _ in range(60)}
        check(codes == {0} and merges.count() == 60, f"chance: {codes}, {merges.count()} merges")
        before = merges.count()
        merges.add(comparison(lambda *_: 0), "--passed", "0")
        check(merges.count() == before, "a comparison that failed is kept")
        merges.history.write_text("no history\n")
        done = merges.add(comparison(lambda *_: 0))
        check(done.returncode == 2 and "cannot be read" in done.stderr, f"another file: {done.returncode}: {done.stderr}")
    print("\n".join(failures) or "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
