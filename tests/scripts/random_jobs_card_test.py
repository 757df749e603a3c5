#!/usr/bin/env python3
"""Goal: what `allocmark estimate` says of jobs drawn at random is what they took on a card, and the published page is made of its files.
Method: the first jobs are drawn and predicted again; live bytes of both predictions are held to the measured ones; the page is made
again; then a fault is put into a row.

Usage: random_jobs_card_test.py SCRIPT PROGRAM PUBLISHED"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPT, PROGRAM, PUBLISHED = sys.argv[1:4]
LIVE_SHARE_MAX = 1e-4
AGAIN = "24"


def call(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")


def rows_of(path):
    return [line.split(";") for line in path.read_text().splitlines()[1:]]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file in pathlib.Path(PUBLISHED).iterdir():
            shutil.copy(file, folder / file.name)
        predicted, measured = (rows_of(folder / f"{which}.csv") for which in ("predicted", "measured"))
        if [row[:2] for row in predicted] != [row[:2] for row in measured]:
            sys.exit("wanted a measured row for each predicted one")
        call("predict", PROGRAM, str(folder / "now"), "--train", AGAIN, "--infer", "0")
        now = rows_of(folder / "now" / "predicted.csv")
        if [row[:2] for row in now] != [row[:2] for row in predicted[:len(now)]]:
            sys.exit(f"the first {AGAIN} jobs are no longer those that were measured")
        off = [(said[0], said[2], took[2]) for said, took in zip(now + predicted, measured[:len(now)] + measured)
               if abs(int(said[2]) / int(took[2]) - 1) > LIVE_SHARE_MAX]
        if off:
            sys.exit(f"live bytes are off: {off}")
        call("page", str(folder))
        if (folder / "README.md").read_text() != (pathlib.Path(PUBLISHED) / "README.md").read_text():
            sys.exit("the published page is not what its files give: random_jobs_card.py page " + PUBLISHED)
        text, config, live, _ = measured[3]
        spoilt = (folder / "measured.csv").read_text().replace(f"{text};{config};{live}", f"{text};{config};{int(live) * 2}")
        (folder / "measured.csv").write_text(spoilt)
        call("page", str(folder))
        if "-50.0000 %" not in (folder / "README.md").read_text():
            sys.exit("a row with twice its bytes does not show on the page")
    print(f"random_jobs_card_test: {len(measured)} rows, {len(now)} predicted again")


if __name__ == "__main__":
    main()
