"""Runs of the program itself: experiments come in the order of the plan, whatever ended first."""

import json

import generate

RUN = ("run", "--device", "sim:h200", "--allow-debug", "--passes", "1", "--jobs", "1")


def results_of(folder):
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "cell"]


def run(folder, *arguments):
    done = generate.run_program(*RUN, *arguments, "--out", folder)
    assert done.returncode == 0, done.stderr
    return done


def plan_order(folder):
    return [cell["cell_id"] for cell in json.loads((folder / "plan.json").read_text())["cells"]]


def test_experiments_come_in_the_order_of_the_plan(tmp_path):
    folder = tmp_path / "run"
    run(folder, "--no-html", "--workload", "comb:count=16", "comb:count=8", "comb:count=24", "--allocator", "caching", "native")
    wanted = plan_order(folder)
    head, *cells = (folder / "results.jsonl").read_text().splitlines()
    for order in (cells[::-1], cells[1::2] + cells[0::2], cells):
        (folder / "results.jsonl").write_text("\n".join([head, *order]) + "\n")
        facts = json.loads(generate.make_report(folder, "--format", "facts"))
        assert [cell for one in facts["answers"]["experiments"] for cell in one["cells"]] == wanted
        shown = generate.make_report(folder, "--format", "csv").splitlines()[1:]
        assert [line.split(",")[0] for line in shown] == wanted
    # What no plan names stays, behind the others.
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps({**plan, "cells": plan["cells"][2:]}))
    shown = generate.make_report(folder, "--format", "csv").splitlines()[1:]
    assert [line.split(",")[0] for line in shown] == wanted[2:] + wanted[:2]
    # A report needs the results alone: without a plan they come as they were stored.
    for damage in (lambda path: path.write_text('{"cells": [{}]}'), lambda path: path.unlink()):
        damage(folder / "plan.json")
        shown = generate.make_report(folder, "--format", "csv").splitlines()[1:]
        assert [line.split(",")[0] for line in shown] == [cell["cell_id"] for cell in results_of(folder)]
