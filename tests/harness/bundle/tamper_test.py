#!/usr/bin/env python3
"""Bundles that somebody changed and then made to fit again, one change after the other. Usage: tamper_test.py PATH_OF_ALLOCMARK [REGEX_OF_CASES]

Each case changes the results of a sound run and has allocmark bundle them, so that tables, page and hashes fit; or it
changes a file of a bundle and makes the hashes right again. `check` must break or refuse a rule that the sound bundle
keeps, or have a reservation that it has not. Cases of four kinds cannot be found; they are named here and in
results/BUNDLES.md: a case of those that is found after all fails as well. tamper_cheats.py has what changes a comparison,
an A/B run or the conditions, tamper_runs.py and tamper_turns.py what changes the run that is compared with, tamper_parts.py what leaves out
that other numbers are held against. How quiet the
machine was is not looked at.
"""
import copy
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tamper_bundles import KEY, Bundles
from tamper_cheats import FILES, FOLDERS, HIDDEN_FILES, RESULTS, TIMES, TURNS, renamed
from tamper_parts import FOLDERS as PARTS_OF_FOLDERS
from tamper_parts import RESULTS as OF_PARTS
from tamper_rules import BASES
from tamper_rules import RESULTS as OF_RULES
from tamper_runs import BASE_FILES, BASE_FOLDERS
from tamper_runs import BASES as OF_BASES
from tamper_runs import FOLDERS as OF_FOLDERS
from tamper_runs import RESULTS as OF_RUNS
from tamper_turns import TURNS as OF_TURNS

ROOT = Path(__file__).resolve().parents[3]
HALVED = ("p50", "p90", "p99", "p999", "max", "mean")
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
              "requested_bytes_at_reserved_peak", "reserved_bytes_at_requested_peak", "requested_bytes_peak", "rounded_bytes_peak",
              "packed_bytes", "capacity_bytes"):
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


# Of pinned memory of the host.
PINNED = [("all OOMs of host_caching set to 0", lambda lines: clear_ooms(of("host_caching", "churn")(lines)), "")]
for field in ("reserved_bytes_peak", "device_allocate_count", "step_ns_p50"):
    for allocator in ("host_caching", "host_caching@2.13", "cupy_pinned"):
        def halved_pinned(lines, allocator=allocator, field=field):
            of(allocator, "churn")(lines)[field] //= 2

        PINNED.append((f"{field} of {allocator} halved", halved_pinned, ""))


def other_conf(lines):
    renamed(lines, of("host_caching", "churn")(lines), conf="nope:1")


PINNED.append(("a config string 'nope:1' of host_caching", other_conf, ""))


def check_sound(bundles):
    """What is wrong with bundles that nobody changed; and what they say by themselves, of an A/B run and of one with a baseline."""
    failed = bundles.judge(bundles.sound) != bundles.kept
    if {one for one in bundles.kept if ":" not in one} - {"machine-quiet"}:
        print(f"the sound bundle breaks {sorted(bundles.kept)}")
        subprocess.run([bundles.program, "check", bundles.sound, "--rerun"], check=False)
        failed += 1
    of_turns = bundles.with_turns(lambda folder: None)
    of_pinned = bundles.with_pinned(lambda lines: None)
    pinned_timelines = {one for one in of_pinned if re.fullmatch("cells-simulated: [0-9]+ timelines of pinned memory are not compared: .*", one)}
    of_base = bundles.with_base(lambda lines: None)
    shutil.copy(bundles.work / "changed.tar", bundles.work / "sound_base.tar")
    for name, found in (("A/B run", of_turns), ("run with pinned memory", of_pinned - pinned_timelines), ("baseline", of_base)):
        # A build with local changes says so of every bundle.
        if {one for one in found - bundles.kept - {"machine-quiet"} if "a checkout with local changes" not in one}:
            print(f"the sound {name} breaks {sorted(found)}")
            failed += 1
    # Cells whose trace is not in the bundle cannot be made again, and nobody may take them for checked.
    unmade = bundles.judge_folder(bundles.work / "own", bundles.work / "changed.tar")
    if "cells-simulated" not in unmade:
        print(f"a cell of a trace file passes for checked: {sorted(unmade)}")
        failed += 1
    return failed, of_turns, of_pinned, of_base


