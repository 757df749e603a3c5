#!/usr/bin/env python3
"""Measures what a published report is made of, and makes the reports from it.

usage: publish.py measure --out DIR [--device cuda:0] [--steps profile,simulated,...] [--runs NAME,...] [--allocmark PATH]
       publish.py report DIR [--only backends,simulated,...] [--allocmark PATH]

`measure` runs the steps of results/published/plan.toml and keeps under DIR: raw/NAME.jsonl.xz (what `allocmark run` wrote), raw/profile.json,
commands.txt (every command, its exit code and duration). `report` makes environment.md and a page per report from them, with nothing else;
the same DIR gives the same pages. Needs Python 3.11 and no packages.
"""

import argparse
import json
import lzma
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import allocator_figures
import allocators
import backends
import contention
import folklore
import releases
import simulated
import threads
from raw import PublishError, Raw
from text import table

ROOT = Path(__file__).resolve().parent.parent.parent
PLAN = ROOT / "results" / "published" / "plan.toml"
CLAIMS = ROOT / "results" / "published" / "claims.toml"
FINDINGS = ROOT / "results" / "published" / "findings.toml"
BINARY = ROOT / "build" / "release" / "bin" / "allocmark"
# In the order in which they are measured.
STEPS = ("profile", "simulated", "backends", "folklore", "contention", "threads", "gpus", "releases", "allocators")
# Reports that stand in a folder of their own, by the raw file that tells.
ALONE = {"releases": "releases", "allocators": "allocators_training"}
USAGE, UNFIT = 2, 4


