#!/usr/bin/env python3
"""Goal: a shell that leaves little stack or few open files costs no crash and no library's own words. Method: commands under each limit;
each must answer as without it, or say in our own words what it lacks. Usage: limits_test.py PATH_OF_ALLOCMARK"""
import re
import subprocess
import sys
import tempfile

COMMANDS = ("--version", "list cards", "list workloads", "explain max_split_size_mb:128", "check {work}", "trace summary bert_varlen_infer",
            "fit bert_varlen_infer --conf unset", "run -w bert_varlen_infer -a caching --passes 1 --allow-debug --no-html --out {work}/{number}")
RAW = re.compile(r"filesystem error|basic_string|what\(\)|terminate called|std::|internal error|Assertion")


def main(program):
    failed = tried = 0
    with tempfile.TemporaryDirectory() as work:
        for limit in ("-s 64", "-s 256", "-Ss 64", "-n 3", "-n 4", "-n 6", "-n 10", "-n 16", "-n 24"):
            for command in COMMANDS:
                tried += 1
                line = f"ulimit {limit}; exec {program} {command.format(work=work, number=tried)}"
                run = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=120)
                needs_all = limit.startswith(("-s", "-Ss")) and not command.startswith("check")
                wrong = run.returncode < 0 or run.returncode in (5, 139) or RAW.search(run.stderr) or (needs_all and run.returncode != 0)
                failed += bool(wrong)
                if wrong:
                    print(f"WRONG: ulimit {limit}; {command}: {run.returncode}: {run.stderr.strip()[-300:]}")
    print(f"tried {tried}, failed {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
