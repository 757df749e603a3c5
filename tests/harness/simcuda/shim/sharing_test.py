#!/usr/bin/env python3
"""Goal: handles for other processes (blocks, events, pools, memory handles) and arrays answer as a GPU's. Method: a program that says
what each call returns, and what bytes processes see, on simcuda; its lines are compared with those of an H200.

Usage: sharing_test.py SIMCUDA_RUN PROGRAM ARRAYS_PROGRAM GOLDEN"""
import difflib
import pathlib
import subprocess
import sys

RUN, PROGRAM, ARRAYS, GOLDEN = sys.argv[1:5]


def main():
    wrong = []
    for part in ("arrays", "memory", "pools", "handles"):
        done = subprocess.run([RUN, ARRAYS] if part == "arrays" else [RUN, PROGRAM, part], capture_output=True, text=True, timeout=120)
        wanted = (pathlib.Path(GOLDEN) / f"sharing_{part}.txt").read_text()
        if done.returncode != 0 or "simcuda lacks" in done.stderr:
            wrong.append(f"{part}: exit code {done.returncode}\n{done.stderr}")
        wrong += difflib.unified_diff(wanted.splitlines(), done.stdout.splitlines(), f"{part} on an H200", f"{part} on simcuda", "", "", 0, "")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
