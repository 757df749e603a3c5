#!/usr/bin/env python3
"""Measures how often comparisons are right, with real runs: A/A (the same thing on both sides), power (a known slowdown), rates (several
known slowdowns in turn, none among them, as small a gate as there is), and repeat (how often a second run of a cell lies in the interval
that the first one stated).

In goes an allocmark program and, for power and rates, the library built from tests/allocators/plugins/paced_pluggable.c; out comes one line per
experiment with a share and its Wilson interval at 95 %, and with --out a JSON file of the same. Every comparison is a run of its
own (`run --ab`, or with --two-runs `run`, `run`, `compare --confirm`); nothing is resampled. Uses the standard library only.
"""
import argparse
import functools
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORKLOADS = ["gpt2_train_amp", "bert_varlen_infer"]  # where none is named


def wilson(hits, trials, z=1.959964):
    """The score interval of a share, as results/statistics/proportion.h computes it."""
    if trials == 0:
        return (None,) * 3
    share, scale = hits / trials, 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # At the ends the formula gives exactly 0 and 1; rounding must not hide that.
    return share, 0.0 if hits == 0 else max(0.0, centre - half), 1.0 if hits == trials else min(1.0, centre + half)


def wrapper(folder, name, program, variables):
    """A program that is allocmark with some environment variables: one side of a power experiment."""
    path = folder / name
    exports = "".join(f"export {key}={value}\n" for key, value in variables.items())
    path.write_text(f'#!/bin/sh\n{exports}exec {program} "$@"\n')
    path.chmod(0o755)
    return str(path)


class Experiment:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.program = str(Path(options.program).resolve())
        self.axes = ["--device", options.device]
        if options.rounds:
            self.axes_rounds = ["--rounds", str(options.rounds), "--rounds-max", str(options.rounds_max or 2 * options.rounds)]
        else:
            self.axes_rounds = []
        if options.policy:
            self.axes_rounds += ["--policy", options.policy]
        self.results = []  # of the experiments that have ended

    def call(self, arguments):
        done = subprocess.run(arguments, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return done

    def compare(self, index, sides, cells, two_runs):
        """One comparison of the two programs on the cells; its JSON."""
        out = self.folder / f"comparison{index}"
        try:
            if two_runs:
                for name, side in zip(("base", "new"), sides):
                    self.call([side, "run", *cells, *self.axes, "--jobs", "1", "--out", str(out / name)])
                done = self.call([self.program, "compare", str(out / "base"), str(out / "new"), "--confirm", *self.axes_rounds,
                                  "--base-program", sides[0], "--new-program", sides[1], "--confirm-out", str(out / "confirm"),
                                  "--order-seed", str(index + 2), "--no-calibration", "--format", "json"])
            else:
                done = self.call([self.program, "run", "--ab", *sides, *cells, *self.axes, *self.axes_rounds, "--out", str(out),
                                  "--order-seed", str(index + 2), "--format", "json"])
            return json.loads(done.stdout)
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def many(self, sides, cells, result_of):
        """The result of as many comparisons as were asked for, or as begin before the time is up."""
        end = time.time() + self.options.time_limit if self.options.time_limit else math.inf
        comparisons, lock = [], threading.Lock()

        def one(index):
            if time.time() >= end:
                return
            found = self.compare(index, sides, cells, self.options.two_runs)
            with lock:
                comparisons.append(found)
                self.keep([result_of(comparisons)])

        with ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(one, range(self.options.comparisons)))
        if not comparisons:
            raise SystemExit(f"{self.options.experiment}: no comparison began within --time-limit {self.options.time_limit} s; give more time")
        return result_of(comparisons)

    def keep(self, results):
        """Writes what has been measured: it stays, whatever ends the rest."""
        if self.options.out:
            Path(self.options.out).write_text(json.dumps(self.results + results, indent=1) + "\n")


def timed_numbers(comparison):
    for cell in comparison["cells"]:
        for number in cell["numbers"]:
            if "p_value" in number:
                yield cell, number


