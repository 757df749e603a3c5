#!/usr/bin/env python3
"""Goal: what `allocmark estimate` says of jobs drawn at random is what they took on a card, and the published page is made of its files.
Method: the first jobs are drawn and predicted again; live bytes of both predictions are held to the measured ones; the page is made
again; then a fault is put into a row.

Usage: random_jobs_card_test.py SCRIPT PROGRAM PUBLISHED MISSES LEFT OPTION...     how many predictions were off when they were made, how
                                                                                   many of those below still are, and what draws them again"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPT, PROGRAM, PUBLISHED, MISSES, LEFT, *OPTIONS = sys.argv[1:]
LIVE_SHARE_MAX = 1e-4


def call(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")


def rows_of(path):
    lines = (line.split(";") for line in path.read_text().splitlines()[1:])
    return {(text, config): numbers for text, config, *numbers in lines}


def off(said, took):
    return [key for key, row in said.items() if abs(int(row[0]) / int(took[key][0]) - 1) > LIVE_SHARE_MAX]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file in pathlib.Path(PUBLISHED).iterdir():
            shutil.copy(file, folder / file.name)
        predicted, measured = (rows_of(folder / f"{which}.csv") for which in ("predicted", "measured"))
        if list(predicted) != list(measured):
            sys.exit("wanted a measured row for each predicted one")
        call("predict", PROGRAM, str(folder / "now"), *OPTIONS)
        now = rows_of(folder / "now" / "predicted.csv")
        strange = [key for key in now if key not in measured]
        if strange or not now:
            sys.exit(f"these jobs are not those that were measured: {strange}")
        if len(off(now, measured)) != int(LEFT) or len(off(predicted, measured)) != int(MISSES):
            sys.exit(f"live bytes are off: now {off(now, measured)}, when they were predicted {off(predicted, measured)}")
        call("page", str(folder))
        if (folder / "README.md").read_text() != (pathlib.Path(PUBLISHED) / "README.md").read_text():
            sys.exit("the published page is not what its files give: random_jobs_card.py page " + PUBLISHED)
        (text, config), (live, _) = list(measured.items())[3]
        spoilt = (folder / "measured.csv").read_text().replace(f"{text};{config};{live}", f"{text};{config};{int(live) * 2}")
        (folder / "measured.csv").write_text(spoilt)
        call("page", str(folder))
        if "-50.0000 %" not in (folder / "README.md").read_text():
            sys.exit("a row with twice its bytes does not show on the page")
    print(f"random_jobs_card_test: {len(measured)} rows, {len(now)} predicted again")


if __name__ == "__main__":
    main()
