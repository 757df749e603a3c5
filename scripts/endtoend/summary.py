#!/usr/bin/env python3
"""Prints, as Markdown, how often predictions met reality: from recorded.jsonl, predicted.jsonl and real.jsonl of endtoend.py.

usage: summary.py FOLDER
"""
import itertools
import json
import os
import statistics
import sys

import compare

# A request for a workspace that fails is caught there, and a kernel that needs less is taken: what such a program asks for
# depends on the memory that is left, and a recording holds one way only.
CHANGES_REQUESTS = ("resnet_scales", "gan", "speech_ctc", "segment_sizes", "unet_diffusion", "video_conv3d", "lstm_varlen")
ASYNC = "backend:cudaMallocAsync"
NEAR_SHARE, NEAR_MS = 0.25, 2.0
# What the answer prints beside what a setting adds: kLostOnCard of results/answer/answer.h.
LOST_LOW, LOST_HIGH, LOST_STEP_SHARE = 0.8, 1.5, 0.15


def rows_of(folder, kind):
    with open(os.path.join(folder, f"{kind}.jsonl"), encoding="utf-8") as file:
        return [row for row in map(json.loads, file) if "error" not in row]


def pairs_of(folder):
    """(real row, its prediction)."""
    said = {(row["program"], row["limit"], row["setting"]): row for row in rows_of(folder, "predicted")}
    return [(row, said[key]) for row in rows_of(folder, "real") if (key := (row["program"], row["limit"], row["setting"])) in said]


def checks(real, said):
    """What of a run is equal, by name. Runs that die are compared no further than that."""
    ends = real["oom_step"] is None and said["oom_step"] is None
    if real["setting"] == ASYNC:
        near = abs(said["peak_reserved_bytes"] / real["peak_reserved_bytes"] - 1) <= 0.02 if real["peak_reserved_bytes"] else None
        rest = {"peak reserved within 2 %": near if ends else None}
    else:
        rest = {"retries": real["retries"] == said["retries"],
                "device calls": (real["device_allocs"], real["device_frees"]) == (said["device_allocs"], said["device_frees"]),
                "peak reserved, to the byte": real["peak_reserved_bytes"] == said["peak_reserved_bytes"],
                "peak reserved within 0.1 %": abs(said["peak_reserved_bytes"] / real["peak_reserved_bytes"] - 1) <= 0.001}
        rest = {name: value if ends else None for name, value in rest.items()}
    return {"dies or not": (real["oom_step"] is None) == (said["oom_step"] is None), "in which step": real["oom_step"] == said["oom_step"], **rest}


def equal_table(pairs):
    groups = [("native settings", [p for p in pairs if p[0]["setting"] != ASYNC and p[0]["program"] not in CHANGES_REQUESTS]),
              ("native settings, programs that change their requests", [p for p in pairs if p[0]["setting"] != ASYNC and p[0]["program"] in CHANGES_REQUESTS]),
              (ASYNC, [p for p in pairs if p[0]["setting"] == ASYNC and p[0]["program"] not in CHANGES_REQUESTS]),
              (f"{ASYNC}, programs that change their requests", [p for p in pairs if p[0]["setting"] == ASYNC and p[0]["program"] in CHANGES_REQUESTS])]
    lines = ["| runs | what | equal |", "| :-- | :-- | --: |"]
    for name, some in groups:
        found = {}
        for real, said in some:
            for what, value in checks(real, said).items():
                if value is not None:
                    found.setdefault(what, []).append(value)
        lines += [f"| {name} | {what} | {sum(values)} of {len(values)} |" for what, values in found.items()]
    return lines


def added_of(pairs):
    """(real row, real ms, said ms) that a run adds to a step of unset on the whole card. Only of runs that end, beside a baseline."""
    base = {real["program"]: (real, said) for real, said in pairs if real["limit"] == "card" and real["setting"] == ""}
    found = []
    for real, said in pairs:
        own = base.get(real["program"])
        if own is None or own[0] is real or real["oom_step"] is not None or said["oom_step"] is not None or said["ideal_step_ms"] is None:
            continue
        found.append((real, compare.step_ms(real) - compare.step_ms(own[0]),
                      (said["step_ms"] - said["ideal_step_ms"]) - (own[1]["step_ms"] - own[1]["ideal_step_ms"]), compare.step_ms(own[0])))
    return found


