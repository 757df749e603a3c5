#!/usr/bin/env python3
"""Holds `allocmark estimate` to peaks of training jobs that others published.

usage: published_peaks.py record PYTHON SIMCUDA FOLDER RECORDINGS [--jobs N]               programs of rows.csv -> recordings
       published_peaks.py predict ALLOCMARK FOLDER [--recordings RECORDINGS] [--jobs N] [--sets A,B]    rows.csv -> predictions.csv
       published_peaks.py compare FOLDER                                                   both -> README.md, its tables

A row with a program (peaks/) is recorded without a GPU and predicted from the recording; one with a workload alone is predicted from
that description. Predictions do not read what was measured: `record` and `predict` are given every column of rows.csv but `measured`
and `beside`. PYTHON has PyTorch and what the programs import; SIMCUDA is the folder of its libcudart.so.13.
"""

import argparse
import csv
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import peaks_spread
from text import table

UNITS = {"MiB": 1 << 20, "GiB": 1 << 30, "GB": 10**9}
HIDDEN = ("measured", "beside")
PROGRAMS = Path(__file__).resolve().parent / "peaks"
RECORDER = Path(__file__).resolve().parents[1] / "record" / "record_without_gpu.py"
FIELDS = ("set", "row", "source", "live_bytes", "reserved_bytes", "outside_bytes", "outside_low_bytes", "outside_high_bytes", "predicted_bytes",
          "low_bytes", "high_bytes", "fit", "failure")
OTHERS = {"accelerate": "accelerate", "deepspeed": "DeepSpeed"}
CONSTANT_FROM, CONSTANT_FOR = "C", "CK"  # the set that the constant is fitted to, and those of the same laboratory
SETS = {
    "A": "PEFT, Llama-3.2-3B",
    "A-image": "PEFT, FLUX.2 klein",
    "C": "GPUMemNet, timm",
    "E": "torchtune",
    "G": "Qwen (1)",
    "I": "NeMo Automodel",
    "J": "mbridge",
    "K": "GPUMemNet, test table",
    "L": "CARMA, its own runs",
    "M": "LitGPT, table of resources",
    "N": "torchtitan, Llama 3.1",
}


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def predicted_bytes(kind, estimate, setting):
    """What the row's number is: `shown` of the card, `reserved` by PyTorch, or `allocated` of it (`active` is the same without other streams)."""
    if kind == "shown":
        return setting["shown_bytes"]
    return setting["reserved_bytes"] if kind == "reserved" else setting["allocated_bytes"]


def bounds(kind, estimate, setting):
    """The interval of that number: what is printed for `shown`, else the same percents without what is outside."""
    if kind == "shown":
        return setting["shown_low_bytes"], setting["shown_high_bytes"]
    found, spread = predicted_bytes(kind, estimate, setting), estimate["spread_percent"]
    return round(found * (1 + spread["low"] / 100)), round(found * (1 + spread["high"] / 100))


def visible(row):
    return {key: value for key, value in row.items() if key not in HIDDEN}


