"""What a reader came for: per experiment (one workload under one capacity) which settings had no OOM and what they cost against
caching unset, and the same counted over all experiments. Cells flow in; facts as plain dicts flow out, no markup. The rules are those
of results/README.md, "Columns of the tables"."""

import math
import re
from statistics import median

from derived import (
    BASELINE_ALLOCATOR,
    CAUSES,
    NULL_ALLOCATOR,
    derive,
    had_oom,
    has_enough_samples,
    is_baseline,
    is_measured,
    request_numbers,
)

# A cost ratio: its name, the cell's field, the same per pass, the count of samples and the percentile.
COSTS = (
    ("allocate P50", "allocate_latency_ns_p50", "allocate_latency_ns_p50", "allocate_latency_count", "p50"),
    ("allocate P99", "allocate_latency_ns_p99", "allocate_latency_ns_p99", "allocate_latency_count", "p99"),
    ("free P50", "deallocate_latency_ns_p50", "deallocate_latency_ns_p50", "deallocate_latency_count", "p50"),
)


def setting_of(cell):
    return cell["allocator"], cell["conf"]


def group_cells(cells):
    """Cells that differ only in allocator and conf, in the order in which they ended up in the file."""
    groups = {}
    for cell in cells:
        key = cell["workload"], cell["device"], cell["capacity"], cell["seed"], cell["on_oom"]
        groups.setdefault(key, []).append(cell)
    return list(groups.values())


def _passes_apart(cell, baseline, name):
    """Whether the ranges of the two cells' passes do not touch: a difference beyond the spread within each."""
    if len(cell["passes"]) < 2 or len(baseline["passes"]) < 2:
        return False
    left = [one[name] for one in cell["passes"]]
    right = [one[name] for one in baseline["passes"]]
    if None in left or None in right:
        return False
    return max(left) < min(right) or max(right) < min(left)


def costs_of(cell, baseline):
    """Ratios to the baseline, in the order of COSTS and then reserved peak; apart and enough say how far they can be trusted."""
    costs = []
    for name, value_name, pass_name, count_name, percentile in COSTS:
        value, base = cell[value_name], baseline[value_name]
        if not value or not base:
            continue
        enough = all(has_enough_samples(percentile, one[count_name]) for one in (cell, baseline))
        apart = _passes_apart(cell, baseline, pass_name)
        costs.append({"name": name, "field": value_name, "ratio": value / base, "apart": apart, "enough": enough})
    reserved, base = cell["reserved_bytes_peak"], baseline["reserved_bytes_peak"]
    if reserved is not None and base:
        costs.append(
            {"name": "reserved peak", "field": "reserved_bytes_peak", "ratio": reserved / base, "apart": True, "enough": True}
        )
    return costs


def _cheapest_first(cell):
    """Config strings of the baseline allocator ask least of a user, so they come first; then the cheapest P99."""
    p99 = cell["allocate_latency_ns_p99"]
    return cell["allocator"] != BASELINE_ALLOCATOR, math.inf if p99 is None else p99


def outcome_of(cell):
    """One word for the matrix and the filter: ok, oom, or none where there are no numbers."""
    if not is_measured(cell) or cell["allocate_count"] == 0:
        return "none"
    return "oom" if had_oom(cell) else "ok"


def failures_of(cell):
    if cell["status"] == "oom_stopped":
        return "stopped at its first failed request"
    if cell["oom_count"] == 0:
        return f"a request failed in {cell['trial_oom_count']} of {cell['trial_count']} timed passes"
    return f"{cell['oom_count']:,} of {cell['allocate_count']:,} requests failed"


def causes_of(cell):
    return [(cause, cell["oom_count_" + cause]) for cause in CAUSES if cell["oom_count_" + cause]]


