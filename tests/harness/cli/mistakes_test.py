#!/usr/bin/env python3
"""Every row of mistakes.tsv: the program ends with the exit code, says the phrase, and leaves stdout empty where it has no answer.

Usage: mistakes_test.py PATH_OF_ALLOCMARK
"""
import pickle
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS_MIN = 60
# CLI11's sets of names and what fmt leaves of a text that was not formatted.
MAKING = re.compile(r"\{[\w-]*(,[\w-]+)*\}")

# What a file holds must not reach the terminal as control characters.
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def call(program, words):
    return subprocess.run([program, *words], capture_output=True, text=True, errors="replace", timeout=120, check=False)


def make_files(program, work):
    (work / "folder").mkdir()
    (work / "empty.csv").touch()
    (work / "empty_results").mkdir()
    (work / "empty_results" / "results.jsonl").touch()
    (work / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1")
    (work / "snapshot.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    (work / "qualify.json").write_text('{"verdict": "PASS", "exit_code": 0, "gpus": []}\n')
    for name in ("good.csv", "there.csv", "replaced.csv"):
        (work / name).write_text("op,id,size,stream\nalloc,1,512,0\nfree,1,0,0\n")
    for name in ("run", "other"):
        made = call(program, ["run", "--workload", f"file:{work}/good.csv", "--allocator", "null", "--device", "sim:h200", "--passes", "1",
                              "--allow-debug", "--out", str(work / name)])
        assert made.returncode == 0, made.stderr


def read_rows(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            yield (number, *line.split("\t"))


def complaint_of(program, work, row):
    _, code, stdout, phrase, text = row
    words = shlex.split(text.replace("{W}", str(work)))
    phrase = phrase.replace("{W}", str(work))
    result = call(program, words)
    if result.returncode != int(code):
        return f"exit code {result.returncode}, wanted {code}"
    if (stdout == "empty") != (result.stdout == ""):
        return f"stdout is {'not empty' if result.stdout else 'empty'}"
    if phrase not in (result.stderr if stdout == "empty" else result.stdout + result.stderr):
        return f"does not say: {phrase}"
    if "allocmark: allocmark" in result.stderr or MAKING.search(result.stderr) or CONTROL.search(result.stderr):
        return "the message leaks its making"
    if len(result.stderr) > 1500:
        return f"the message has {len(result.stderr)} characters"
    return None


def main(program):
    rows = list(read_rows(Path(__file__).with_name("mistakes.tsv")))
    assert len(rows) >= ROWS_MIN, len(rows)
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        make_files(program, work)
        for row in rows:
            complaint = complaint_of(program, work, row)
            if complaint:
                failures += 1
                said = call(program, shlex.split(row[4].replace("{W}", name)))
                print(f"mistakes.tsv:{row[0]}: allocmark {row[4]}\n    {complaint}\n    {(said.stderr or said.stdout)[:400]}")
    print(f"{len(rows) - failures} of {len(rows)} mistakes are answered rightly")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