def recording_name(row):
    """Rows with the same program and card share a recording."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", f"{row['device']}-{row['program']}").removeprefix("sim_") + ".ops.csv.gz"


def record(python, simcuda, folder, recordings, jobs):
    """One call of the recorder for each card; what is there already stays."""
    recordings.mkdir(parents=True, exist_ok=True)
    by_card = {}
    for row in map(visible, read_rows(folder / "rows.csv")):
        path = recordings / recording_name(row)
        if row["program"] and not path.exists():
            card = re.sub(r"^sim:(a100|h100|h200|l40s).*$", r"\1", row["device"])
            script, *words = shlex.split(row["program"])
            by_card.setdefault(card, {})[path] = shlex.join([str(path), str(PROGRAMS / script), *words])
    failed = False
    for card, lines in by_card.items():
        with tempfile.NamedTemporaryFile("w", suffix=".list") as listed:
            listed.write("".join(f"{line}\n" for line in lines.values()))
            listed.flush()
            words = [python, RECORDER, "--simcuda", simcuda, "--card", card, "--jobs", str(jobs), "--list", listed.name]
            failed |= subprocess.run(list(map(str, words))).returncode != 0
    if failed:
        raise SystemExit("published_peaks.py: some programs were not recorded; what stands above says why")


def predict_row(program, row, recordings=None):
    subject = row["workload"]
    if row["program"] and recordings and (recordings / recording_name(row)).exists():
        subject = str(recordings / recording_name(row))
    words = [program, "estimate", subject, "-d", row["device"], "--pytorch", row["pytorch"], "-c", "unset", "--format", "json"]
    run = subprocess.run(words, capture_output=True, text=True)
    if run.returncode != 0:
        return {"failure": " ".join(run.stderr.split())[:300]}
    estimate = json.loads(run.stdout)
    setting = estimate["settings"][0]
    if setting["failure"]:
        return {"failure": setting["failure"]}
    outside = estimate["outside"]
    ranks = int(row["ranks"])
    found = predicted_bytes(row["kind"], estimate, setting)
    low, high = bounds(row["kind"], estimate, setting)
    return {
        "source": "program" if subject != row["workload"] else "description",
        "live_bytes": estimate["live_bytes"],
        "reserved_bytes": setting["reserved_bytes"],
        "outside_bytes": outside["context_bytes"] + outside["modules_bytes"],
        "outside_low_bytes": outside["low_bytes"],
        "outside_high_bytes": outside["high_bytes"],
        "predicted_bytes": found * ranks,
        "low_bytes": low * ranks,
        "high_bytes": high * ranks,
        "fit": setting["fit"],
        "failure": "",
    }


def predict(program, folder, jobs, recordings=None, sets=None):
    """Rows of other sets keep the predictions that they have."""
    rows = [visible(row) for row in read_rows(folder / "rows.csv")]
    path = folder / "predictions.csv"
    kept = {(one["set"], one["row"]): one for one in read_rows(path) if one["set"] not in sets} if sets else {}
    asked = [row for row in rows if not sets or row["set"] in sets]
    asked = [row for row in asked if row["workload"] or (row["program"] and recordings and (recordings / recording_name(row)).exists())]
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda row: predict_row(program, row, recordings), asked))
    made = kept | {(row["set"], row["row"]): {"set": row["set"], "row": row["row"], **one} for row, one in zip(asked, found)}
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(made[name] for row in rows if (name := (row["set"], row["row"])) in made)
    failed = [(row["row"], one["failure"]) for row, one in zip(asked, found) if one["failure"]]
    print(f"{len(asked) - len(failed)} of {len(asked)} rows predicted")
    for name, failure in failed:
        print(f"{name}: {failure}", file=sys.stderr)


class Row:
    """A published row beside its prediction, all in bytes. `others`: what other estimators say of its model, by their names."""

    def __init__(self, row, prediction, others=None):
        unit = UNITS[row["unit"]]
        self.set, self.name, self.kind, self.status = row["set"], row["row"], row["kind"], row["status"]
        self.gap = row["not_generated"]
        self.measured = float(row["measured"]) * unit
        self.beside = float(row["beside"]) * unit if row["beside"] else None
        self.beside_name = row["beside_name"]
        self.others = others or {}
        self.source = prediction["source"] if prediction else ""
        self.failure = prediction["failure"] if prediction else ""
        self.fit = prediction["fit"] if prediction else ""
        self.predicted = int(prediction["predicted_bytes"]) if prediction and prediction["predicted_bytes"] else None
        # The allocator's part of the number, and what may lie outside of it, of all ranks.
        ranks = int(row["ranks"])
        part = prediction["reserved_bytes" if self.kind in ("shown", "reserved") else "live_bytes"] if self.predicted else ""
        self.allocator = int(part) * ranks if part else None
        self.outside_low, self.outside_high = (int(prediction[f"outside_{end}_bytes"]) * ranks if part else None for end in ("low", "high"))
        self.low = int(prediction["low_bytes"]) if prediction and prediction["low_bytes"] else None
        self.high = int(prediction["high_bytes"]) if prediction and prediction["high_bytes"] else None

    @property
    def error(self):
        return self.predicted / self.measured - 1


def model_of(program):
    """A row's model, as peaks/estimators.py names it."""
    script, *words = program.split()
    return script if script in ("peft_steps.py", "flux_steps.py") else f"{script} {words[0]}"


def join(rows, predictions, estimators=()):
    by_name = {(one["set"], one["row"]): one for one in predictions}
    by_model = {one["model"]: {name: float(one[f"{name}_bytes"]) for name in OTHERS if one[f"{name}_bytes"]} for one in estimators}
    return [Row(row, by_name.get((row["set"], row["row"])), by_model.get(model_of(row["program"])) if row["program"] else None) for row in rows]


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


def constant_of(rows):
    """What a laboratory's driver and libraries hold beyond ours, from one of its sets: the other is then predicted with it."""
    own = [row for row in held(rows) if row.set == CONSTANT_FROM]
    return fitted_constant(own, lambda row: row.predicted) if own else 0


def adjusted(row, constant):
    return row.predicted + (constant if row.set in CONSTANT_FOR else 0)


def with_constant(rows):
    """Sets of one laboratory, whose driver and release nobody states: as predicted, and with one constant; FakeTensor with its own."""
    more, lines = constant_of(rows), []

    def add(title, own, value_of, constant):
        made = absolute([(value_of(row) + constant) / row.measured - 1 for row in own])
        lines.append([title, f"{constant / (1 << 20):+.0f}" if constant else "0", *made])

    for name in CONSTANT_FOR:
        own = [row for row in held(rows) if row.set == name]
        for title, constant in (("no constant", 0), (f"fitted to set {CONSTANT_FROM}", more)):
            if own:
                add(f"allocmark, set {name}, {title}", own, lambda row: row.predicted, constant)
    own = [row for row in held(rows) if row.set == CONSTANT_FROM and row.beside is not None]
    for title, constant in (("no constant", 0), ("its own, fitted", fitted_constant(own, lambda row: row.beside))):
        add(f"FakeTensor, set {CONSTANT_FROM}, {title}", own, lambda row: row.beside, constant)
    return table(["prediction", "constant, MiB:", "median size:", "mean size:", "within 5 %:"], lines)