def answer_of(cells):
    """The facts of one experiment's answer."""
    compared = [cell for cell in cells if cell["allocator"] != NULL_ALLOCATOR]
    baseline = next((cell for cell in compared if is_baseline(cell) and outcome_of(cell) != "none"), None)
    others = [cell for cell in compared if cell is not baseline]
    return {
        "baseline": baseline,
        "baseline_failed": baseline is not None and had_oom(baseline),
        "all_capacity": baseline is not None and 0 < baseline["oom_count"] == baseline["oom_count_capacity"],
        "without_oom": sorted((cell for cell in others if outcome_of(cell) == "ok"), key=_cheapest_first),
        "with_oom": [cell for cell in others if outcome_of(cell) == "oom"],
        "not_measured": [cell for cell in others if outcome_of(cell) == "none"],
    }


def make_experiments(cells):
    experiments = []
    for index, group in enumerate(group_cells(cells)):
        first = group[0]
        capacities = {cell["capacity_bytes"] for cell in group if is_measured(cell) and cell["allocator"] != NULL_ALLOCATOR}
        bounded = first["capacity"] != "unlimited" and len(capacities) == 1
        experiments.append(
            {
                "id": f"experiment-{index + 1}",
                "key": first,
                "cells": group,
                "capacity_bytes": capacities.pop() if bounded else None,
                "answer": answer_of(group),
            }
        )
    return experiments


def _spread(ratios):
    return {"median": median(ratios), "low": min(ratios), "high": max(ratios), "count": len(ratios)} if ratios else None


def score_settings(experiments, settings):
    """One line per setting over all experiments: how often it had no OOM, how many of caching unset's OOMs it avoided, and the median
    and range of its cost ratios. In the order of `settings`; the null allocator cannot run out and is left out."""
    scores = {}
    for experiment in experiments:
        baseline = experiment["answer"]["baseline"]
        failed = experiment["answer"]["baseline_failed"]
        for cell in experiment["cells"]:
            if cell["allocator"] == NULL_ALLOCATOR:
                continue
            fresh = {"count": 0, "without_oom": 0, "rescuable": 0, "rescued": 0, "not_measured": 0, "ratios": {}}
            score = scores.setdefault(setting_of(cell), fresh)
            outcome = outcome_of(cell)
            score["not_measured"] += outcome == "none"
            if outcome == "none":
                continue
            score["count"] += 1
            score["without_oom"] += outcome == "ok"
            score["rescuable"] += failed
            score["rescued"] += failed and outcome == "ok"
            if baseline is None or cell is baseline:
                continue
            for cost in filter(lambda one: one["enough"], costs_of(cell, baseline)):
                score["ratios"].setdefault(cost["field"], []).append(cost["ratio"])
    for score in scores.values():
        score["ratios"] = {name: _spread(ratios) for name, ratios in score["ratios"].items()}
    return {setting: scores[setting] for setting in settings if setting in scores}


def headline_of(experiments, scores):
    """The counts behind the page's first sentence."""
    with_baseline = [one for one in experiments if one["answer"]["baseline"] is not None]
    failed = [one for one in with_baseline if one["answer"]["baseline_failed"]]
    avoidable = [one for one in failed if one["answer"]["without_oom"]]
    best = max((score["rescued"] for score in scores.values()), default=0)
    rescuers = [setting for setting, score in scores.items() if best and score["rescued"] == best]

    def asks_least(setting):
        spread = scores[setting]["ratios"].get("allocate_latency_ns_p99")
        return setting[0] != BASELINE_ALLOCATOR, spread["median"] if spread else math.inf

    return {
        "experiment_count": len(experiments),
        "baseline_count": len(with_baseline),
        "failed_count": len(failed),
        "avoided_count": len(avoidable),
        "best_count": best,
        "best_settings": sorted(rescuers, key=asks_least),
    }


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
    """Adds the derived numbers to the cells; (experiments, letters of the settings: the baseline is A). Cells end up in the file in the
    order in which they ended; the page has them in the order of the letters."""
    for cell in run.cells:
        cell.update(derive(cell))
        cell.update(request_numbers(cell))
    settings = sorted({setting_of(cell) for cell in run.cells}, key=_place)
    letters = {setting: letter_of(index) for index, setting in enumerate(settings)}
    place = {setting: index for index, setting in enumerate(settings)}
    experiments = make_experiments(run.cells)
    for experiment in experiments:
        experiment["cells"].sort(key=lambda cell: place[setting_of(cell)])
    return experiments, letters