class Measurement:
    def __init__(self, arguments, words):
        self.words = words
        self.folder = Path(arguments.out)
        self.raw = self.folder / "raw"
        self.raw.mkdir(parents=True, exist_ok=True)
        self.profile = self.raw / "profile.json"
        self.binary = arguments.allocmark
        self.device = arguments.device
        self.failed = []

    def fill(self, args):
        spelled = [word for text in args for word in self.words.get(text[1:-1], [text])]
        return [text.replace("{device}", self.device).replace("{profile}", str(self.profile)) for text in spelled]

    def start(self, args, environment=None, output=None):
        command = [str(self.binary), *self.fill(args)]
        log = tempfile.TemporaryFile()
        process = subprocess.Popen(command, stdout=output or log, stderr=log, env={**os.environ, **(environment or {})})
        return {"command": command, "environment": environment or {}, "process": process, "log": log, "begin": time.monotonic()}

    def finish(self, run):
        code = run["process"].wait()
        seconds = time.monotonic() - run["begin"]
        words = [f"{name}={value}" for name, value in run["environment"].items()] + [shlex.quote(word) for word in run["command"]]
        line = re.sub(r" --out \S+/(r|\d+|alone_\d+|together_\d+)(?= |$)", "", " ".join(words))
        line = self.without_folders(line)
        with open(self.folder / "commands.txt", "a") as file:
            file.write(f"{line}  # exit code {code}, {seconds:.0f} s\n")
        print(f"{seconds:6.1f} s, exit code {code}: {line[:150]}", flush=True)
        if code != 0:
            run["log"].seek(0)
            sys.stderr.write(run["log"].read().decode(errors="replace")[-2000:])
            self.failed.append(line)
        return code

    def without_folders(self, text):
        """Where things lay on the machine is its own matter."""
        return text.replace(str(self.raw), "raw").replace(str(self.binary), "allocmark")

    def keep(self, name, folders):
        """The lines of one or more run folders as raw/NAME.jsonl.xz."""
        lines = []
        for folder in folders:
            path = Path(folder) / "results.jsonl"
            if path.is_file():
                text = self.without_folders(path.read_text()).replace(f"{path.parent.parent}/", "")
                lines += text.splitlines(keepends=True)
        if lines:
            with lzma.open(self.raw / f"{name}.jsonl.xz", "wt") as file:
                file.writelines(lines)

    def run(self, entry):
        if entry["args"][0] != "run":
            self.finish(self.start(entry["args"]))
            if self.profile.is_file():
                self.profile.write_text(self.without_folders(self.profile.read_text()))
            return
        with tempfile.TemporaryDirectory() as folder:
            self.finish(self.start([*entry["args"], "--out", folder + "/r"]))
            self.keep(entry["name"], [folder + "/r"])

    def claims(self, entry):
        """One command per workload, capacity and way to go on: as few as their cells allow."""
        claims = folklore.load_claims(CLAIMS)
        groups = {}
        for workload, allocator, conf, capacity, on_oom in folklore.queries(claims):
            groups.setdefault((workload, capacity, on_oom), []).append((allocator, conf))
        accepted = {conf: subprocess.run([self.binary, "explain", conf], capture_output=True).returncode == 0 for conf in folklore.confs(claims)}
        (self.raw / "claims_confs.json").write_text(json.dumps(accepted, indent=1) + "\n")
        with tempfile.TemporaryDirectory() as folder:
            for index, ((workload, capacity, on_oom), cells) in enumerate(groups.items()):
                args = [*entry["args"], "--workload", workload, "--capacity", capacity, "--on-oom", on_oom, "--out", f"{folder}/{index}", "--allocator"]
                args += list(dict.fromkeys(allocator for allocator, _ in cells))
                for allocator, conf in cells:
                    args += ["--conf", f"{allocator}={conf or 'unset'}"]
                self.finish(self.start(args))
                # Again after every command: what is measured stays, whatever ends the rest.
                self.keep("claims", [f"{folder}/{done}" for done in range(index + 1)])

    def together(self, entry):
        for count in entry["counts"]:
            with tempfile.TemporaryDirectory() as folder:
                # A seed per process: cells of one workload and allocator stand next to each other in a run's plan.
                args = [*entry["args"], "--seeds", str(count), "--jobs", str(count), "--out", folder + "/r"]
                self.finish(self.start(args))
                self.keep(f"together_{count}", [folder + "/r"])

    def threads(self, entry):
        answers = {}
        for allocator in entry["allocators"]:
            with tempfile.TemporaryFile("w+") as answer:
                if self.finish(self.start([*entry["args"], "--allocator", allocator], output=answer)) == 0:
                    answer.seek(0)
                    answers[allocator] = json.load(answer)
        (self.raw / "threads.json").write_text(json.dumps(answers, indent=1) + "\n")

    def turns(self, entry):
        """Releases of PyTorch in pairs; the rounds are kept, below the environment of the run."""
        for old, new in entry["pairs"]:
            with tempfile.TemporaryDirectory() as folder:
                self.finish(self.start([*entry["args"], "--ab", f"torch@{old}", f"torch@{new}", "--out", folder + "/r"]))
                path = Path(folder) / "r"
                if not (path / "rounds.jsonl").is_file():
                    continue
                environment = (path / "A" / "results.jsonl").read_text().splitlines(keepends=True)[0]
                with lzma.open(self.raw / f"turns_{old}_{new}.jsonl.xz", "wt") as file:
                    file.write(self.without_folders((environment + (path / "rounds.jsonl").read_text()).replace(f"{folder}/", "")))

    def gpus(self, entry):
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True) if self.device.startswith("cuda:") else None
        count = len(listed.stdout.splitlines()) if listed and listed.returncode == 0 else 0
        if count < 2:
            print(f"gpus: skipped, this machine has {count} GPU(s)")
            return
        with tempfile.TemporaryDirectory() as folder:
            def begin(kind, index):
                return self.start([*entry["args"], "--out", f"{folder}/{kind}_{index}"], {"CUDA_VISIBLE_DEVICES": str(index)})

            for index in range(count):
                self.finish(begin("alone", index))
            for run in [begin("together", index) for index in range(count)]:
                self.finish(run)
            for kind in ("alone", "together"):
                for index in range(count):
                    self.keep(f"gpu_{kind}_{index}", [f"{folder}/{kind}_{index}"])


def measure(arguments):
    plan = tomllib.loads(PLAN.read_text())
    steps = arguments.steps.split(",") if arguments.steps else list(STEPS)
    unknown = [step for step in steps if step not in STEPS]
    if unknown:
        raise PublishError(f"--steps: there is no step {unknown[0]!r}; wanted {', '.join(STEPS)}")
    wanted = arguments.runs.split(",") if arguments.runs else []
    named = {entry.get("name", "") for entries in plan.values() if isinstance(entries, list) for entry in entries}
    if unknown := [name for name in wanted if name not in named]:
        raise PublishError(f"--runs: there is no run {unknown[0]!r}; wanted {', '.join(sorted(named - {''}))}")
    measurement = Measurement(arguments, plan["words"])
    kinds = {"run": measurement.run, "claims": measurement.claims, "together": measurement.together, "threads": measurement.threads,
             "turns": measurement.turns, "gpus": measurement.gpus}
    for step in STEPS:
        for kind, carry_out in kinds.items():
            for entry in plan.get(kind, []):
                if entry["step"] == step and step in steps and (not wanted or entry.get("name") in wanted):
                    carry_out(entry)
    for line in measurement.failed:
        print(f"not all cells have a result: {line[:150]}", file=sys.stderr)


