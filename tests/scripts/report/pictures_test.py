"""Runs of the program itself: experiments come in the order of the plan whatever ended first, and the cells that the answer names have
their pictures without being asked for."""

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


def named_cells(folder):
    return {path.stem for path in (folder / "timelines").glob("*.json")}


def test_the_cells_that_the_answer_names_have_pictures(tmp_path):
    folder = tmp_path / "run"
    settings = ("unset", "max_split_size_mb:128", "expandable_segments:True")
    confs = [word for conf in settings for word in ("--conf", conf)]
    done = run(folder, "--workload", "gpt2_train_amp", "--allocator", "caching", "--capacity", "1.05x", *confs)
    by_conf = {cell["conf"]: cell["cell_id"] for cell in results_of(folder)}
    paste = next(line for line in done.stdout.splitlines() if line.startswith("to set it: "))
    best = paste.partition("CONF=")[2]
    assert named_cells(folder) == {by_conf[""], by_conf[best]}
    assert "pictures: memory over time of 2 cells" in " ".join(done.stderr.split())
    # Their passes are nobody's results.
    assert len(results_of(folder)) == 3 and all(cell["trial_count"] == 1 for cell in results_of(folder))
    assert "data-chart=map" in (folder / "report.html").read_text().replace('"', "")


def test_without_unset_the_best_has_a_picture_or_what_failed(tmp_path):
    workload = ("--workload", "gpt2_train_amp", "--allocator", "caching", "--conf")
    for name, arguments in (("best", ("max_split_size_mb:128", "--capacity", "1.05x")), ("failed", ("max_split_size_mb:128", "--capacity", "0.5x"))):
        run(tmp_path / name, *workload, *arguments)
        assert named_cells(tmp_path / name) == {cell["cell_id"] for cell in results_of(tmp_path / name)}
    run(tmp_path / "other", "--workload", "comb:count=8", "--allocator", "native", "null")
    assert named_cells(tmp_path / "other") == {cell["cell_id"] for cell in results_of(tmp_path / "other") if cell["allocator"] == "native"}


def test_all_cells_have_pictures_where_asked_and_none_without_a_page(tmp_path):
    workload = ("--workload", "comb:count=8", "--allocator", "caching", "native")
    run(tmp_path / "all", *workload, "--timeline")
    assert named_cells(tmp_path / "all") == {cell["cell_id"] for cell in results_of(tmp_path / "all")}
    # A run that goes on with them draws none anew, though the line does not say --timeline.
    done = generate.run_program("run", "--resume", "--allow-debug", "--out", tmp_path / "all")
    assert done.returncode == 0 and "pictures:" not in done.stderr
    run(tmp_path / "none", *workload, "--no-html")
    assert not (tmp_path / "none" / "timelines").exists()