def is_near(real_ms, said_ms):
    return abs(said_ms - real_ms) <= max(NEAR_MS, NEAR_SHARE * abs(real_ms))


def is_in_interval(real_ms, said_ms, base_ms):
    slack_ms = LOST_STEP_SHARE * base_ms
    return LOST_LOW * said_ms - slack_ms <= real_ms <= LOST_HIGH * said_ms + slack_ms


def wall_lines(added):
    covered = [is_in_interval(real_ms, said_ms, base_ms) for _, real_ms, said_ms, base_ms in added]
    near = [is_near(real_ms, said_ms) for _, real_ms, said_ms, _ in added]
    costly = [(real_ms, said_ms) for _, real_ms, said_ms, base_ms in added if real_ms > 0.2 * base_ms and real_ms > NEAR_MS]
    ratios = sorted(said_ms / real_ms for real_ms, said_ms in costly)
    by = {}
    for row, real_ms, said_ms, base_ms in added:
        by.setdefault((row["program"], row["limit"]), []).append((real_ms + base_ms, said_ms))
    pairs = [(one, other) for some in by.values() for one, other in itertools.combinations(some, 2) if abs(one[0] - other[0]) > 0.05 * min(one[0], other[0])]
    right = sum((one[0] < other[0]) == (one[1] < other[1]) for one, other in pairs)
    lines = [f"- {sum(near)} of {len(near)} runs: what a step takes longer than with unset on the whole card is within 25 % or 2 ms of what was said.",
             (f"- {sum(covered)} of {len(covered)} runs: it lies in the interval that the answer prints ({LOST_LOW} to {LOST_HIGH} times what "
              f"was said, give or take {100 * LOST_STEP_SHARE:.0f} % of a step).")]
    if ratios:
        quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
        lines.append(f"- {len(ratios)} runs took more than 20 % longer: said over real is {quartiles[1]:.2f} in the median, "
                     f"{quartiles[0]:.2f} to {quartiles[2]:.2f} in the middle half.")
    lines.append(f"- {right} of {len(pairs)} pairs of settings that differ by more than 5 % of a step are in the right order.")
    return lines


def table_of(pairs, added):
    ms = {(real["program"], real["limit"], real["setting"]): (real_ms, said_ms) for real, real_ms, said_ms, _ in added}
    lines = ["| program | limit | setting | dies in step: real, said | retries | device calls | peak reserved, GiB | added ms a step |",
             "| :-- | :-- | :-- | :-- | :-- | :-- | :-- | :-- |"]
    for real, said in pairs:
        cell = ms.get((real["program"], real["limit"], real["setting"]))
        is_async = real["setting"] == ASYNC
        values = [real["program"], real["limit"], real["setting"] or "unset",
                  f"{'-' if real['oom_step'] is None else real['oom_step']}, {'-' if said['oom_step'] is None else said['oom_step']}",
                  "" if is_async else f"{real['retries']}, {said['retries']}",
                  "" if is_async else f"{real['device_allocs']}+{real['device_frees']}, {said['device_allocs']}+{said['device_frees']}",
                  f"{real['peak_reserved_bytes'] / (1 << 30):.3f}, {said['peak_reserved_bytes'] / (1 << 30):.3f}",
                  f"{cell[0]:+.1f}, {cell[1]:+.1f}" if cell else ""]
        lines.append("| " + " | ".join(values) + " |")
    return lines


def recording_table(folder):
    lines = ["| program | peak live, GiB | ms a step | recorded, ms a step | device work |", "| :-- | --: | --: | --: | :-- |"]
    for row in rows_of(folder, "recorded"):
        steps = len(row["step_host_ms"])
        lines.append(f"| {row['program']} | {row['live_peak_bytes'] / (1 << 30):.2f} | {row['plain_total_ms'] / steps:.1f} | "
                     f"{row['total_ms'] / steps:.1f} | {row['device_work']} |")
    return lines


def main(argv=None):
    folder = (argv or sys.argv[1:])[0]
    pairs = pairs_of(folder)
    added = added_of(pairs)
    parts = ["## What is equal", "", *equal_table(pairs), "", "## What a step takes longer", "", *wall_lines(added), "", "## Recordings", "",
             *recording_table(folder), "", "## Run by run", "", "Each cell is real, then said.", "", *table_of(pairs, added)]
    print("\n".join(parts))


if __name__ == "__main__":
    main()
