"""How far published peaks lie from predictions, and the interval that follows. Rows of published_peaks.py flow in; percents and tables flow out.

A row's *residual* is what its measured value lacks or has beyond the prediction, as a share of the allocator's part of it. Of a number
that holds what is outside of the allocator, only what lies beyond the range for the outside counts. Rows of a set share a laboratory,
a program and whoever read them, so sets weigh the same, whatever number of rows they have.
"""

import math

from text import table

LEVEL = 0.95  # of the residuals that a spread holds
KINDS = {"recording": "the program, run without a GPU", "description": "a description"}


def residual(row):
    beyond = row.measured - row.allocator
    if row.kind == "shown":
        beyond = max(beyond - row.outside_high, 0) + min(beyond - row.outside_low, 0)
    return beyond / row.allocator


def by_set(rows):
    sets = {}
    for row in rows:
        sets.setdefault(row.set, []).append(residual(row))
    return sets


def quantile(sets, share):
    """The smallest residual that has so much weight up to it."""
    weighted = sorted((value, 1 / len(own)) for own in sets.values() for value in own)
    reached = 0.0
    for value, weight in weighted:
        reached += weight
        if reached >= share * len(sets) - 1e-9:
            return value
    return weighted[-1][0]


def spread_of(sets, level=LEVEL):
    """Percents, rounded outwards."""
    low, high = quantile(sets, (1 - level) / 2), quantile(sets, (1 + level) / 2)
    return math.floor(round(100 * low, 6)), math.ceil(round(100 * high, 6))


def inside(residuals, spread):
    return sum(spread[0] <= 100 * value <= spread[1] for value in residuals)


def rows_for(kind, rows):
    """A recording's interval comes from programs; a description's from all rows, since its own sets are few."""
    return [row for row in rows if kind == "description" or row.source == "program"]


def left_out(kind, rows, level=LEVEL):
    """For each set that has rows of the kind: its residuals, and the spread of the others."""
    sets = by_set(rows_for(kind, rows))
    source = "program" if kind == "recording" else "description"
    asked = [name for name in sets if any(row.set == name and row.source == source for row in rows)]
    return {name: (sets[name], spread_of({other: sets[other] for other in sets if other != name}, level)) for name in asked}


def counted(count, total):
    return f"{count} of {total} ({100 * count / total:.0f} %)"


def tables(rows):
    lines = []
    for kind, title in KINDS.items():
        spread = spread_of(by_set(rows_for(kind, rows)))
        found = left_out(kind, rows)
        covered = {name: inside(own, others) for name, (own, others) in found.items()}
        for name, (own, others) in found.items():
            lines.append([title, name, f"{others[0]:+d} to {others[1]:+d}", counted(covered[name], len(own))])
        total = sum(len(own) for own, _ in found.values())
        mean = sum(covered[name] / len(own) for name, (own, _) in found.items()) / len(found)
        told = f"{counted(sum(covered.values()), total)}, mean of sets {100 * mean:.0f} %"
        lines.append([f"**{title}**", "**all**", f"**{spread[0]:+d} to {spread[1]:+d}**", told])
    return table(["predicted from", "set left out", "percent from the others:", "of it inside:"], lines)
