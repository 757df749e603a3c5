#!/usr/bin/env python3
"""Holds `allocmark estimate` to peaks of training jobs that others published.

usage: published_peaks.py predict ALLOCMARK FOLDER [--jobs N]     rows.csv -> predictions.csv
       published_peaks.py compare FOLDER                          both -> README.md, its tables

Predictions do not read what was measured: `predict` is given every column of rows.csv but `measured` and `beside`.
"""

import argparse
import csv
import json
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from text import table

UNITS = {"MiB": 1 << 20, "GiB": 1 << 30, "GB": 10**9}
HIDDEN = ("measured", "beside")
FIELDS = ("set", "row", "live_bytes", "reserved_bytes", "outside_bytes", "predicted_bytes", "low_bytes", "high_bytes", "fit", "failure")
SETS = {
    "A": "PEFT, Llama-3.2-3B",
    "A-image": "PEFT, FLUX.2 klein",
    "C": "GPUMemNet, timm",
    "E": "torchtune",
    "G": "Qwen (1)",
    "I": "NeMo Automodel",
    "J": "mbridge",
    "K": "GPUMemNet, test table",
}


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def predicted_bytes(kind, estimate, setting):
    """What the row's number is: `shown` of the card, `reserved` by PyTorch, or `allocated` of it (`active` is the same without other streams)."""
    if kind == "shown":
        return setting["shown_bytes"]
    return setting["reserved_bytes"] if kind == "reserved" else estimate["live_bytes"]


def predict_row(program, row):
    words = [program, "estimate", row["workload"], "-d", row["device"], "--pytorch", row["pytorch"], "-c", "unset", "--format", "json"]
    run = subprocess.run(words, capture_output=True, text=True)
    if run.returncode != 0:
        return {"failure": " ".join(run.stderr.split())[:300]}
    estimate = json.loads(run.stdout)
    setting = estimate["settings"][0]
    if setting["failure"]:
        return {"failure": setting["failure"]}
    outside = estimate["outside"]
    found = predicted_bytes(row["kind"], estimate, setting) * int(row["ranks"])
    return {
        "live_bytes": estimate["live_bytes"],
        "reserved_bytes": setting["reserved_bytes"],
        "outside_bytes": outside["context_bytes"] + outside["modules_bytes"],
        "predicted_bytes": found,
        "low_bytes": setting["shown_low_bytes"] * int(row["ranks"]) if row["kind"] == "shown" else "",
        "high_bytes": setting["shown_high_bytes"] * int(row["ranks"]) if row["kind"] == "shown" else "",
        "fit": setting["fit"],
        "failure": "",
    }