def aa_summary(comparisons):
    """How often numbers, cells and whole comparisons were called different, though both sides are the same."""
    cells = [[n for n in cell["numbers"] if "p_value" in n] for comparison in comparisons for cell in comparison["cells"]]
    numbers = [number for cell in cells for number in cell]
    called = [number for number in numbers if number["verdict"] in ("worse", "better")]
    result = {"experiment": "aa", "comparisons": len(comparisons), "timed_cells": len(cells), "timed_numbers": len(numbers)}
    result["verdicts"] = {verdict: sum(n["verdict"] == verdict for n in numbers) for verdict in sorted({n["verdict"] for n in numbers})}
    result["cells_called"] = wilson(sum(any(n in called for n in cell) for cell in cells), len(cells))
    result["numbers_called"] = wilson(len(called), len(numbers))
    result["comparisons_failed"] = wilson(sum(c["exit_code"] == 1 for c in comparisons), len(comparisons))
    result["called"] = [{key: n[key] for key in ("number", "base", "new", "change", "p_value_adjusted")} for n in called]
    # How often the interval holds no change, which is the truth here.
    covered = sum(n["change_low"] <= 0 <= n["change_high"] for n in numbers if n["change_low"] is not None)
    result["intervals_with_truth"] = wilson(covered, sum(n["change_low"] is not None for n in numbers))
    return result


def measure_aa(experiment, options):
    cells = ["--workload", *(options.workload or WORKLOADS), "--allocator", *(options.allocator or ["caching", "cub"]), "--conf", "unset"]
    # Two names of the same program: the sides must not be told apart by the path alone.
    sides = [wrapper(experiment.folder, name, experiment.program, {}) for name in ("a.sh", "b.sh")]
    return [experiment.many(sides, cells, aa_summary)]


REPEATED = [f"{operation}_latency_ns_{quantile}" for operation in ("allocate", "deallocate") for quantile in ("p50", "p99")]


def read_cells(folder):
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return {line["cell_id"]: line for line in lines if line["kind"] == "cell" and line["status"] == "ok" and line["allocator"] != "null"}


