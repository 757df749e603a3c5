#!/usr/bin/env python3
"""Every command with a system that fails it: the n-th call, a full disk, closed streams, signals. Usage: fault_test.py PATH_OF_ALLOCMARK

A command may then fail with a documented exit code, within 20 s. It must not crash, and it must not say 0 while a file
that it wrote is cut short: with 0 every file has the bytes that it has without the fault, or is made of measured times
and whole. As a test the n-th call goes up to 8; --calls N goes further.
"""
import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from outside import answer_of, no_core

RUN = "run -w comb:count=8 -a caching -d sim:h200 --allow-debug --passes 1 --no-html"
# {O} is the folder for what they write, {W} that of what they read. Whole: files that are the same each time.
COMMANDS = [
    ("trace generate churn:live_bytes=1MiB,events=20000 {O}/t.csv", ["t.csv"]),
    ("trace convert {W}/in.csv {O}/t.csv.zst", ["t.csv.zst"]),
    (RUN + " --out {O}/run --timeline --record-placements {O}/goldens", ["goldens"]),
    ("compare {W}/run {W}/other --only exact --format json --out {O}/c.json", ["c.json"]),
    ("bundle {W}/run --out {O}/b.tar.gz", ["b.tar.gz"]),
    ("check {W}/run.tar", []),
    ("report {W}/run --no-html --format csv", []),
]
CALLS = [("write", 28), ("write", 5), ("short_write", 0), ("open_write", 28), ("open_write", 13), ("open_read", 24), ("fsync", 5), ("rename", 18), ("read", 5)]
CODES = "0123456"
# Runs the script that it is given, and waits for an hour where that reads its input.
WAITING_MAKER = """#!{python} -B
import os, runpy, sys, time
class Waits:
    def read(self):
        os.rename(write(), "{reading}")
        time.sleep(3600)
def write():
    with open("{reading}.part", "w") as file:
        file.write(str(os.getpid()))
    return file.name
sys.argv, sys.stdin = sys.argv[2:], Waits()
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def texts_of(folder, names):
    """The bytes of the files that a command wrote, by name."""
    texts = {}
    for name in names:
        path = folder / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                texts[str(file.relative_to(folder))] = file.read_bytes()
    return texts


def is_running(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    return False


class Faults:
    def __init__(self, program, work):
        self.program, self.work = program, work
        self.out = work / "out"
        self.tried = self.failed = 0
        self.kinds = {}

    def words(self, command):
        return command.replace("{O}", str(self.out)).replace("{W}", str(self.work)).split()

    def fresh(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()

    def note(self, kind, command, problem, output=b""):
        self.tried += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if problem:
            self.failed += 1
            print(f"{kind}: allocmark {command}\n    {problem}\n    {output[-300:]!r}")

    def try_one(self, kind, command, names, reference, environment=None, before=no_core):
        self.fresh()
        answer = answer_of(self.program, self.words(command), environment, bounded=False, before=before)
        problem = answer.problem(CODES)
        got = texts_of(self.out, names)
        if not problem and answer.code == 5:
            problem = "calls it a bug of its own"
        if not problem and answer.code == 0 and got != reference:
            problem = f"exit code 0, and {sorted(set(reference) - set(got)) or [name for name in got if got[name] != reference.get(name)]} is not as it must be"
        if not problem and any(path.name.endswith(".part") for path in self.out.rglob("*")):
            problem = "leaves a part of a file behind"
        self.note(kind, command, problem, answer.output)

    def calls(self, library, command, names, reference, nth_max):
        for call, number in CALLS:
            for lasting in (False, True):
                for nth in range(1, nth_max + 1):
                    environment = {"LD_PRELOAD": str(library), "FAIL_CALL": call, "FAIL_ERRNO": str(number), "FAIL_NTH": str(nth)}
                    if lasting:
                        environment["FAIL_LASTING"] = "1"
                    self.try_one(f"{call} {os.strerror(number)}", command, names, reference, environment)

    def full_disk(self, command, names, reference):
        for size in (0, 1, 100, 1000, 4096, 20000):

            def limited(size=size):
                no_core()
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

            self.try_one("files end early", command, names, reference, before=limited)

    def closed_streams(self, command):
        for closed in ((0,), (1,), (2,), (0, 1, 2), (1, 2)):
            self.fresh()
            code = self.run_with(command, closed, [])
            self.note("closed streams", command, "" if 0 <= code < 5 or code == 6 else f"exit code {code}")
        for full in ((1,), (2,), (1, 2)):
            self.fresh()
            code = self.run_with(command, (), full)
            wanted = {6} if 1 in full and not command.startswith(("check", "bundle", "trace", "compare")) else set("0123456") | {0, 1, 2, 3, 6}
            self.note("full streams", command, "" if code in wanted else f"exit code {code}")

    def run_with(self, command, closed, full):
        def prepare():
            no_core()
            for fd in closed:
                os.close(fd)
            for fd in full:
                os.dup2(os.open("/dev/full", os.O_WRONLY), fd)

        # A file keeps Python from minding what happens to its own ends.
        with open(self.work / "output", "wb") as output:
            process = subprocess.Popen([self.program, *self.words(command)], stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=prepare)
            try:
                return process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return 124

    def page_of_the_dead(self, number):
        """Who makes the page ends with the command: here it waits before it reads, and the command is ended meanwhile."""
        self.fresh()
        reading, maker_file = self.out / "reading", self.out / "maker"
        maker_file.write_text(WAITING_MAKER.format(python=sys.executable, reading=str(reading)))
        maker_file.chmod(0o755)
        process = subprocess.Popen(
            [self.program, "report", self.work / "run"], env={**os.environ, "ALLOCMARK_PYTHON": str(maker_file)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=no_core,
        )
        while process.poll() is None and not reading.exists():
            time.sleep(0.001)
        if process.poll() is not None:
            self.note("page of the dead", "report", f"exit code {process.returncode}, and its maker never read")
            return
        process.send_signal(number)
        process.wait()
        maker, end = int(reading.read_text()), time.monotonic() + 20
        while is_running(maker) and time.monotonic() < end:
            time.sleep(0.01)
        late = is_running(maker)
        if late:
            os.kill(maker, signal.SIGKILL)
        self.note("page of the dead", "report", "its maker runs on" if late else "")

    def signals(self, command):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR1):
            for delay in (0.01, 0.05, 0.2):
                self.fresh()
                process = subprocess.Popen(
                    [self.program, *self.words(command)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=no_core
                )
                time.sleep(delay)
                process.send_signal(number)
                try:
                    code = process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    code = process.wait() and 124
                # Who is asked to end may end by the signal; files of a run stay whole.
                problem = "" if code in (0, 1, 2, 3, 6, -number) else f"exit code {code}"
                results = self.out / "run" / "results.jsonl"
                if not problem and results.exists():
                    for line in results.read_bytes().split(b"\n")[:-1]:
                        json.loads(line)
                self.note("signals", command, problem)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--calls", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        library = work / "failing_calls.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, Path(__file__).resolve().parents[2] / "support/failing_calls.c", "-ldl"], check=True)
        subprocess.run([options.program, "trace", "generate", "churn:live_bytes=1MiB,events=20000", work / "in.csv"], check=True, stdout=subprocess.DEVNULL)
        for folder in ("run", "other"):
            subprocess.run([options.program, *RUN.split(), "-q", "--out", work / folder], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([options.program, "bundle", work / "run", "--out", work / "run.tar"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        faults = Faults(options.program, work)
        for command, names in COMMANDS:
            faults.fresh()
            answer_of(options.program, faults.words(command), bounded=False)
            reference = texts_of(faults.out, names)
            if names and not reference:
                faults.note("no fault", command, "writes nothing")
            slow = command.startswith(("bundle", "check"))
            faults.calls(library, command, names, reference, 1 if slow else options.calls)
            faults.full_disk(command, names, reference)
            faults.closed_streams(command)
            faults.signals(command)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            faults.page_of_the_dead(number)
        print(", ".join(f"{kind} {count}" for kind, count in sorted(faults.kinds.items())))
        print(f"tried {faults.tried}, held {faults.tried - faults.failed}, failed {faults.failed}")
        return 1 if faults.failed else 0


if __name__ == "__main__":
    sys.exit(main())