REPORTS = {
    "backends": backends.report,
    "simulated": simulated.report,
    "folklore": lambda raw, binary: folklore.report(raw, binary, CLAIMS),
    "contention": contention.report,
    "threads": threads.report,
    "releases": releases.report,
    "allocators": lambda raw, binary: allocators.report(raw, binary, FINDINGS),
}
FIGURES = {"allocators": allocator_figures.figures}
ENVIRONMENT_FIELDS = ("gpu_name", "driver_version", "runtime_version", "gpu_memory_bytes", "cpu_model", "cpu_count", "memory_bytes", "os", "kernel",
                      "compiler", "build_type", "allocmark_version", "git_sha", "git_dirty", "clock_resolution_ns", "clock_overhead_ns")


def environment_page(raw):
    """On what it ran: one column where all runs agree, else a line per difference."""
    environments = {name: raw.environment(name) for name in raw.names() if raw.environment(name)}
    real = next((one for one in environments.values() if not one["device"].startswith("sim:")), next(iter(environments.values())))
    out = "# What it ran on\n\n" + table(["field", "value"], [[f"`{field}`", real[field]] for field in ENVIRONMENT_FIELDS])
    out += "\nStarted (UTC), device, GPU (the beginning of its identifier's hash) and warnings of every run:\n\n"
    out += table(["run", "started", "device", "GPU", "warnings"],
                 [[name, one["started_utc"], one["device"].split("/")[-1], one["gpu_uuid_hash"][:6], "; ".join(one["warnings"])]
                  for name, one in environments.items()])
    profile = raw.profile()
    if profile:
        about = profile["about"]
        out += f"\nProfile of the simulated device: `raw/profile.json`, {about['repeat_count']} repeats in {about['wall_s']:.0f} s, driver {about['driver']}.\n"
    return out + "\nFields are defined in `results/DEFINITIONS.md`; the commands are in `commands.txt`.\n"


def report(arguments):
    raw = Raw(arguments.folder)
    all_there = [name for name, file in ALONE.items() if raw.has(file)] or [name for name in REPORTS if name not in (*ALONE, "threads")]
    if (raw.folder / "raw" / "threads.json").is_file():
        all_there.append("threads")
    wanted = arguments.only.split(",") if arguments.only else all_there
    unknown = [name for name in wanted if name not in REPORTS]
    if unknown:
        raise PublishError(f"--only: there is no report {unknown[0]!r}; wanted {', '.join(REPORTS)}")
    again = "\n---\nMade by `scripts/publish/publish.py report` from `raw/`; again with `scripts/publish/publish.py report DIR --only {}`.\n"
    (raw.folder / "environment.md").write_text(environment_page(raw))
    for name in wanted:
        (raw.folder / f"{name}.md").write_text(REPORTS[name](raw, str(arguments.allocmark)) + again.format(name))
        print(f"{raw.folder / name}.md")
        for file, svg in FIGURES.get(name, lambda *_: [])(raw, str(arguments.allocmark)):
            (raw.folder / "figures").mkdir(exist_ok=True)
            (raw.folder / "figures" / file).write_text(svg)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("measure", "report"):
        command = commands.add_parser(name)
        command.add_argument("--allocmark", type=Path, default=BINARY, help="the program [build/release/bin/allocmark]")
        if name == "measure":
            command.add_argument("--out", required=True)
            command.add_argument("--device", default="cuda:0")
            command.add_argument("--steps", default="")
            command.add_argument("--runs", default="", help="of these steps, only the runs of these names")
        else:
            command.add_argument("folder")
            command.add_argument("--only", default="")
    arguments = parser.parse_args()
    if not arguments.allocmark.is_file():
        parser.error(f"{arguments.allocmark}: no such file; build it (scripts/run.sh) or name it with --allocmark")
    try:
        measure(arguments) if arguments.command == "measure" else report(arguments)
    except PublishError as error:
        print(f"publish.py: {error}", file=sys.stderr)
        return UNFIT
    return 0


if __name__ == "__main__":
    sys.exit(main())
