#!/usr/bin/env python3
"""The page WHICH_RANK.md says what the program says: its table of planted ranks, and its example's output. A job has the
ranks of every key that shares it.

Usage: which_rank_test.py PATH_OF_ALLOCMARK PAGE
"""
import json
import re
import shlex
import subprocess
import sys


def ranks(program, words):
    done = subprocess.run([program, "ranks", *shlex.split(words), "-d", "sim:h200"],
                          capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0:
        sys.exit(f"ranks {words}: exit {done.returncode}: {done.stderr}")
    return done.stdout


SMALL = "layers=2,hidden=64,heads=2,kv_heads=2,head_size=32,ffn=64,vocabulary=100,batch=1,seq=32,steps=1,optimizer=adamw_loop"
WORLDS = {f"train:mixtral-8x7b,{SMALL},ep=2,dp=2,fsdp=2": 4, f"train:llama-3-8b,{SMALL},tied=0,pp=2,tp=2,dp=2": 8}


def main():
    program, page_path = sys.argv[1:]
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    job = re.search(r"^    JOB=(\S+)$", page, re.MULTILINE).group(1)
    wrong = []

    rows = re.findall(r"^\| [^|]+ \| `([^|`]+)` \| `?([^|`]+)`? \|$", page, re.MULTILINE)
    if len(rows) < 7:
        sys.exit(f"{page_path}: wanted 7 planted cases or more, got {len(rows)}")
    for options, said in rows:
        answer = json.loads(ranks(program, options.replace("$JOB", job) + " --format json"))
        found = ", ".join(f"{one['kind']} {one['rank']}" for one in answer["findings"]) or "-"
        if found != said:
            wrong.append(f"{options}: the page says '{said}', the program finds '{found}'")

    for job_text, count in WORLDS.items():
        answer = json.loads(ranks(program, f"{job_text} --format json"))
        if len(answer["ranks"]) != count:
            wrong.append(f"{job_text}: {len(answer['ranks'])} ranks, wanted {count}")

    command, shown = re.search(r"^    \$ allocmark ranks (.*)$\n((?:    .*\n)+)", page, re.MULTILINE).groups()
    told = [ranks(program, command.replace("$JOB", job).replace(" -d sim:h200", "")) for _ in range(2)]
    if told[0] != told[1]:
        wrong.append("two processes give different numbers")
    # The page wraps long lines.
    if shown.split() != told[0].split():
        wrong.append(f"the page shows\n{shown}\nthe program says\n{told[0]}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(rows)} planted cases and the example are as the page says")


if __name__ == "__main__":
    main()