def all_rows(bundles):
    rows = [(bundles.with_results, *row) for row in CASES + RESULTS + OF_RULES + OF_RUNS + OF_PARTS]
    rows += [(bundles.with_pinned, *row) for row in PINNED]
    rows += [(bundles.with_folder, *row) for row in FOLDERS + OF_FOLDERS + PARTS_OF_FOLDERS] + [(bundles.with_turns, *row) for row in TURNS + OF_TURNS]
    rows += [(bundles.with_base, *row) for row in BASES + OF_BASES] + [(bundles.with_base_folder, *row) for row in BASE_FOLDERS]
    rows += [(bundles.with_base_files, name, change, "") for name, change in BASE_FILES.items()]
    rows += [(bundles.with_files, name, change, "") for name, change in FILES.items()]
    return rows + [(bundles.with_files, name, change, "words of the page") for name, change in HIDDEN_FILES.items()]


def check_pages(kinds, tried, hidden):
    """Whether TRUST.md and BUNDLES.md tell users the same."""
    text = (ROOT / "harness/tools/bundle/TRUST.md").read_text()
    told = set(re.findall(r"^\| ([^|]+) \| no \|", text, re.M))
    if told != kinds:
        print(f"TRUST.md says that these are not found: {sorted(told)}; these are not: {sorted(kinds)}")
    counts = re.search(r"tries (\d+) ways to change a bundle and make it fit again\. (\d+)\s+are found", (ROOT / "results/BUNDLES.md").read_text())
    if counts is None or (int(counts[1]), int(counts[2])) != (tried, tried - hidden):
        print(f"results/BUNDLES.md must say that {tried} ways are tried and {tried - hidden} are found")
        return 1
    return told != kinds


def main(program, only=""):
    with tempfile.TemporaryDirectory() as name:
        bundles = Bundles(program, Path(name))
        failed, of_turns, of_pinned, of_base = check_sound(bundles)
        hidden, tried, agreed = 0, 0, set()
        rows = all_rows(bundles)
        of_bases = (bundles.with_base, bundles.with_base_folder, bundles.with_base_files)
        for judge, name, change, kind in [row for row in rows if re.search(only, row[1])]:
            # Whether a run was disturbed is part of what machine-quiet says of a sound one.
            ignored = {"machine-quiet"} | {one for one in bundles.kept if ":" in one or judge == bundles.with_folder}
            ignored |= of_turns if judge == bundles.with_turns else of_pinned if judge == bundles.with_pinned else of_base if judge in of_bases else set()
            found = judge(change) - ignored
            written = (bundles.work / "changed.tar").exists() and judge not in (bundles.with_files, bundles.with_base_files)
            if judge not in agreed and written:
                agreed.add(judge)  # a reader of the file is told the same: once for each kind of case
                read = bundles.judge(bundles.work / "changed.tar") - ignored
                failed += read != found
                print(f"bundle says {sorted(found)}, check {sorted(read)}: {name}")
            tried += 1
            hidden += bool(kind)
            wrong = bool(found) == bool(kind)
            failed += wrong
            print(f"{'WRONG' if wrong else f'undetectable ({kind})' if kind else 'found'}: {name}: {', '.join(sorted(found)) or '-'}", flush=True)
        kinds = {kind for *_, kind in rows if kind}
        print(f"tried {tried}, found {tried - hidden}, of {len(kinds)} kinds that cannot be found {hidden}, failed {failed}")
        failed += 0 if only else check_pages(kinds, tried, hidden)
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
