#!/usr/bin/env python3
"""`allocmark merge` on shards and nodes as the program itself writes them. Usage: merge_test.py PATH_OF_ALLOCMARK"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RUN = ["run", "--workload", "comb:count=4", "churn:events=2000", "--allocator", "caching", "native", "--seeds", "2", "--passes", "1", "--device", "sim:h200"]
RUN += ["--allow-debug", "--jobs", "1"]


class Checks:
    def __init__(self, program):
        self.program, self.failures = program, []

    def __call__(self, name, code, wanted, *words, environment=None):
        run = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, env={**os.environ, **(environment or {})})
        output = run.stdout + run.stderr
        lacking = [text for text in wanted if text not in output]
        if run.returncode != code or lacking:
            self.failures.append(f"{name}: exit code {run.returncode}, wanted {code}; lacks {lacking} in\n{output[-1500:]}")
        return run.stdout

    def holds(self, name, fact):
        if not fact:
            self.failures.append(name)


def cells(folder):
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return {line["cell_id"]: line for line in lines if line["kind"] == "cell"}


def edit_environment(folder, **changes):
    lines = (folder / "results.jsonl").read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), **changes})
    (folder / "results.jsonl").write_text("\n".join(lines) + "\n")


def shards(check, work):
    for number in (1, 2, 3):
        check(f"shard {number}", 0, [], *RUN, "--shard", f"{number}/3", "--out", work / f"shards/{number}")
    check("the whole run", 0, [], *RUN, "--out", work / "at_once")
    check("merge", 0, ["8 of 8 cells, from 3 shards"], "merge", work / "shards", "--out", work / "whole")
    whole, at_once = cells(work / "whole"), cells(work / "at_once")
    check.holds("the same cells", sorted(whole) == sorted(at_once))
    exact = ("trace_hash", "placement_hash", "oom_count", "reserved_bytes_peak", "status")
    check.holds("the same exact numbers", all(whole[i][key] == at_once[i][key] for i in whole for key in exact))
    check("report of the merged run", 0, [], "report", work / "whole", "--no-html")
    check("resume of the merged run", 0, ["8"], *RUN, "--resume", "--out", work / "whole")
    check("without a folder", 2, ["--out DIR"], "merge", work / "shards")
    check("into a full folder", 2, ["whole"], "merge", work / "shards", "--out", work / "whole")

    check("a shard is missing", 3, ["cells that no shard has: 3", "5 of 8 cells"], "merge", work / "shards/1", work / "shards/3", "--out", work / "two")
    shutil.copytree(work / "shards/1", work / "again")
    twice = ("merge", work / "shards", work / "again", "--out")
    check("a shard is there twice", 0, ["counted once: 3", "8 of 8 cells", "again"], *twice, work / "doubled")
    check.holds("counted once", len((work / "doubled/results.jsonl").read_text().splitlines()) == 9)
    text = (work / "again/results.jsonl").read_text()
    hash_text = next(iter(cells(work / "again").values()))["placement_hash"]
    (work / "again/results.jsonl").write_text(text.replace(hash_text, "0" * len(hash_text)))
    check("twice with other numbers", 1, ["exact numbers differ: "], *twice, work / "contradicting")

    shutil.copytree(work / "shards/2", work / "cut")
    (work / "cut/results.jsonl").write_text((work / "shards/2/results.jsonl").read_text()[:-300])
    check("a line is cut short", 3, ["cells that no shard has: 1"], "merge", work / "shards/1", work / "cut", work / "shards/3", "--out", work / "with_cut")

    shutil.copytree(work / "shards/2", work / "other")
    pair = ("merge", work / "shards/1", work / "other", "--out", work / "refused")
    edit_environment(work / "other", hostname_hash="f" * 16)
    check("another machine", 2, ["hostname_hash", "--any-machine"], *pair)
    check("another machine, allowed", 3, ["6 of 8 cells"], *pair[:-1], work / "mixed", "--any-machine")
    check.holds("says that machines are mixed", "2 machines" in (work / "mixed/results.jsonl").read_text().splitlines()[0])
    edit_environment(work / "other", git_sha="another")
    check("another version", 2, ["git_sha: was"], *pair, "--any-machine")
    edit_environment(work / "other", **json.loads((work / "shards/1/results.jsonl").read_text().splitlines()[0]))
    plan = json.loads((work / "other/plan.json").read_text())
    (work / "other/plan.json").write_text(json.dumps({**plan, "pass_count": 7}))
    check("another plan", 2, ["passes: 1 and 7"], *pair)
    (work / "other/plan.json").write_text(json.dumps({**plan, "cells": plan["cells"][:5]}))
    check("a plan of fewer cells", 2, ["cells of the plan: 8 and 5"], *pair)
    check.holds("nothing is left of what was refused", not (work / "refused").exists())


def gpu_tests(report):
    return report["gpus"][0]["tests"]


def fit(report):
    """Called so by somebody."""
    report.update(verdict="PASS", exit_code=0)
    report["gpus"][0]["verdict"] = "PASS"
    for test in gpu_tests(report):
        if test["verdict"] == "FAIL":
            test.update(verdict="PASS", reason="")
        for figure in test["figures"]:
            figure["verdict"] = "PASS" if figure["verdict"] == "FAIL" else figure["verdict"]


def without_test(report):
    fit(report)
    report["gpus"][0]["tests"] = [test for test in gpu_tests(report) if test["test"] != "leaks"]


def with_limits(**changes):
    def change(report):
        for figure in [figure for test in gpu_tests(report) for figure in test["figures"] if figure["verdict"] == "FAIL"]:
            figure.update(changes)
        fit(report)
    return change


def without_figures(is_left_out):
    def change(report):
        for test in gpu_tests(report):
            test["figures"] = [figure for figure in test["figures"] if not is_left_out(figure)]
        fit(report)
    return change


def skipped(report):
    for test in gpu_tests(report):
        if test["verdict"] == "FAIL":
            test.update(verdict="SKIP", reason="nothing was measured", figures=[])
    fit(report)


# Of a GPU that leaks, by leaving out or widening what says otherwise.
FORGED = {"called fit": (fit, "limits give FAIL"), "a test left out": (without_test, "leaks is there 0 times"),
          "other limits": (with_limits(warn=None, fail=1e15), "not the one that ships"),
          "no limits": (with_limits(warn=None, fail=None), "not the one that ships"),
          "limits the other way": (with_limits(direction="min"), "not the one that ships"),
          "not measured": (with_limits(value=None), "was not measured"),
          "figures left out": (without_figures(lambda figure: figure["threshold"] == "leaks.growth_bytes"), "held against leaks.growth_bytes"),
          "no GPUs": (lambda report: (fit(report), report.update(gpus=[])), "no GPU is in it")}
# Found beside others of its kind: the exit code is that of another node that fails.
FORGED_AMONG_OTHERS = {
    "only what failed is left out": (without_figures(lambda figure: figure["verdict"] in ("FAIL", "WARN")), " of sim:h200/0 has no '"),
    "a failed test is called skipped": (skipped, "watch  WARN  judged      n3: gpu/recovery sim:h200/0")}


def forged_nodes(check, work):
    path = work / "nodes/n3/qualify.json"
    honest = path.read_text()
    for name, (change, wanted) in FORGED.items():
        report = json.loads(honest)
        change(report)
        (work / "forged").mkdir(exist_ok=True)
        (work / "forged/qualify.json").write_text(json.dumps(report))
        check(f"forged: {name}", 3, ["damaged", wanted], "merge", work / "forged")
    for name, (change, wanted) in FORGED_AMONG_OTHERS.items():
        report = json.loads(honest)
        change(report)
        path.write_text(json.dumps(report))
        check(f"forged among others: {name}", 1, [wanted], "merge", work / "nodes")
    path.write_text(honest)


def nodes(check, work):
    faults = {"n3": "0:leak_every=7", "n5": "0:slow_percent=140", "n7": "0:foreign_bytes=8589934592"}
    for number in range(10):
        name = f"n{number}"
        environment = {"SIMCUDA_NODE": name, "SIMCUDA_GPU_FAULTS": faults.get(name, f"0:slow_percent={99 + number % 3}")}
        wanted = {"n3": 1, "n7": 4}.get(name, 0)
        words = ["qualify", "--device", "sim:h200", "--node", name, "--out", work / "nodes" / name]
        check(name, wanted, [], *words, environment=environment)
    (work / "names.txt").write_text("# all\nn1\nn9\nn10  # never began\n")
    words = ["merge", work / "nodes", "--expect", work / "names.txt"]
    table = check("merge nodes", 1, ["11 nodes: 2 drain, 0 look, 2 retry, 0 watch, 7 use"], *words, "--out", work / "fleet")
    check.holds("who leaks", any(line.startswith("drain") and "n3:" in line and "serial SIM" in line for line in table.splitlines()))
    check.holds("who is slow", any(line.startswith("drain") and "n5:" in line and "mean over all calls is 1.4" in line for line in table.splitlines()))
    check.holds("who is silent", any("no_answer" in line and "n10:" in line for line in table.splitlines()))
    check.holds("lists", (work / "fleet/drain.txt").read_text() == "n3\nn5\n" and (work / "fleet/retry.txt").read_text() == "n10\nn7\n")
    fleet = json.loads((work / "fleet/fleet.json").read_text())
    check.holds("JSON", [node["node"] for node in fleet["drain"]] == ["n3", "n5"] and len(fleet["nodes"]) == 11)
    check("JSON is printed", 1, ['"kind": "fleet"'], *words, "--format", "json")

    forged_nodes(check, work)
    check("a baseline", 1, [], *words, "--baseline", work / "ours.json")
    check("it is not replaced", 2, ["--force"], *words, "--baseline", work / "ours.json")
    qualify = ["qualify", "--device", "sim:h200", "--baseline", work / "ours.json"]
    check("a healthy node by it", 0, ["latency.p50_beyond_spread", "7 machines"], *qualify)
    check("a slow one by it", 0, ["WARN  latency"], *qualify, environment={"SIMCUDA_GPU_FAULTS": "0:slow_percent=500"})
    (work / "ours.json").write_text((work / "ours.json").read_text().replace("median_ns", "median"))
    check("a damaged baseline", 2, ["ours.json", "median_ns"], *qualify)
    check("nothing to merge", 6, ["none"], "merge", work / "none")
    (work / "empty").mkdir()
    check("hours below the range", 2, ["is not from 0.01 to 1000000"], "merge", work / "nodes", "--within-hours", "0")
    check("an empty folder", 2, ["nothing to merge"], "merge", work / "empty")


def main(program):
    check = Checks(program)
    with tempfile.TemporaryDirectory() as name:
        shards(check, Path(name))
        nodes(check, Path(name))
    for failure in check.failures:
        print(f"merge_test: {failure}", file=sys.stderr)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
