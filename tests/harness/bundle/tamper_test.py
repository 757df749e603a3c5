#!/usr/bin/env python3
"""Bundles that somebody changed and then made to fit again, one change after the other. Usage: tamper_test.py PATH_OF_ALLOCMARK

Each case changes the results of a sound run and has allocmark bundle them, so that tables, page and hashes fit; or it
changes a file of a bundle and makes the hashes right again. `check` must break or refuse a rule that the sound bundle
keeps. Cases of four kinds cannot be found; they are named here and in results/BUNDLES.md: a case of those that is found
after all fails as well. tamper_cheats.py has what changes a comparison, an A/B run or the conditions. How quiet the machine was is not looked at.
"""
import copy
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tamper_cheats import FILES, FOLDERS, HIDDEN_FILES, RESULTS, TIMES, TURNS
from tamper_rules import BASES
from tamper_rules import RESULTS as OF_RULES

ROOM = "allocmark-bundle/"
HALVED = ("p50", "p90", "p99", "p999", "max", "mean")
KEY = ("workload", "allocator", "conf", "capacity", "seed", "device", "on_oom", "cell_id", "workload_definition",
       "workload_files")
CASES = []


def case(name, hidden=""):
    def add(change):
        CASES.append((name, change, hidden))
        return change

    return add


def number(field, factor, pick="oom"):
    """A case that multiplies one number of one cell."""

    def change(lines):
        cell = PICK[pick](lines)
        cell[field] = int(cell[field] * factor) if isinstance(cell[field], int) else cell[field] * factor

    return change


def of(allocator, workload):
    return lambda lines: next(cell for cell in lines[1:] if cell["allocator"] == allocator and cell["workload"].startswith(workload))


PICK = {"oom": of("caching", "churn"), "native": of("native", "churn"), "comb": of("caching", "comb"), "async": of("async", "churn")}


@case("all OOMs set to 0 where the capacity lies below the peak")
def no_ooms_impossible(lines):
    for cell in lines[1:]:
        if cell["workload"].startswith("comb") and cell["capacity"] == "0.9x":
            clear_ooms(cell)


def clear_ooms(cell):
    for field in cell:
        if field.startswith("oom_count") or field in ("trial_oom_count", "skipped_free_count"):
            cell[field] = 0
    cell["oom_first"] = None
    cell["counters"] = {name: 0 if name == "num_ooms" else value for name, value in cell["counters"].items()}


@case("all OOMs set to 0 where they could be")
def no_ooms(lines):
    clear_ooms(PICK["oom"](lines))


@case("one OOM less, of the same cause")
def fewer_ooms(lines):
    cell = PICK["oom"](lines)
    cause = next(name for name in cell if name.startswith("oom_count_") and cell[name] > 0)
    cell["oom_count"] -= 1
    cell[cause] -= 1
    cell["counters"]["num_ooms"] -= 1


@case("an OOM of another cause")
def other_cause(lines):
    cell = PICK["oom"](lines)
    cause = next(name for name in cell if name.startswith("oom_count_") and cell[name] > 0)
    cell[cause] -= 1
    cell["oom_count_capacity" if cause != "oom_count_capacity" else "oom_count_rounding"] += 1


@case("the first OOM later")
def later(lines):
    PICK["oom"](lines)["oom_first"]["event_index"] += 10


@case("the first OOM of another size")
def other_size(lines):
    PICK["oom"](lines)["oom_first"]["size_bytes"] *= 2


for field in ("device_bytes_peak", "reserved_bytes_peak", "allocated_bytes_peak", "active_bytes_peak", "allocated_bytes_at_reserved_peak",
              "requested_bytes_at_reserved_peak", "reserved_bytes_at_requested_peak", "requested_bytes_peak", "capacity_bytes"):
    case(f"{field} halved")(number(field, 0.5))
case("device_bytes_peak of native halved")(number("device_bytes_peak", 0.5, "native"))
for field in ("device_allocate_count", "device_free_count", "retry_count", "synchronize_all_count", "skipped_free_count"):
    case(f"{field} doubled")(number(field, 2))
