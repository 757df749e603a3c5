#!/usr/bin/env python3
"""Goal: what `allocmark estimate` says of described jobs is what they took on a card, and the published page is made of its files.
Method: every job of scripts/measure/estimates_jobs.py is estimated and held to its measured row; the page is made again; then rows with
faults put in.

Usage: estimates_card_test.py SCRIPT PROGRAM PUBLISHED LIVE RESERVED NVIDIA_SMI

The last three are how far an estimate may be off, in percent."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPT, PROGRAM, PUBLISHED = sys.argv[1:4]
SHARE_MAX = {what: float(percent) / 100 for what, percent in zip(("live", "reserved", "nvidia_smi"), sys.argv[4:7], strict=True)}


def call(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")


def rows_of(folder):
    return [json.loads(line) for line in (folder / "measured.jsonl").read_text().splitlines()]


def worst_misses(said, rows):
    """Jobs whose estimate is farther off than SHARE_MAX."""
    return [f"{row['job']}: {what} {said[row['job']][what]}, on the card {row[what]}" for row in rows for what, share in SHARE_MAX.items()
            if abs(said[row["job"]][what] / row[what] - 1) > share]


def page_of(folder, rows):
    (folder / "measured.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    call("page", str(folder))
    return (folder / "README.md").read_text()


def spoil_reserved(row):
    row["reserved"] = row["reserved"] * 9 // 10


def spoil_failure(row):
    row["failure"] = "OutOfMemoryError: no memory"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file in pathlib.Path(PUBLISHED).iterdir():
            shutil.copy(file, folder / file.name)
        rows = rows_of(folder)
        call("predict", PROGRAM, str(folder / "now"), "--only", ",".join(row["job"] for row in rows))
        said = json.loads((folder / "now" / "predictions.json").read_text())["jobs"]
        first = json.loads((folder / "predictions.json").read_text())["jobs"]
        if sorted(first) != sorted(row["job"] for row in rows):
            sys.exit(f"wanted a row for each of {len(first)} predictions, got {len(rows)}")
        if misses := worst_misses(said, rows):
            sys.exit("estimates are off:\n" + "\n".join(misses))
        published = (pathlib.Path(PUBLISHED) / "README.md").read_text()
        if page_of(folder, rows) != published:
            sys.exit("the published page is not what its files give: estimates_card.py page " + PUBLISHED)
        off = 100 * (first[rows[3]["job"]]["reserved"] / (rows[3]["reserved"] * 9 // 10) - 1)
        for spoil, wanted in ((spoil_reserved, f"| {off:+.2f} % |"), (spoil_failure, "OutOfMemoryError: no memory")):
            changed = rows_of(pathlib.Path(PUBLISHED))
            spoil(changed[3])
            if wanted not in page_of(folder, changed):
                sys.exit(f"{spoil.__name__}: the page does not say '{wanted}'")
        spoil_reserved(rows[3])
        if len(worst_misses(said, rows)) != 1:
            sys.exit("a spoiled row was not found")


if __name__ == "__main__":
    main()
