"""Timelines made small enough for the page. Each cell's part of the budget is the same; moments and maps are thinned until they fit, and
peaks are kept. Timelines as load.py read them flow in; a chart and packed maps, which page/app.js draws, flow out."""

import json

from load import read_timeline

# All timelines of a page together, and the least that is worth a chart.
CHARACTERS_MAX = 4_000_000
CHARACTERS_MIN = 8_000
# Moments and maps to try, most first.
DETAILS = ((600, 64), (600, 32), (500, 16), (400, 8), (300, 4), (200, 2), (100, 1), (60, 0))
UNIT_BYTES = 512


def kept_moments(values, count_max):
    """Positions of at most count_max moments: of each of equally many, the one with the highest value and the last."""
    count = len(values)
    if count <= count_max:
        return range(count)
    step = -(-count * 2 // count_max)
    kept = set()
    for begin in range(0, count, step):
        span = range(begin, min(begin + step, count))
        kept |= {max(span, key=lambda at: values[at] or 0), span[-1]}
    return sorted(kept)


def _units(number_bytes):
    return (number_bytes + UNIT_BYTES // 2) // UNIT_BYTES


def compact_map(snapshot):
    """[event index, [segment start, blocks...]...]: lengths and states in turn, in units of 512 bytes; blocks tile the segment."""
    packed = [snapshot["event_index"]]
    for segment in snapshot["segments"]:
        start, at, blocks = _units(segment["address"]), _units(segment["address"]), []
        for address, size_bytes, state in segment["blocks"]:
            end = _units(address + size_bytes)
            if end <= at:
                continue
            begin = max(at, _units(address))
            if begin > at:
                blocks += [begin - at, 0]
            blocks += [end - begin, state]
            at = end
        packed.append([start, *blocks])
    return packed


def _handed_out_bytes(snapshot):
    return sum(size_bytes for segment in snapshot["segments"] for _, size_bytes, state in segment["blocks"] if state == 1)


def opening_map(maps, timeline):
    """The map that a reader needs first: at the first failed request where there is one, else where most was handed out."""
    failed = timeline.get("oom_event_index") or []
    found = next((at for at, one in enumerate(maps) if failed and one["event_index"] == failed[0]), None)
    if found is not None:
        return found
    return max(range(len(maps)), key=lambda at: _handed_out_bytes(maps[at]), default=0)


def chosen_maps(timeline, count):
    """Maps at even distances, the last one and the one to open with among them."""
    maps = timeline.get("snapshots", [])
    if len(maps) <= count:
        return maps
    chosen = {(i + 1) * len(maps) // count - 1 for i in range(count)}
    chosen |= {opening_map(maps, timeline)} if count else set()
    return [maps[at] for at in sorted(chosen)]


def compact(cell, timeline, moment_count, map_count, draw):
    maps = chosen_maps(timeline, map_count)
    failed = timeline.get("oom_event_index") or []
    return {
        "chart": draw(cell, timeline, moment_count),
        "maps": [compact_map(one) for one in maps],
        "open": opening_map(maps, timeline) if maps else 0,
        "failed": failed[0] if failed else None,
    }


def _estimate(timeline, moment_count, map_count):
    """Characters that compact() would take, roughly, from counts alone."""
    blocks = sum(len(segment["blocks"]) + 2 for one in chosen_maps(timeline, map_count) for segment in one["segments"])
    pools = timeline.get("private_pools")
    pool_moments = len(pools["event_index"]) if pools else 0
    return min(moment_count, len(timeline["event_index"])) * 30 + min(moment_count, pool_moments) * 45 + blocks * 5


def fit_timelines(run, cells, draw):
    """({cell_id: compact timeline}, count of those left out), in the order of the page. Reads only what has a chance to be shown. `draw`
    makes the chart of memory over time from a cell, its timeline and a count of moments."""
    shown = [cell for cell in cells if cell["cell_id"] in run.timelines]
    count_max = CHARACTERS_MAX // CHARACTERS_MIN
    part = CHARACTERS_MAX // min(len(shown), count_max) if shown else 0
    kept, left_out = {}, len(shown[count_max:])
    for cell in shown[:count_max]:
        timeline = read_timeline(run.timelines[cell["cell_id"]], run.notes)
        if timeline is None:
            continue
        likely = [details for details in DETAILS if _estimate(timeline, *details) <= 1.2 * part]
        packed = (compact(cell, timeline, *details, draw) for details in likely)
        fitting = next((one for one in packed if len(json.dumps(one, separators=(",", ":"))) <= part), None)
        if fitting is None:
            left_out += 1
        else:
            kept[cell["cell_id"]] = fitting
    return kept, left_out