case("event_count raised in one cell")(number("event_count", 2))
for field in ("modelled_driver_ns_total", "step_ns_p50", "program_ns"):
    case(f"{field} halved")(number(field, 0.5, "comb"))


@case("two allocators swapped")
def swapped(lines):
    one, other = PICK["oom"](lines), PICK["native"](lines)
    before = copy.deepcopy(one)
    for name in one:
        if name not in KEY:
            one[name], other[name] = other[name], before[name]


@case("all numbers of an allocator copied from another one")
def copied(lines):
    one, other = PICK["native"](lines), PICK["async"](lines)
    for name in one:
        if name not in KEY:
            one[name] = copy.deepcopy(other[name])


@case("another placement hash")
def placement(lines):
    PICK["comb"](lines)["placement_hash"] = "0123456789abcdef"


@case("another trace hash, in all cells of the workload")
def trace_hash(lines):
    for cell in lines[1:]:
        if cell["workload"].startswith("comb"):
            cell["trace_hash"] = "0123456789abcdef"


@case("a counter changed")
def counter(lines):
    PICK["oom"](lines)["counters"]["segment.all.peak"] += 1


@case("a counter and its number changed together")
def counter_and_number(lines):
    cell = PICK["oom"](lines)
    cell["counters"]["num_alloc_retries"] = cell["retry_count"] = 0


@case("the counters removed")
def no_counters(lines):
    PICK["oom"](lines)["counters"] = {}


@case("a size class renamed")
def size_class(lines):
    cell = PICK["oom"](lines)
    for row in cell["size_classes"]:
        row["allocate_latency_ns_mean"] = (row["allocate_latency_ns_mean"] or 0) / 2


@case("samples moved from one size class to another")
def samples_moved(lines):
    rows = [row for row in PICK["oom"](lines)["size_classes"] if row["allocate_latency_count"] > 1]
    rows[0]["allocate_latency_count"] -= 1
    rows[-1]["allocate_latency_count"] += 2


@case("an interval for a repeat narrowed")
def repeat(lines):
    PICK["oom"](lines)["allocate_latency_ns_p50_repeat_low"] *= 1.1


@case("what an interval for a repeat rests on lowered")
def repeat_share(lines):
    PICK["oom"](lines)["allocate_latency_ns_p50_repeat_between_share"] = 0.01


@case("P50 halved, histograms as they were")
def p50(lines):
    PICK["oom"](lines)["allocate_latency_ns_p50"] /= 2


def halve_times(cell, parts):
    for row in [cell, *cell["size_classes"]]:
        for operation in ("allocate", "deallocate"):
            for part in parts:
                for name in HALVED:
                    field = f"{operation}_{part}latency_ns_{name}"
                    row[field] = row[field] / 2 if row[field] is not None else None
    for one in cell["passes"]:
        for operation in ("allocate", "deallocate"):
            # A bucket's value doubles over 64 buckets; the first 128 are of one picosecond each.
            buckets = one[f"{operation}_latency_histogram"]
            if buckets and buckets[0] >= 192:
                buckets[0] -= 64
        for field in ("allocate_latency_ns_p50", "allocate_latency_ns_p99", "deallocate_latency_ns_p50"):
            one[field] = one[field] / 2 if one[field] is not None else None
    for field in list(cell):
        if "_repeat_" in field:
            cell[field] = None


@case("all latencies and histograms halved together")
def halved(lines):
    halve_times(PICK["native"](lines), ("", "host_", "driver_"))


@case("host time longer than the passes")
def longer(lines):
    cell = PICK["comb"](lines)
    for one in cell["passes"]:
        one["wall_ns"] /= 100


@case("host time taken from the total alone")
def total_only(lines):
    PICK["comb"](lines)["allocate_host_latency_ns_mean"] /= 2


@case("a pass left out")
def pass_out(lines):
    cell = PICK["comb"](lines)
    cell["passes"].pop()
    cell["pass_count"] = cell["trial_count"] = 2


