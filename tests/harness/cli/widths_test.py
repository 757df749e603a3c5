#!/usr/bin/env python3
"""What people read is never wider than their terminal: at 80, 100 and 200 columns (where a command takes seconds, at 80 alone).
Only what is to be pasted, and words that are longer by themselves (paths, config strings), may be. In a pipe nothing is coloured.

usage: widths_test.py ALLOCMARK
"""
import os
import re
import subprocess
import sys
import tempfile

SNAPSHOT = "tests/golden/snapshots/train_oom.pickle.gz"
RUN = ["run", "--workload", "gpt2_train_amp", "--allocator", "caching", "--conf", "unset", "max_split_size_mb:128", "--capacity", "1.05x",
       "--device", "sim:h200", "--allow-debug", "--passes", "1", "--no-html"]
SLOW = ("why", "advise", "report", "run", "qualify", "threads")
# The words, and one part that must be in the output, its blanks apart.
COMMANDS = [
    (["list"], "scenarios"),
    (["list", "cards"], "sim:t4"),
    (["explain", "max_split_size_mb:128,expandable_segments:True,garbage_collection_threshold:0.8"], "does nothing unless a memory limit is set"),
    (["explain"], "there is nothing to explain; wanted a config string"),
    (["why", SNAPSHOT], "expandable_segments:True serves every request."),
    (["advise", SNAPSHOT, "--search-only"], "CUDA calls, ms/step"),
    (["fit", "comb:count=4"], "above live"),
    (["compare", "BASE", "NEW"], "cells"),
    (["compare", "BASE", "NEW", "--details"], "cells"),
    (["compare", "BASE", "NEW", "--all"], "cells"),
    (["report", "BASE", "--no-html"], "max_split_size_mb:128 serves every request"),
    (["run", "--resume", "--out", "BASE", "--allow-debug", "--no-html"], "max_split_size_mb:128 serves every request"),
    (["qualify", "--device", "sim:h200", "--out", "NODE"], "PASS at level quick"),
    (["merge", "NODE"], "1 nodes: 0 drain"),
    (["threads", "comb:count=4"], "allocate P50"),
    (["ranks", "train:gpt2-124m,batch=2,seq=512,dp=4,fsdp=2", "--rank-capacity", "2=2GiB", "--device", "sim:h200"], "rank 2 runs out of memory"),
    (["trace", "summary", "gpt2_train_amp"], "gpt2_train_amp"),
    (["run", "--help"], "How to run it"),
    (["qualify", "--help"], "Nothing on the machine is changed."),
    (["--help"], "qualify"),
]


def may_be_wide(line, width):
    body = line.strip()
    words = body.split()
    to_paste = body.startswith(("allocmark ", "to go on: allocmark ")) or "export PYTORCH" in body
    return to_paste or len(words) == 1 or max(map(len, words)) > width - 20


def check(program, words, wanted, width):
    environment = {**os.environ, "COLUMNS": str(width)}
    environment.pop("NO_COLOR", None)
    run = subprocess.run([program, *words], capture_output=True, text=True, env=environment, check=False)
    text = run.stdout + run.stderr
    problems = [f"{len(line)} columns: {line}" for line in text.splitlines() if len(line) > width and not may_be_wide(line, width)]
    if "\x1b" in text:
        problems.append("colour in a pipe")
    if re.sub(r"\s+", " ", wanted) not in re.sub(r"\s+", " ", text):
        problems.append(f"lacks '{wanted}' in\n{text[:2000]}")
    return [f"{' '.join(words)} at {width}: {problem}" for problem in problems]


def main(program):
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        places = {"BASE": f"{folder}/a", "NEW": f"{folder}/b", "NODE": f"{folder}/n1"}
        for place in ("BASE", "NEW"):
            subprocess.run([program, *RUN, "--out", places[place]], check=True, capture_output=True)
        for words, wanted in COMMANDS:
            for width in (80,) if words[0] in SLOW else (80, 100, 200):
                problems += check(program, [places.get(word, word) for word in words], wanted, width)
    for problem in problems:
        print(f"widths_test: {problem}", file=sys.stderr)
    print(f"{len(COMMANDS)} commands at three widths, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
