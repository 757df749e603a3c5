#!/usr/bin/env python3
"""Does a program that knows nothing of allocmark take on simcuda what it takes on a card? The programs are those of unmodified_jobs.py.

usage: unmodified_card.py run FILE.jsonl [--only NAME,...] [--values]  each program in a process of its own, on the CUDA that is there:
                                                             under `simcuda-run --kernels nothing`, or on a GPU
       unmodified_card.py page FOLDER                        FOLDER/README.md from card.jsonl there and, by the card's name,
                                                             simulated-h200.jsonl or simulated-h100.jsonl

--values: with small_values.py, which gives small tensors their values (on simcuda).

A row is what PyTorch counted (torch.cuda.memory_stats) and what the device had in use at the program's end, or the error.
"""
import argparse
import json
import pathlib
import subprocess
import sys

from unmodified_jobs import BY_VALUES, NAMED
from unmodified_jobs import run as run_job

HERE = pathlib.Path(__file__).resolve()
GIB = 1 << 30
TIMEOUT_S = 400
COMPARED = ("live", "allocated", "reserved", "requests", "segments", "returned")


def run(arguments):
    names = arguments.only.split(",") if arguments.only else list(NAMED)
    with open(arguments.file, "a") as file:
        for name in names:
            try:
                beside = [HERE.parent.parent / "record" / "small_values.py"] if arguments.values else []
                done = subprocess.run([sys.executable, *beside, HERE, "one", name], capture_output=True, text=True, timeout=TIMEOUT_S)
                line = next((line for line in done.stdout.splitlines() if line.startswith("{")), "")
                row = json.loads(line) if line else {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]}
            except subprocess.TimeoutExpired:
                row = {"error": f"no end after {TIMEOUT_S} s"}
            file.write(json.dumps({"program": name, **row}) + "\n")
            file.flush()
            print(name, json.dumps(row), flush=True)


def one(arguments):
    import torch

    row = run_job(arguments.name)
    print(json.dumps({**row, "device": torch.cuda.get_device_name(), "pytorch": torch.__version__}))


def read(path):
    """The last row of each program."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["program"]: row for row in rows}


def numbers(row):
    """A row's numbers; of several ranks those of the one that took most. What they have in use has gone when the program looks."""
    if isinstance(row["returned"], list) and isinstance(row["returned"][0], list):
        _, live, reserved, requests = max(row["returned"], key=lambda rank: rank[2])
        return {**row, "live": live, "reserved": reserved, "requests": requests, "used_at_end": 0}
    return row


def worst_of(pairs):
    """The largest distance, in percent."""
    return max(abs(100 * (said - measured) / measured) for said, measured in pairs)


def off(said, measured):
    if measured == 0:
        return ""
    return "equal" if said == measured else f"{100 * (said - measured) / measured:+.4f} %"


def page(arguments):
    card = read(arguments.folder / "card.jsonl")
    any_card = next(row for row in card.values() if "device" in row)
    simulated = read(arguments.folder / f"simulated-{'h100' if 'H100' in any_card['device'] else 'h200'}.jsonl")
    notes = arguments.folder / "notes.md"
    rows, equal, judged, both = [], 0, 0, {"live": [], "reserved": []}
    shown = [name for name in NAMED if name in simulated or name in card]
    for name in shown:
        said, measured = simulated.get(name, {"error": "not run"}), card.get(name, {"error": "not run"})
        if "error" in said or "error" in measured:
            rows.append(f"| `{name}` | {said.get('error', 'ran')} | {measured.get('error', 'ran')} | | | | |")
            judged += name not in BY_VALUES
            continue
        same = all(said[number] == measured[number] for number in COMPARED)
        said, measured = numbers(said), numbers(measured)
        if name not in BY_VALUES:
            judged += 1
            equal += same
            for number, pairs in both.items():
                pairs.append((said[number], measured[number]))
        rows.append(f"| `{name}`{'' if name not in BY_VALUES else ' *'} | {measured['live'] / GIB:.2f} | {measured['reserved'] / GIB:.2f} | "
                    + " | ".join(off(said[number], measured[number]) for number in ("live", "reserved", "requests", "used_at_end")) + " |")
    lines = ["# Programs that know nothing of allocmark, on simcuda and on a card", "",
             "`scripts/measure/unmodified_card.py` makes this page. Each program of `unmodified_jobs.py` ran under",
             "`simcuda-run --kernels nothing`, on a machine without a GPU, and the numbers were committed. Then it ran on a card.",
             f"Card: {any_card['device']}, PyTorch {any_card['pytorch']}.", "",
             "Of the programs whose memory hangs on no values:", "",
             *(f"- peak {number}: {sum(said == measured for said, measured in pairs)} of {judged} equal to the byte, the worst "
               f"{worst_of(pairs):.2f} % off;" for number, pairs in both.items()),
             f"- {equal} of {judged} are equal in everything that is compared: {', '.join(COMPARED)}.", "",
             notes.read_text() if notes.exists() else "",
             "*live*, *reserved*: peaks of `requested_bytes` and `reserved_bytes`, GiB on the card; then how far simcuda is off: both, the number of",
             "requests, and the device's memory in use at the program's end.", "",
             "| program | live | reserved | live | reserved | requests | in use |", "| :-- | --: | --: | --: | --: | --: | --: |", *rows, ""]
    starred = [f"- `{name}`: {why}." for name, why in BY_VALUES.items() if name in shown]
    if starred:
        lines += ["With a star: memory that hangs on values or on time, of which simcuda knows nothing.", "", *starred]
    (arguments.folder / "README.md").write_text("\n".join(lines) + "\n")
    print(f"{equal} of {judged} equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(required=True)
    of_run = commands.add_parser("run")
    of_run.add_argument("file", type=pathlib.Path)
    of_run.add_argument("--only", default="")
    of_run.add_argument("--values", action="store_true")
    of_run.set_defaults(call=run)
    of_one = commands.add_parser("one")
    of_one.add_argument("name", choices=sorted(NAMED))
    of_one.set_defaults(call=one)
    of_page = commands.add_parser("page")
    of_page.add_argument("folder", type=pathlib.Path)
    of_page.set_defaults(call=page)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