@case("the work of a workload smaller in all its cells")
def less_work(lines):
    for cell in lines[1:]:
        if cell["workload"].startswith("comb"):
            cell["event_count"] -= 2
            cell["allocate_count"] -= 1
            cell["deallocate_count"] -= 1


@case("residue_bytes changed")
def residue(lines):
    PICK["comb"](lines)["residue_bytes"] += 4096


@case("host time forged with everything that follows from it", TIMES)
def host_time(lines):
    PICK["comb"](lines)["harness_overhead_ns_p50"] /= 2


@case("a cell left out of the results and of the plan", "cells left out")
def cell_left_out(lines):
    lines.pop()


class Bundles:
    def __init__(self, program, work):
        self.program, self.work = program, work
        subprocess.run([program, "trace", "generate", "comb:count=40", work / "own.csv"], check=True, stdout=subprocess.DEVNULL)
        command = [program, "run", "-w", "comb:count=200", "-w", "churn:live_bytes=64MiB,events=3000",
                   "-w", "serve:gpt2-124m,requests=3,layers=1", "-a", "caching", "-a", "native",
                   "-a", "async", "-d", "sim:h200", "--capacity", "1.05x", "--capacity", "0.9x", "--timeline", "--allow-debug", "-q", "--out", work / "run"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        small = [program, "run", "-w", "churn:live_bytes=64MiB,events=3000", "-a", "caching", "-a", "native", "-d", "sim:h200",
                 "--capacity", "1.05x", "--allow-debug", "--no-html", "-q", "--out"]
        for name in ("base", "now"):
            subprocess.run([*small, work / name], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([program, "run", "-w", f"file:{work}/own.csv", "-a", "caching", "-d", "sim:h200", "--allow-debug", "--no-html",
                        "-q", "--out", work / "own"], check=True,
                       stdout=subprocess.DEVNULL)
        self.sound = self.work / "sound.tar"
        self.kept = self.judge_folder(work / "run", self.sound)
        command = [program, "run", "--ab", "unset", "expandable_segments:True", "-a", "caching", "-w", "churn:live_bytes=64MiB,events=3000", "-d", "sim:h200",
                   "--allow-debug", "--rounds", "4", "--rounds-max", "4", "--no-html", "-q", "--out"]
        for name in ("turns", "older"):
            subprocess.run([*command, work / name], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def judge(self, path):
        """Names of rules that are broken or were not checked."""
        run = subprocess.run([self.program, "check", path, "--rerun", "--format", "json"], capture_output=True, check=False)
        return {rule["rule"] for rule in json.loads(run.stdout)["rules"] if rule["outcome"] in ("BROKEN", "not checked")}

    def judge_folder(self, folder, archive, more=()):
        """What bundle says of its own file: the rules of check, which simulates cells as small as these again in any case."""
        archive.unlink(missing_ok=True)
        run = subprocess.run([self.program, "bundle", folder, "--out", archive, *more], capture_output=True, text=True, check=False)
        if not archive.exists() or run.returncode not in (0, 1, 3):
            return {f"refused: {run.stderr.strip()[:200]}"}
        return set(re.findall(r"^(?:BROKEN|not checked)\s+([a-z-]+)\s", run.stdout, re.M))

    def with_results(self, change):
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "run", folder)
        lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        before = {id(line): line.get("cell_id") for line in lines}
        change(lines)
        (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        # The plan has the same cells, under their new names.
        now = {before[id(line)]: line for line in lines[1:]}
        plan = json.loads((folder / "plan.json").read_text())
        cells = [cell for cell in plan["cells"] if cell["cell_id"] in now]
        plan["cells"] = [cell | {name: value for name, value in now[cell["cell_id"]].items() if name in KEY} for cell in cells]
        (folder / "plan.json").write_text(json.dumps(plan))
        for timeline in (folder / "timelines").iterdir():
            if timeline.stem in now:
                timeline.rename(timeline.with_stem(now[timeline.stem]["cell_id"]))
        return self.judge_folder(folder, self.work / "changed.tar")

    def with_folder(self, change):
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "run", folder)
        change(folder)
        return self.judge_folder(folder, self.work / "changed.tar")

    def with_turns(self, change):
        """Of an A/B run the sound one may be too short for some rules: what is broken besides counts."""
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "turns", folder)
        change(folder)
        return self.judge_folder(folder / "B", self.work / "changed.tar", ("--baseline", folder))

    def with_base(self, change):
        """The run that another one is compared with."""
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "base", folder)
        lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        change(lines)
        (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self.judge_folder(self.work / "now", self.work / "changed.tar", ("--baseline", folder))

    def with_files(self, change):
        with tarfile.open(self.sound) as archive:
            files = {entry.name[len(ROOM):]: archive.extractfile(entry).read() for entry in archive}
        change(files)
        files["SHA256SUMS"] = "".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in sorted(files.items()) if name != "SHA256SUMS").encode()
        path = self.work / "files.tar"
        with tarfile.open(path, "w") as archive:
            for name, text in sorted(files.items()):
                entry = tarfile.TarInfo(ROOM + name)
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        return self.judge(path)