def predict(program, folder, jobs):
    rows = [{key: value for key, value in row.items() if key not in HIDDEN} for row in read_rows(folder / "rows.csv")]
    asked = [row for row in rows if row["workload"]]
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda row: predict_row(program, row), asked))
    with open(folder / "predictions.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
        writer.writeheader()
        for row, one in zip(asked, found):
            writer.writerow({"set": row["set"], "row": row["row"], **one})
    failed = [(row["row"], one["failure"]) for row, one in zip(asked, found) if one["failure"]]
    print(f"{len(asked) - len(failed)} of {len(asked)} rows predicted")
    for name, failure in failed:
        print(f"{name}: {failure}", file=sys.stderr)


class Row:
    """A published row beside its prediction, all in bytes."""

    def __init__(self, row, prediction):
        unit = UNITS[row["unit"]]
        self.set, self.name, self.kind, self.status = row["set"], row["row"], row["kind"], row["status"]
        self.gap = row["not_generated"]
        self.measured = float(row["measured"]) * unit
        self.beside = float(row["beside"]) * unit if row["beside"] else None
        self.beside_name = row["beside_name"]
        self.failure = prediction["failure"] if prediction else ""
        self.fit = prediction["fit"] if prediction else ""
        self.predicted = int(prediction["predicted_bytes"]) if prediction and prediction["predicted_bytes"] else None
        self.low = int(prediction["low_bytes"]) if prediction and prediction["low_bytes"] else None
        self.high = int(prediction["high_bytes"]) if prediction and prediction["high_bytes"] else None

    @property
    def error(self):
        return self.predicted / self.measured - 1


def join(rows, predictions):
    by_name = {(one["set"], one["row"]): one for one in predictions}
    return [Row(row, by_name.get((row["set"], row["row"]))) for row in rows]


def held(rows):
    """Those whose error counts: measured, and predicted."""
    return [row for row in rows if row.status == "measured" and row.predicted is not None]


def fitted_constant(rows, value_of):
    """What one constant would have to be, in bytes: the median of what is missing."""
    return statistics.median(row.measured - value_of(row) for row in rows)


def percent(share):
    return f"{100 * share:+.1f} %"


def absolute(errors):
    sizes = sorted(abs(error) for error in errors)
    within = sum(size <= 0.05 for size in sizes)
    return [f"{100 * statistics.median(sizes):.1f} %", f"{100 * statistics.fmean(sizes):.1f} %", f"{within} of {len(sizes)}"]


def by_set(rows):
    lines = []
    for name in [*SETS, "all"]:
        own = rows if name == "all" else [row for row in rows if row.set == name]
        errors = [row.error for row in held(own)]
        title = "**all**" if name == "all" else f"{name}. {SETS[name]}"
        counted = absolute(errors) if errors else ["-", "-", "-"]
        signed = percent(statistics.median(errors)) if errors else "-"
        lines.append([title, len(own), len(errors), signed, *counted])
    return table(["set", "rows:", "held:", "median error:", "median size of it:", "mean size:", "within 5 %:"], lines)


def with_constant(rows):
    """Set C, whose card, driver and release nobody states: as predicted, and with one constant fitted; FakeTensor's likewise."""
    own = [row for row in held(rows) if row.set == "C" and row.beside is not None]
    lines = []
    for name, value_of in (("allocmark", lambda row: row.predicted), ("FakeTensor", lambda row: row.beside)):
        more = fitted_constant(own, value_of)
        plain = absolute([value_of(row) / row.measured - 1 for row in own])
        fitted = absolute([(value_of(row) + more) / row.measured - 1 for row in own])
        lines.append([f"{name}, no constant", "0", *plain])
        lines.append([f"{name}, one constant fitted", f"{more / (1 << 20):+.0f}", *fitted])
    return table(["prediction", "constant, MiB:", "median size:", "mean size:", "within 5 %:"], lines)


def fits(rows):
    """Rows that ran out of memory, and rows that did not, where the card is 40 GB."""
    lines = []
    for row in rows:
        if row.status != "measured" and row.fit:
            lines.append([row.name, row.status.replace("_", " "), f"{row.measured / (1 << 20):.0f}", f"{row.predicted / (1 << 20):.0f}", row.fit])
    served = [row for row in rows if row.status == "measured" and row.fit and row.kind == "shown" and row.set in "CK"]
    wrong = [row.name for row in served if row.fit == "does not fit"]
    text = f"Of {len(served)} rows of sets C and K that ran, {len(served) - len(wrong)} are said to fit or to be unsure"
    text += f"; said not to: {', '.join(wrong)}.\n\n" if wrong else ".\n\n"
    return text + table(["row", "what happened", "largest, MiB:", "predicted, MiB:", "said"], lines)


def covered(rows):
    own = [row for row in held(rows) if row.low is not None]
    lines = []
    for name in [*SETS, "all"]:
        part = own if name == "all" else [row for row in own if row.set == name]
        if part:
            inside = sum(row.low <= row.measured <= row.high for row in part)
            lines.append(["**all**" if name == "all" else name, len(part), f"{inside} ({100 * inside / len(part):.0f} %)"])
    return table(["set", "rows with an interval:", "measured inside:"], lines)


def reason_of(row, reasons):
    for one in reasons:
        if one["set"] == row.set and re.search(one["row"], row.name):
            return one["reason"]
    return "open"


def misses(rows, reasons):
    """Rows beyond 5 %. Those of set C count with the set's constant, as it explains the others."""
    own = [row for row in held(rows) if row.set == "C"]
    more = fitted_constant(own, lambda row: row.predicted) if own else 0
    lines, explained = [], 0
    for row in held(rows):
        fitted = (row.predicted + more) / row.measured - 1 if row.set == "C" else row.error
        if abs(row.error) > 0.05 and abs(fitted) <= 0.05:
            explained += 1
        if abs(fitted) > 0.05:
            sizes = [f"{row.measured / 1e9:.2f}", f"{row.predicted / 1e9:.2f}"]
            lines.append([row.set, row.name, *sizes, percent(row.error), percent(fitted), reason_of(row, reasons)])
    text = f"{explained} more rows of set C are within 5 % with the constant above.\n\n"
    return text + table(["set", "row", "measured, GB:", "predicted, GB:", "error:", "with the constant:", "why"], lines)


def not_held(rows):
    counts = {}
    for row in rows:
        if row.predicted is None:
            key = (row.set, row.gap or row.failure)
            counts[key] = counts.get(key, 0) + 1
    return table(["set", "rows:", "what is missing"], [[name, count, gap] for (name, gap), count in counts.items()])


def every_row(rows):
    lines = [[row.set, row.name, f"{row.measured / 1e9:.2f}", f"{row.predicted / 1e9:.2f}", percent(row.error)] for row in held(rows)]
    return table(["set", "row", "measured, GB:", "predicted, GB:", "error:"], lines)


def fill(text, name, made):
    """The page's part of that name, replaced."""
    head = f"<!-- made by scripts/publish/published_peaks.py: {name} -->\n"
    if head not in text:
        raise SystemExit(f"README.md has no part '{head.strip()}'")
    before, rest = text.split(head, 1)
    return before + head + made + "<!-- end -->" + rest.split("<!-- end -->", 1)[1]


def page(folder):
    rows = join(read_rows(folder / "rows.csv"), read_rows(folder / "predictions.csv"))
    reasons = read_rows(folder / "reasons.csv")
    text = (folder / "README.md").read_text()
    parts = {
        "sets": by_set(rows),
        "constant": with_constant(rows),
        "fits": fits(rows),
        "interval": covered(rows),
        "misses": misses(rows, reasons),
        "not held": not_held(rows),
        "rows": every_row(rows),
    }
    for name, made in parts.items():
        text = fill(text, name, made)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("predict")
    one.add_argument("program")
    one.add_argument("folder", type=Path)
    one.add_argument("--jobs", type=int, default=2)
    two = commands.add_parser("compare")
    two.add_argument("folder", type=Path)
    asked = parser.parse_args()
    if asked.command == "predict":
        predict(asked.program, asked.folder, asked.jobs)
    else:
        (asked.folder / "README.md").write_text(page(asked.folder))


if __name__ == "__main__":
    main()