def by_source(rows):
    """Rows whose set-up is stated or guessed alike; what the card's laboratory holds besides counts as its other set says."""
    more = constant_of(rows)
    lines = []
    for source, title in (("description", "a description"), ("program", "the program, run without a GPU")):
        own = [row for row in held(rows) if row.source == source]
        if own:
            plain = absolute([row.error for row in own])
            lines.append([title, len(own), *plain, *absolute([adjusted(row, more) / row.measured - 1 for row in own])])
    names = ["median size:", "mean size:", "within 5 %:"]
    return table(["predicted from", "rows:", *names, *(f"with the constant, {name}" for name in names)], lines)


def beside_others(rows):
    """Each estimator on the rows that it says something of, ours on the same."""
    lines = []
    for name, title in OTHERS.items():
        for which in [*SETS, "all"]:
            own = [row for row in held(rows) if name in row.others and which in (row.set, "all")]
            if own:
                theirs = absolute([row.others[name] / row.measured - 1 for row in own])
                lines.append([title, "**all**" if which == "all" else which, len(own), theirs[0], theirs[2], *absolute([row.error for row in own])[::2]])
    return table(["estimator", "set", "rows:", "median size of its error:", "within 5 %:", "allocmark's:", "within 5 %:"], lines)


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
    """Rows beyond 5 %, with the constant where it applies."""
    more = constant_of(rows)
    lines, explained = [], 0
    for row in held(rows):
        fitted = adjusted(row, more) / row.measured - 1
        if abs(row.error) > 0.05 and abs(fitted) <= 0.05:
            explained += 1
        if abs(fitted) > 0.05:
            sizes = [f"{row.measured / 1e9:.2f}", f"{row.predicted / 1e9:.2f}"]
            lines.append([row.set, row.name, *sizes, percent(row.error), percent(fitted), reason_of(row, reasons)])
    text = f"{explained} more rows are within 5 % with the constant above.\n\n"
    return text + table(["set", "row", "measured, GB:", "predicted, GB:", "error:", "with the constant:", "why"], lines)


def not_held(rows):
    counts = {}
    for row in rows:
        if row.predicted is None:
            key = (row.set, row.gap or row.failure or "the program was not run")
            counts[key] = counts.get(key, 0) + 1
    return table(["set", "rows:", "what is missing"], [[name, count, gap] for (name, gap), count in counts.items()])


def every_row(rows):
    def others(row):
        return [f"{row.others[name] / 1e9:.2f}" if name in row.others else "" for name in OTHERS]

    lines = [[row.set, row.name, row.source, f"{row.measured / 1e9:.2f}", f"{row.predicted / 1e9:.2f}", percent(row.error), *others(row)]
             for row in held(rows)]
    return table(["set", "row", "from", "measured, GB:", "predicted, GB:", "error:", *(f"{name}:" for name in OTHERS.values())], lines)


def fill(text, name, made):
    """The page's part of that name, replaced."""
    head = f"<!-- made by scripts/publish/published_peaks.py: {name} -->\n"
    if head not in text:
        raise SystemExit(f"README.md has no part '{head.strip()}'")
    before, rest = text.split(head, 1)
    return before + head + made + "<!-- end -->" + rest.split("<!-- end -->", 1)[1]


def page(folder):
    rows = join(read_rows(folder / "rows.csv"), read_rows(folder / "predictions.csv"), read_rows(folder / "estimators.csv"))
    reasons = read_rows(folder / "reasons.csv")
    text = (folder / "README.md").read_text()
    parts = {
        "sets": by_set(rows),
        "constant": with_constant(rows),
        "sources": by_source(rows),
        "others": beside_others(rows),
        "fits": fits(rows),
        "interval": covered(rows),
        "spread": peaks_spread.tables(held(rows)),
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
    one.add_argument("--recordings", type=Path, help="folder of `record`")
    one.add_argument("--sets", type=lambda text: text.split(","), help="rows of these sets alone; the others' predictions stay")
    three = commands.add_parser("record")
    three.add_argument("python")
    three.add_argument("simcuda")
    three.add_argument("folder", type=Path)
    three.add_argument("recordings", type=Path)
    three.add_argument("--jobs", type=int, default=2)
    two = commands.add_parser("compare")
    two.add_argument("folder", type=Path)
    asked = parser.parse_args()
    if asked.command == "record":
        record(asked.python, asked.simcuda, asked.folder, asked.recordings, asked.jobs)
    elif asked.command == "predict":
        predict(asked.program, asked.folder, asked.jobs, asked.recordings, asked.sets)
    else:
        (asked.folder / "README.md").write_text(page(asked.folder))


if __name__ == "__main__":
    main()