def main(program):
    with tempfile.TemporaryDirectory() as name:
        bundles = Bundles(program, Path(name))
        failed, hidden, tried, agreed = 0, 0, 0, set()
        failed += bundles.judge(bundles.sound) != bundles.kept
        if bundles.kept - {"machine-quiet"}:
            print(f"the sound bundle breaks {sorted(bundles.kept)}")
            subprocess.run([program, "check", bundles.sound, "--rerun"], check=False)
            failed += 1
        of_turns = bundles.with_turns(lambda folder: None)
        of_base = bundles.with_base(lambda lines: None)
        if of_base - {"machine-quiet"}:
            print(f"the sound baseline breaks {sorted(of_base)}")
            failed += 1
        # Cells whose trace is not in the bundle cannot be made again, and nobody may take them for checked.
        unmade = bundles.judge_folder(bundles.work / "own", bundles.work / "changed.tar")
        if "cells-simulated" not in unmade:
            print(f"a cell of a trace file passes for checked: {sorted(unmade)}")
            failed += 1
        rows = [(bundles.with_results, *row) for row in CASES + RESULTS + OF_RULES] + [(bundles.with_folder, *row) for row in FOLDERS]
        rows += [(bundles.with_turns, *row) for row in TURNS] + [(bundles.with_base, *row) for row in BASES]
        rows += [(bundles.with_files, name, change, "") for name, change in FILES.items()]
        rows += [(bundles.with_files, name, change, "words of the page") for name, change in HIDDEN_FILES.items()]
        kinds = {kind for *_, kind in rows if kind}
        for judge, name, change, kind in rows:
            # Whether a run was disturbed is part of what machine-quiet says of a sound one.
            ignored = {"machine-quiet"} if judge != bundles.with_folder else bundles.kept
            found = judge(change) - ignored - (of_turns if judge == bundles.with_turns else set())
            if judge not in agreed and judge != bundles.with_files:
                agreed.add(judge)  # a reader of the file is told the same: once for each kind of case
                read = bundles.judge(bundles.work / "changed.tar") - ignored - (of_turns if judge == bundles.with_turns else set())
                failed += read != found
                print(f"bundle says {sorted(found)}, check {sorted(read)}: {name}")
            tried += 1
            hidden += bool(kind)
            wrong = bool(found) == bool(kind)
            failed += wrong
            print(f"{'WRONG' if wrong else f'undetectable ({kind})' if kind else 'found'}: {name}: {', '.join(sorted(found)) or '-'}", flush=True)
        print(f"tried {tried}, found {tried - hidden}, of {len(kinds)} kinds that cannot be found {hidden}, failed {failed}")
        # TRUST.md tells users the same.
        text = (Path(__file__).resolve().parents[3] / "harness/tools/bundle/TRUST.md").read_text()
        told = set(re.findall(r"^\| ([^|]+) \| no \|", text, re.M))
        if told != kinds:
            print(f"TRUST.md says that these are not found: {sorted(told)}; these are not: {sorted(kinds)}")
            failed += 1
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
