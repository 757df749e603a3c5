"""Experiments as the page shows them: cells grouped and answered by allocmark (results/answer/answer.h), never here; and counts of those
answers over all experiments. A Run with its facts flows in; plain dicts flow out, no markup."""

import re

from facts import BASELINE_ALLOCATOR, NULL_ALLOCATOR


def setting_of(cell):
    return cell["allocator"], cell["conf"]


def make_experiments(run):
    by_id = {cell["cell_id"]: cell for cell in run.cells}
    experiments = []
    for index, answer in enumerate(run.answers["experiments"]):
        cells = [by_id[cell_id] for cell_id in answer["cells"]]
        served = [*answer["settable"], *answer["others"]]
        baseline = answer["baseline"]
        costs = {one["cell_id"]: one for one in [*([baseline] if baseline else []), *served] if "value_ns" in one}
        first = [baseline] if baseline and by_id[baseline["cell_id"]]["outcome"] == "ok" else []
        ranked = [one["cell_id"] for one in sorted([*first, *served], key=lambda one: one.get("value_ns", 0))]
        failed = [baseline["cell_id"]] if baseline and baseline["cell_id"] not in ranked else []
        experiments.append(
            {
                "id": f"experiment-{index + 1}",
                "key": cells[0],
                "cells": cells,
                "capacity_bytes": answer["capacity_bytes"],
                "answer": answer,
                "costs": costs,
                "ranked": [by_id[one] for one in ranked + failed],
            }
        )
    return experiments


def others_of(run):
    """Experiments without a table on the page, which is full: key words of them, and cells with setting, status, outcome and warnings."""
    return run.answers["others"]


def all_cells(run):
    """Those with a table and those without."""
    return [*run.cells, *(cell for other in others_of(run) for cell in other["cells"])]


def score_settings(run, experiments, settings):
    """Per setting over all experiments: in how many it served everything, and how many of caching unset's failures it avoided. In the
    order of `settings`; the null allocator cannot run out and is left out."""
    scores = {}
    judged = [(one["answer"]["verdict"], one["cells"]) for one in experiments] + [(one["verdict"], one["cells"]) for one in others_of(run)]
    for verdict, cells in judged:
        failed = verdict in ("impossible", "rescued", "unrescued")
        for cell in cells:
            if cell["allocator"] == NULL_ALLOCATOR:
                continue
            score = scores.setdefault(setting_of(cell), {"count": 0, "served": 0, "rescuable": 0, "rescued": 0, "not_measured": 0})
            if cell["outcome"] == "none":
                score["not_measured"] += 1
                continue
            score["count"] += 1
            score["served"] += cell["outcome"] == "ok"
            score["rescuable"] += failed
            score["rescued"] += failed and cell["outcome"] == "ok"
    return {setting: scores[setting] for setting in settings if setting in scores}


def letter_of(index):
    """A, B, ... Z, AA, AB: the short name of a setting."""
    text = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        text = chr(65 + digit) + text
    return text


def _natural(text):
    """Numbers in a text compare as numbers: max_split_size_mb:32 comes before 128."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.findall(r"[0-9]+|[^0-9]+", text)]


def _place(setting):
    """The baseline first, its config strings next, then the others by name; what hands out no memory last."""
    allocator, conf = setting
    return allocator == NULL_ALLOCATOR, allocator != BASELINE_ALLOCATOR, _natural(allocator), _natural(conf)


def prepare(run):
    """(experiments, letters of the settings: the baseline is A). Cells end up in the file in the order in which they ended; the page has
    them in the order of the letters."""
    settings = sorted({setting_of(cell) for cell in all_cells(run)}, key=_place)
    letters = {setting: letter_of(index) for index, setting in enumerate(settings)}
    place = {setting: index for index, setting in enumerate(settings)}
    experiments = make_experiments(run)
    for experiment in experiments:
        experiment["cells"].sort(key=lambda cell: place[setting_of(cell)])
    return experiments, letters
