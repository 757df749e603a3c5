#!/usr/bin/env python3
"""Says whether what single merges could not show adds up. Each comparison that passed adds its timed changes to a history file; where
the sum of a number's changes is larger than its floor and clear of chance, it has drifted.

Usage: drift.py HISTORY COMPARISON.json [--passed 1] [--floor PERCENT]
In: the history, a JSON object a line, oldest first, which may be missing; a comparison as of `allocmark compare DIR --format json`. Out:
a line for each number that drifted, and the history with this comparison behind it, where it passed. A comparison that drifted is not
added: to accept it, empty the file. Exit codes: 0, 1 drifted, 2 a file that cannot be read.
"""

import argparse
import datetime
import json
import math
import sys
from pathlib import Path

# Of a cell's numbers, those with an interval that a merge of 2.5 % hardly leaves; tails scatter too much to be added up.
FOLLOWED = ("_p50", "_mean", "allocator_ns_per_step", "thread_cpu_ns")
# The sum counts where it is so many standard errors from 0: there are some hundred numbers, looked at with every merge.
ERRORS_MIN = 4.0
# A 95 % interval reaches so many of them to either side. Intervals of several looks are wider, which errs to the safe side.
REACH = 1.96


def changes_of(comparison):
    """{"cell number": [log of the change, its standard error]} of the timed numbers that have an interval."""
    changes = {}
    for cell in comparison["cells"]:
        name = f"{cell['workload']} {cell['capacity']} seed {cell['seed']}"
        for number in cell["numbers"]:
            low, high, change = (number.get(key) for key in ("change_low", "change_high", "change"))
            if None in (low, high, change) or not number["number"].endswith(FOLLOWED):
                continue
            error = (math.log1p(high) - math.log1p(low)) / (2 * REACH)
            changes[f"{name} {number['number']}"] = [round(math.log1p(change), 6), round(error, 6)]
    return changes


def read_history(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def drifted(merges, floor):
    """Lines about the numbers whose changes add up over these merges."""
    sums = {}
    for merge in merges:
        for name, (change, error) in merge["changes"].items():
            total = sums.setdefault(name, [0.0, 0.0, 0])
            total[0] += change
            total[1] += error * error
            total[2] += 1
    lines = []
    for name, (change, variance, count) in sorted(sums.items(), key=lambda item: -item[1][0]):
        if count > 1 and change > math.log1p(floor) and change > ERRORS_MIN * math.sqrt(variance):
            lines.append(f"drifted  {name}: {math.expm1(change):+.1%} over {count} merges, since {merges[0]['utc']}")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("history", type=Path)
    parser.add_argument("comparison", type=Path)
    parser.add_argument("--passed", type=int, default=1)
    parser.add_argument("--floor", type=float, default=5, help="percent")
    options = parser.parse_args()
    try:
        merges = read_history(options.history)
        comparison = json.loads(options.comparison.read_text())
        now = {"utc": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "changes": changes_of(comparison)}
        lines = drifted([*merges, now], options.floor / 100)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"drift.py: {options.history} or {options.comparison} cannot be read: {error!r}; wanted what gate.sh wrote", file=sys.stderr)
        return 2
    print("\n".join(lines) if lines else f"nothing drifted over {len(merges) + 1} merges")
    if options.passed and not lines:
        with options.history.open("a") as file:
            file.write(json.dumps(now) + "\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
