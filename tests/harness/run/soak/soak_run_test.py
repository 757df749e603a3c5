#!/usr/bin/env python3
"""Soaks as the program runs them, on a simulated device whose time is virtual. Usage: soak_run_test.py PATH_OF_ALLOCMARK"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = ["run", "--workload", "churn:events=400", "--allocator", "native", "--device", "sim:h200", "--allow-debug"]
# What is planted, the exit code, what the text must say.
PLANTED = [
    ("nothing", "", 0, ["whole", "nothing grows"]),
    ("a slow drift", "0:slow_percent_per_hour=30", 1, ["allocate P50 from", "allocate P99 from"]),
    ("slower after an hour", "0:after_s=3600;0:slow_percent=200", 1, ["allocate P50 from"]),
    ("a leak after an hour", "0:after_s=3600;0:leak_every=400", 1, ["taken from the device from"]),
    ("falls off the bus after an hour", "0:after_s=3600;0:lost_at=1", 3, ["failed: ", "1 h 0 min of 2 h 0 min", "--resume"]),
]


def soak(program, folder, *words, faults="", duration="2h", **more):
    environment = {**os.environ, "SIMCUDA_GPU_FAULTS": faults}
    command = [program, *WORDS, "--for", duration, "--out", str(folder), *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def lines_of(folder):
    return [json.loads(line) for file in (folder / "soak").iterdir() for line in file.read_text().splitlines() if line.endswith("}")]


def check_killed(program, folder, problems):
    """The whole group is killed when some windows are there; --resume adds the others."""
    child = soak(program, folder, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not ((folder / "soak").exists() and any((folder / "soak").iterdir()) and len(lines_of(folder)) > 20):
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    before = lines_of(folder)
    resumed = soak(program, folder, "--resume")
    text = resumed.communicate()[0]
    after = lines_of(folder)
    windows = [line["end_s"] for line in after if line["kind"] == "window"]
    if len(before) >= 240 or before[-1]["kind"] == "end":
        problems.append("it was over before it could be killed")
    elif resumed.returncode != 0 or "2 processes; whole" not in text:
        problems.append(f"resume: exit code {resumed.returncode}\n{text}")
    elif windows != sorted(windows) or not 7200 <= windows[-1] < 7230 or len(windows) != 240 or after[: len(before)] != before:
        problems.append(f"resume: {len(windows)} windows, the last at {windows[-1]}")
    again = soak(program, folder, "--resume", "--format", "json")
    text = again.communicate()[0]
    if again.returncode != 0 or '"is_whole":true' not in text or lines_of(folder) != after:
        problems.append(f"resume of a whole one: exit code {again.returncode}\n{text}")
    other = soak(program, folder, "--resume", duration="3h")
    other.communicate()
    if other.returncode != 2:
        problems.append(f"another time: exit code {other.returncode}")


def check_usage(program, folder, problems):
    for words, wanted in (
        (["--for", "8"], "8h"),
        (["--for=-1h"], "above 0"),
        (["--for", "2h", "--passes", "3"], "--passes"),
        (["--for", "2h", "--format", "csv"], "table or json"),
        (["--for", "2h", "--ab", "caching", "native", "--jobs", "2"], "--jobs"),
    ):
        run = subprocess.run([program, *WORDS, "--out", str(folder), *words], capture_output=True, text=True, check=False)
        if run.returncode != 2 or wanted not in run.stderr or folder.exists():
            problems.append(f"{words}: exit code {run.returncode}, {run.stderr}")


def main(program):
    problems = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for number, (what, faults, code, wanted) in enumerate(PLANTED):
            run = soak(program, work / str(number), faults=faults)
            text = run.communicate()[0]
            lacking = [part for part in wanted if part not in " ".join(text.split())]
            if run.returncode != code or lacking:
                problems.append(f"{what}: exit code {run.returncode}, wanted {code}; lacks {lacking} in\n{text}")
        check_killed(program, work / "killed", problems)
        check_usage(program, work / "usage", problems)
    for problem in problems:
        print(f"soak_run_test: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
