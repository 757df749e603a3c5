#!/usr/bin/env python3
"""Do jobs that were drawn at random take on the card what `allocmark estimate` said before?

usage: random_jobs_card.py predict ALLOCMARK FOLDER [--seed N] [--train N] [--infer N] ...   writes FOLDER/predicted.csv; no GPU
       random_jobs_card.py measure FOLDER [--jobs N] [--room-gib N]     runs each job under each config; needs a GPU, PyTorch, transformers, peft
       random_jobs_card.py page FOLDER                   writes FOLDER/README.md from both files and FOLDER/notes.md

The jobs are those of scripts/record/random_jobs.py with another seed, and the programs those of described_job.py beside it. Each job
runs in a process of its own. What is compared is PyTorch's own count, which other processes on the card do not change.
"""
import argparse
import contextlib
import csv
import json
import os
import statistics
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, "..", "record")
sys.path.insert(0, RECORD)
import draw_jobs  # noqa: E402

CONFIGS = {"unset": "", "expandable_segments:True": "expandable_segments:True"}
NUMBERS = "live_bytes", "reserved_bytes"
COLUMNS = "text", "config", *NUMBERS
CONTEXT_BYTES = 1 << 30  # of a process beside what its allocator reserves


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return {(row["text"], row["config"]): row for row in csv.DictReader(file, delimiter=";")}


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter=";", lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def predict(arguments):
    os.makedirs(arguments.folder, exist_ok=True)
    rows = []
    for text in draw_jobs.drawn(arguments):
        for config in CONFIGS:
            run = subprocess.run([arguments.allocmark, "estimate", text, "--pytorch", "2.11", "--conf", config, "--format", "json"],
                                 capture_output=True, text=True)
            if run.returncode:
                sys.exit(f"random_jobs_card.py: {text}: {run.stderr.strip()}")
            said = json.loads(run.stdout)
            (of_config,) = said["settings"]
            rows.append((text, config, said["live_bytes"], of_config["reserved_bytes"]))
    write(os.path.join(arguments.folder, "predicted.csv"), rows)


class Room:
    """What the card holds, for jobs that run at once. A job larger than all of it runs alone."""

    def __init__(self, byte_count):
        self.all_bytes, self.left_bytes, self.changed = byte_count, byte_count, threading.Condition()

    @contextlib.contextmanager
    def of(self, byte_count):
        byte_count = min(byte_count + CONTEXT_BYTES, self.all_bytes)
        with self.changed:
            self.changed.wait_for(lambda: self.left_bytes >= byte_count)
            self.left_bytes -= byte_count
        try:
            yield
        finally:
            with self.changed:
                self.left_bytes += byte_count
                self.changed.notify_all()


def measure_one(key):
    text, config = key
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTORCH_CUDA_ALLOC_CONF=CONFIGS[config])
    run = subprocess.run([sys.executable, "-W", "ignore", os.path.join(RECORD, "described_job.py"), text], capture_output=True, text=True,
                         env=environment)
    words = run.stdout.split()
    if run.returncode or "requested" not in words:
        print(f"random_jobs_card.py: {text}: {run.stderr.strip()[-500:]}", file=sys.stderr)
        return None
    return text, config, words[words.index("requested") + 1], words[words.index("reserved") + 1]


def measure(arguments):
    """A row is written when its run ends. Called again, it runs what has no row."""
    predicted, room = read(os.path.join(arguments.folder, "predicted.csv")), Room(arguments.room_gib << 30)
    path = os.path.join(arguments.folder, "measured.csv")
    rows = {key: tuple(row[name] for name in COLUMNS) for key, row in (read(path) if os.path.exists(path) else {}).items()}
    write(path, rows.values())

    def measure_in_room(key):
        with room.of(int(predicted[key]["reserved_bytes"])):
            return key, measure_one(key)

    with ThreadPoolExecutor(arguments.jobs) as pool, open(path, "a", encoding="utf-8", newline="") as out:
        for run in as_completed([pool.submit(measure_in_room, key) for key in predicted if key not in rows]):
            key, row = run.result()
            if row:
                rows[key] = row
                csv.writer(out, delimiter=";", lineterminator="\n").writerow(row)
                out.flush()
    write(path, [rows[key] for key in predicted if key in rows])
    if len(rows) < len(predicted):
        sys.exit(f"random_jobs_card.py: {len(predicted) - len(rows)} of {len(predicted)} runs failed")


def percent(value):
    return "0" if value == 0 else f"{100 * value:+.4f} %"


def page(arguments):
    predicted, measured = (read(os.path.join(arguments.folder, f"{name}.csv")) for name in ("predicted", "measured"))
    missing = [key for key in predicted if key not in measured]
    lines = ["# Jobs drawn at random, and what they took on a card", "", "`scripts/measure/random_jobs_card.py` makes this page.", ""]
    with open(os.path.join(arguments.folder, "notes.md"), encoding="utf-8") as file:
        lines += [file.read().strip(), ""]
    lines += ["| number | config | jobs | equal to the byte | median error | worst | within 0.01 % | within 1 % |",
              "| :-- | :-- | --: | --: | --: | --: | --: | --: |"]
    worst = []
    for number in NUMBERS:
        for config in CONFIGS:
            pairs = [(key[0], int(predicted[key][number]), int(row[number])) for key, row in measured.items() if key[1] == config]
            errors = [(said / took - 1, text, said, took) for text, said, took in pairs]
            sizes = [abs(error) for error, *_ in errors]
            far = max(errors, key=lambda one: abs(one[0]))
            lines.append(f"| {number.split('_')[0]} | `{config}` | {len(pairs)} | {sum(said == took for _, said, took in pairs)} | "
                         f"{percent(statistics.median(sizes))} | {percent(far[0])} | {sum(size <= 1e-4 for size in sizes)} | "
                         f"{sum(size <= 1e-2 for size in sizes)} |")
            worst += [(number, config, *error) for error in errors if abs(error[0]) > 1e-4]
    lines += ["", f"Runs that failed: {len(missing)}.", "", "## Further off than 0.01 %", ""]
    if worst:
        lines += ["| number | config | predicted | took | off | job |", "| :-- | :-- | --: | --: | --: | :-- |"]
    lines += [f"| {number.split('_')[0]} | `{config}` | {said:,} | {took:,} | {percent(error)} | `{text}` |"
              for number, config, error, text, said, took in sorted(worst, key=lambda one: -abs(one[2]))] or ["None."]
    with open(os.path.join(arguments.folder, "README.md"), "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("predict")
    one.add_argument("allocmark")
    one.add_argument("folder")
    draw_jobs.add_counts(one, 2, {"train": 120, "infer": 60})
    one = commands.add_parser("measure")
    one.add_argument("folder")
    one.add_argument("--jobs", type=int, default=8, help="at once")
    one.add_argument("--room-gib", type=int, default=120, help="what jobs that run at once may reserve, as predicted (default 120)")
    commands.add_parser("page").add_argument("folder")
    arguments = parser.parse_args()
    {"predict": predict, "measure": measure, "page": page}[arguments.command](arguments)


if __name__ == "__main__":
    main()