def repeat_summary(runs):
    """Of each pair of successive runs: is the later one's number in the interval that the earlier one stated?"""
    result = {"experiment": "repeat", "runs": len(runs), "cells": len(runs[0]) if runs else 0}
    inside, widths, absent = {name: [] for name in REPEATED}, {name: [] for name in REPEATED}, 0
    for first, second in itertools.pairwise(runs):
        for cell_id in first.keys() & second.keys():
            for name in REPEATED:
                value, again = first[cell_id][name], second[cell_id][name]
                low, high = first[cell_id][name + "_repeat_low"], first[cell_id][name + "_repeat_high"]
                if low is None or high is None or again is None:
                    absent += 1
                    continue
                inside[name].append(low <= again <= high)
                widths[name].append((high - low) / value)
    for name in ("all", *REPEATED):
        names = REPEATED if name == "all" else [name]
        hits, width = [[value for one in names for value in values[one]] for values in (inside, widths)]
        width.sort()
        result[name] = {"pairs": len(hits), "inside": wilson(sum(hits), len(hits)), "width_median": width[len(width) // 2] if width else None}
    result["not_stated"] = absent
    result["reference"] = reference_summary(runs)
    return result


def reference_summary(runs):
    """Of each run: is the long reference, the median of all other runs' numbers, in the interval that the run stated?"""
    hits = []
    for index, run in enumerate(runs):
        others = runs[:index] + runs[index + 1:]
        for cell_id, name in ((cell_id, name) for cell_id in run for name in REPEATED):
            values = sorted(other[cell_id][name] for other in others if other.get(cell_id, {}).get(name) is not None)
            low, high = run[cell_id][name + "_repeat_low"], run[cell_id][name + "_repeat_high"]
            if low is not None and high is not None and values:
                hits.append(low <= values[len(values) // 2] <= high)
    return {"numbers": len(hits), "inside": wilson(sum(hits), len(hits))}


def measure_repeat(experiment, options):
    """The same cells in runs one after the other; the first --calibration-runs of them make the calibration of the rest."""
    cells = ["--suite", options.suite] if options.suite else ["--workload", *(options.workload or WORKLOADS), "--conf", "unset"]
    if options.allocator or not options.suite:
        cells += ["--allocator", *(options.allocator or ["caching", "cub"])]
    end = time.time() + options.time_limit if options.time_limit else math.inf
    calibration, folders, runs, longest = [], [], [], 0.0
    for index in range(options.calibration_runs + options.runs):
        begin = time.time()
        if begin + longest > end:
            break
        folder = experiment.folder / f"run{index}"
        passes = ["--passes", str(options.passes)] if options.passes else []
        passes += ["--pass-order", options.pass_order] if options.pass_order else []
        experiment.call([experiment.program, "run", *cells, *experiment.axes, *passes, *calibration, "--jobs", "1", "--out", str(folder)])
        longest = max(longest, time.time() - begin)
        if index < options.calibration_runs:
            folders.append(str(folder))
            if len(folders) == options.calibration_runs:
                file = str(experiment.folder / "calibration.json")
                experiment.call([experiment.program, "compare", "--force", "--calibrate", file, *folders])
                calibration = ["--calibration", file]
            continue
        runs.append(read_cells(folder))
        result = {**repeat_summary(runs), "calibration_runs": options.calibration_runs}
        if len(runs) > 1:
            experiment.keep([result])
    if len(runs) < 2:
        raise SystemExit(f"repeat: wanted two runs or more, got {len(runs)} within --time-limit; give more time or fewer cells")
    return [result]


def paced_cell(plugin):
    return f"pluggable=library:{plugin},malloc:slowed_malloc,free:base_free,trim:paced_trim"


PROBE_STEPS, PROBE_SLOW_STEPS = 20, 1200


def probe_changes(experiment, plugin):
    """What known numbers of further steps change, as shares: from them follow the steps for a wanted change."""
    variables = {"PACED_EXTRA_STEPS": PROBE_STEPS, "PACED_EXTRA_SLOW_STEPS": PROBE_SLOW_STEPS}
    sides = [wrapper(experiment.folder, f"probe{side}.sh", experiment.program, values)
             for side, values in (("a", {}), ("b", variables))]
    cells = ["--workload", "gpt2_train_amp", "--allocator", "pluggable", "--conf", paced_cell(plugin)]
    comparison = experiment.compare(-1, sides, cells, two_runs=False)
    return {number["number"]: number["change"] for _, number in timed_numbers(comparison)}


def power_summary(comparisons, number_name, share, variables, options):
    """How often the slowed number of the slowed cell was found, and how often another cell's was called."""
    timed = [(cell["allocator"] == "pluggable", n) for c in comparisons for cell, n in timed_numbers(c)]
    slowed = [n for of_slowed_cell, n in timed if of_slowed_cell and n["number"] == number_name]
    other = [n for of_slowed_cell, n in timed if not of_slowed_cell]
    changes = sorted(n["change"] for n in slowed)
    return {"experiment": f"power {number_name} {share:.0%}", "variables": variables, "comparisons": len(comparisons),
            "cells": 1 + options.other_cells, "found": wilson(sum(n["verdict"] == "worse" for n in slowed), len(comparisons)),
            "failed": wilson(sum(c["exit_code"] == 1 for c in comparisons), len(comparisons)),
            "change_median": changes[len(changes) // 2], "change_range": [changes[0], changes[-1]],
            "others_called": wilson(sum(n["verdict"] in ("worse", "better") for n in other), len(other))}


def measure_power(experiment, options):
    """One slowed cell among others; how many steps make the slowdown is measured first."""
    plugin = str(Path(options.plugin).resolve())
    probe = probe_changes(experiment, plugin)
    # Rounded down: what is put in is not more than was asked for.
    extra = int(PROBE_STEPS * options.p50 / probe["allocate_latency_ns_p50"])
    slow_extra = int(PROBE_SLOW_STEPS * options.p99 / probe["allocate_latency_ns_p99"])
    others = [word for index in range(options.other_cells) for word in ("--conf", f"caching=max_split_size_mb:{20 + index}")]
    allocators = ["pluggable"] + (["caching"] if others else [])
    cells = ["--workload", "gpt2_train_amp", "--allocator", *allocators, "--conf", paced_cell(plugin), *others]
    for name, variables, share in (
        ("allocate_latency_ns_p50", {"PACED_EXTRA_STEPS": extra}, options.p50),
        ("allocate_latency_ns_p99", {"PACED_EXTRA_SLOW_STEPS": slow_extra}, options.p99),
    ):
        sides = [wrapper(experiment.folder, f"{name}{side}.sh", experiment.program, values)
                 for side, values in (("a", {}), ("b", variables))]
        summary = functools.partial(power_summary, name=name, share=share, variables=variables, options=options)
        experiment.results.append(experiment.many(sides, cells, summary))
    return experiment.results


def rate_summary(comparisons, steps):
    """Of comparisons of one cell whose new side does so many steps more: how often the gate fails, and what the slowdown was found to be."""
    numbers = [{n["number"]: n for _, n in timed_numbers(c)} for c in comparisons]
    changes = sorted(of["allocate_own_ns_p50"]["change"] for of in numbers)
    verdicts = [{n["verdict"] for cell in c["cells"] for n in cell["numbers"]} for c in comparisons]
    return {"experiment": f"rates {steps} steps", "comparisons": len(comparisons), "change_median": changes[len(changes) // 2],
            "change_range": [changes[0], changes[-1]], "failed": wilson(sum(c["exit_code"] == 1 for c in comparisons), len(comparisons)),
            "p50_called": wilson(sum(of["allocate_own_ns_p50"]["verdict"] == "worse" for of in numbers), len(numbers)),
            "called": sorted({n for of in numbers for n in of if of[n]["verdict"] in ("worse", "better")}),
            "better": wilson(sum("better" in found for found in verdicts), len(verdicts))}


def measure_rates(experiment, options):
    """One cell of the gate, whose new side's requests do each of --steps steps more (of 150), in turn."""
    plugin = str(Path(options.plugin).resolve())
    cells = ["--workload", *(options.workload or ["gpt2_train_ckpt"]), "--allocator", "pluggable", "--conf", paced_cell(plugin), "--no-html"]
    sides = {}
    for steps in options.steps:
        sides[steps] = [wrapper(experiment.folder, f"steps{steps}{side}.sh", experiment.program, {"PACED_EXTRA_STEPS": value})
                        for side, value in (("a", 0), ("b", steps))]
    end = time.time() + options.time_limit if options.time_limit else math.inf
    found = {steps: [] for steps in options.steps}
    index, begin, results = 0, time.time(), []
    while index < options.comparisons * len(options.steps) and time.time() < end:
        steps = options.steps[index % len(options.steps)]
        found[steps].append(experiment.compare(index, sides[steps], cells, two_runs=False))
        index += 1
        results = [rate_summary(all_of, steps) for steps, all_of in found.items() if all_of]
        results.append({"experiment": "rates", "seconds_per_comparison": round((time.time() - begin) / index, 1)})
        experiment.keep(results)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=["aa", "power", "rates", "repeat"])
    parser.add_argument("--program", default="build/release/bin/allocmark")
    parser.add_argument("--plugin", default="build/release/lib/paced_pluggable.so")
    parser.add_argument("--device", default="sim:h200")
    parser.add_argument("--workload", nargs="+", help="[gpt2_train_amp bert_varlen_infer; of rates, gpt2_train_ckpt]")
    parser.add_argument("--allocator", nargs="+", help="[caching cub, with --suite the suite's]")
    parser.add_argument("--suite", help="repeat: a suite's cells instead of --workload")
    parser.add_argument("--runs", type=int, default=10, help="repeat: runs that are held against each other")
    parser.add_argument("--calibration-runs", type=int, default=0, help="repeat: runs before them that make their calibration, 2 or more; 0: none")
    parser.add_argument("--passes", type=int, help="repeat: timed passes instead of allocmark's default")
    parser.add_argument("--pass-order", choices=["rounds", "cells"], help="repeat: instead of allocmark's default")
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--time-limit", type=float, help="seconds after which no comparison begins, for each experiment; repeat ends before")
    parser.add_argument("--jobs", type=int, default=1, help="comparisons at a time")
    parser.add_argument("--rounds", type=int, help="instead of allocmark's default")
    parser.add_argument("--rounds-max", type=int)
    parser.add_argument("--two-runs", action="store_true", help="run, run, compare --confirm instead of run --ab")
    parser.add_argument("--policy", help="what a regression is, as of gate.sh")
    parser.add_argument("--steps", type=int, nargs="+", default=[0, 3, 6], help="rates: further steps of a request's 150, compared in turn")
    parser.add_argument("--p50", type=float, default=0.05, help="slowdown of every request, as a share of P50")
    parser.add_argument("--p99", type=float, default=0.10, help="slowdown of the slow requests, as a share of P99")
    parser.add_argument("--other-cells", type=int, default=11, help="cells beside the slowed one")
    parser.add_argument("--out", help="JSON file, written anew after every comparison or run")
    options = parser.parse_args()
    if options.calibration_runs == 1:
        parser.error("--calibration-runs: a calibration needs two runs or more, got 1")
    folder = Path(tempfile.mkdtemp(prefix="measure_verdicts"))
    begin = time.time()
    try:
        experiment = Experiment(options, folder)
        results = {"aa": measure_aa, "power": measure_power, "rates": measure_rates, "repeat": measure_repeat}[options.experiment](experiment, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for result in results:
        result.update(wall_s=round(time.time() - begin, 1), load=os.getloadavg()[0], two_runs=options.two_runs, device=options.device)
        print(json.dumps(result))
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
