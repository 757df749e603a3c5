"""The charts of an experiment, the same for the page and as SVG files: what a user pays, latency quantiles and tails, memory beyond what was
requested, failed requests, slow paths, memory over time. An experiment's cells and answer flow in; SVG flows out, or None where there
is nothing to show."""

from bisect import bisect_right
from itertools import pairwise

from chart_parts import DASHES, GIB, LINES, MIB, RIGHT, RowChart, file_style, label_text, new_drawing, only_release, setting_text, time_text, title_of
from columns import format_bytes
from comparison_charts import comparison_charts, curves_chart
from experiments import prepare, setting_of
from facts import CAUSE_WORDS, CAUSES, NULL_ALLOCATOR, has_enough_samples, is_measured
from load import read_timeline
from svg import Scale, decades, log_ticks, round_ticks
from timelines import kept_moments

QUANTILES = (("P50", "p50", "q0"), ("P90", "p90", "q1"), ("P99", "p99", "q2"), ("P99.9", "p999", "q3"), ("max", "max", "q4"))
SLOW_PATHS = (
    ("device allocs", "device_allocate_count", "m-allocated"),
    ("device frees", "device_free_count", "m-requested"),
    ("retries", "retry_count", "cause3"),
    ("sync all", "synchronize_all_count", "cause2"),
)
MOMENTS_MAX = 600
CAPTURES_MAX = 300


def labels_of(cells, letters):
    release = only_release(cells)
    return [(label_text(cell, release), letters[setting_of(cell)]) for cell in cells]


def _measured(experiment):
    return [cell for cell in experiment["cells"] if is_measured(cell) and cell["allocator"] != NULL_ALLOCATOR]


def cost_chart(experiment, letters, style):
    """What the answer ranks by, best first, then what ran out of memory; whiskers are the cheapest and the dearest pass."""
    answer, costs = experiment["answer"], experiment["costs"]
    cells = [cell for cell in experiment["ranked"] if cell["cell_id"] in costs]
    if not cells:
        return None
    values = [value for cell in cells for name in ("value_ns", "low_ns", "high_ns") if (value := costs[cell["cell_id"]].get(name))]
    name = answer["metric"]["name"]
    chart = RowChart(name[0].upper() + name[1:], title_of(experiment["key"]), labels_of(cells, letters), style)
    ends, ticks = log_ticks(min(values), max(values))
    scale = Scale(*ends, chart.left, chart.right - 64, log=True)
    chart.axis(scale, ticks, map(time_text, ticks), f"{name}, logarithmic")
    for index, cell in enumerate(cells):
        cost, y = costs[cell["cell_id"]], chart.y(index)
        colour = {"ok": "good", "oom": "bad"}[cell["outcome"]]
        tip = f"{setting_text(cell)}: {cost['text']}{', ran out of memory' if colour == 'bad' else ''}"
        if cost.get("low_ns"):
            chart.drawing.line(scale(cost["low_ns"]), y, scale(cost["high_ns"]), y, colour, 2)
        chart.drawing.dot(scale(cost["value_ns"]), y, 5, colour, hollow=colour == "bad", tip=tip)
        chart.drawing.text(chart.right, y + 4, time_text(cost["value_ns"], ".3g"), 11, "end")
    served, failed = [("served everything", "good")], [("ran out of memory", "bad")]
    outcomes = {cell["outcome"] for cell in cells}
    chart.legend((served if "ok" in outcomes else []) + (failed if "oom" in outcomes else []))
    return chart.drawing.render()


def latency_chart(experiment, letters, style):
    cells = [cell for cell in experiment["cells"] if cell["allocate_latency_count"]]
    values = [value for cell in cells for _, name, _ in QUANTILES if (value := cell[f"allocate_latency_ns_{name}"])]
    if not values:
        return None
    chart = RowChart("Latency of allocate", title_of(experiment["key"]), labels_of(cells, letters), style)
    ticks = decades(min(values), max(values))
    scale = Scale(ticks[0], ticks[-1], chart.left, chart.right, log=True)
    chart.axis(scale, ticks, map(time_text, ticks), "time of one allocate call, logarithmic; hollow: too few samples")
    for index, cell in enumerate(cells):
        points = [(scale(value), word, name, colour, value) for word, name, colour in QUANTILES if (value := cell[f"allocate_latency_ns_{name}"])]
        if points:
            chart.drawing.line(points[0][0], chart.y(index), points[-1][0], chart.y(index), "line", 3)
        for x, word, name, colour, value in points:
            enough = name == "max" or has_enough_samples(cell, f"allocate_latency_ns_{name}")
            tip = f"{setting_text(cell)}: {word} {time_text(value, '.3g')}"
            chart.drawing.dot(x, chart.y(index), 4.5, colour, hollow=not enough, tip=tip)
    chart.legend([(word, colour) for word, _, colour in QUANTILES])
    return chart.drawing.render()


def memory_chart(experiment, letters, style):
    """The part of peak memory in which settings differ: what was reserved and allocated beyond what the program requested."""
    cells = [cell for cell in _measured(experiment) if cell["reserved_bytes_peak"]]
    if not cells:
        return None
    capacity, requested = experiment["capacity_bytes"], max(cell["requested_bytes_peak"] for cell in cells)
    beyond = {cell["cell_id"]: [max(0, (cell[f"{name}_bytes_peak"] or 0) - cell["requested_bytes_peak"])
                                for name in ("reserved", "allocated")] for cell in cells}
    room = capacity - requested if capacity and capacity > requested else None
    high = max([room or 1] + [reserved for reserved, _ in beyond.values()])
    scale_bytes, unit = (GIB, "GiB") if high >= GIB else (MIB, "MiB")
    chart = RowChart("Peak memory beyond the requested peak", title_of(experiment["key"]), labels_of(cells, letters), style)
    scale = Scale(0, high / scale_bytes * 1.05, chart.left, chart.right - 64)
    ticks = round_ticks(high / scale_bytes)
    chart.axis(scale, ticks, [f"{tick:g}" for tick in ticks], f"{unit} beyond the requested peak of {format_bytes(requested)}")
    for index, cell in enumerate(cells):
        y, (reserved, allocated) = chart.y(index), beyond[cell["cell_id"]]
        tip = f"{setting_text(cell)}: reserved {format_bytes(cell['reserved_bytes_peak'])}, requested {format_bytes(cell['requested_bytes_peak'])}"
        chart.drawing.rectangle(chart.left, y - 8, max(1, scale(reserved / scale_bytes) - chart.left), 16, "m-active", tip)
        if allocated:
            chart.drawing.rectangle(chart.left, y - 4, scale(min(allocated, high) / scale_bytes) - chart.left, 8, "m-allocated")
        chart.drawing.text(chart.right, y + 4, f"+{format_bytes(reserved)}", 11, "end")
    entries = [("reserved", "m-active"), ("of it rounding", "m-allocated")]
    if room:
        x = scale(room / scale_bytes)
        chart.drawing.line(x, chart.top, x, chart.bottom, "bad", 1.5, "5 3", tip=f"capacity {format_bytes(capacity)}")
        entries.append((f"capacity {format_bytes(capacity)}", "bad"))
    chart.legend(entries)
    return chart.drawing.render()


def oom_chart(experiment, letters, style):
    cells = _measured(experiment)
    if not any(cell["oom_count"] or cell["trial_oom_count"] for cell in cells):
        return None
    chart = RowChart("Failed requests by cause; passes with an OOM (95 % interval)", title_of(experiment["key"]), labels_of(cells, letters), style)
    split = chart.left + (chart.right - chart.left) * 0.48
    causes, passes = Scale(0, 1, chart.left, split), Scale(0, 1, split + 100, chart.right - 12)
    chart.axis(causes, (0, 0.5, 1), ("0 %", "50 %", "100 %"))
    chart.axis(passes, (0, 0.5, 1), ("0 %", "50 %", "100 %"), "passes with an OOM")
    chart.drawing.text(split, chart.bottom + 32, "share of the failed requests", 11, "end", "soft")
    for index, cell in enumerate(cells):
        at, y = 0.0, chart.y(index)
        for number, cause in enumerate(CAUSES):
            count = cell.get("oom_count_" + cause, 0)  # causes came with later schemas
            share = count / cell["oom_count"] if cell["oom_count"] else 0
            if share:
                tip = f"{setting_text(cell)}: {CAUSE_WORDS.get(cause, cause)} {count:,} of {cell['oom_count']:,} failed requests"
                chart.drawing.rectangle(causes(at), y - 8, causes(at + share) - causes(at), 16, f"cause{number}", tip)
            at += share
        failed = "stopped" if cell["status"] == "oom_stopped" else f"{cell['oom_count']:,}" if cell["oom_count"] else "none"
        chart.drawing.text(split + 50, y + 4, failed, 11, "middle", "bad" if cell["oom_count"] else "soft")
        if cell["trial_oom_rate"] is not None:
            chart.drawing.line(passes(cell["trial_oom_rate_low"]), y, passes(cell["trial_oom_rate_high"]), y, "soft", 1.5)
            chart.drawing.dot(passes(cell["trial_oom_rate"]), y, 4, "text", tip=f"{cell['trial_oom_count']} of {cell['trial_count']} passes")
    chart.legend([(CAUSE_WORDS.get(cause, cause), f"cause{number}") for number, cause in enumerate(CAUSES)
                  if any(cell.get("oom_count_" + cause) for cell in cells)])
    return chart.drawing.render()


def slow_chart(experiment, letters, style):
    """Counts span decades and may be 0: log10(1 + n) shows both, with ticks in n."""
    cells = [cell for cell in _measured(experiment) if any(cell[field] is not None for _, field, _ in SLOW_PATHS)]
    most = max((cell[field] or 0 for cell in cells for _, field, _ in SLOW_PATHS), default=0)
    if not most:
        return None
    chart = RowChart("Slow paths in one pass", title_of(experiment["key"]), labels_of(cells, letters), style)
    scale = Scale(1, (1 + most) * 1.5, chart.left + 10, chart.right, log=True)
    ticks = [0] + [tick for tick in decades(1, most + 1) if tick <= most * 1.5]
    chart.axis(lambda tick: scale(1 + tick), ticks, [f"{tick:,.0f}" for tick in ticks], "calls in one pass, logarithmic")
    for index, cell in enumerate(cells):
        for row, (word, field, colour) in enumerate(SLOW_PATHS):
            if cell[field] is not None:
                chart.drawing.dot(scale(1 + cell[field]), chart.y(index) + (row - 1.5) * 5, 3.2, colour, tip=f"{setting_text(cell)}: {word} {cell[field]:,}")
    chart.legend([(word, colour) for word, _, colour in SLOW_PATHS])
    return chart.drawing.render()


def tails_chart(experiment, letters, style):
    curves = [
        (f"{letters[setting_of(cell)]} {setting_text(cell)}", cell["tails"]["allocate"], f"line{index % len(LINES)}", DASHES[index // len(LINES) % len(DASHES)])
        for index, cell in enumerate(one for one in experiment["cells"] if "allocate" in one["tails"])
    ]
    return curves_chart("Tail of allocate's latency", title_of(experiment["key"]), curves, style)


def moment_axis(timeline):
    """(a function from an event to the axis, its title): in steps where the trace has marks, else in events."""
    marks = timeline.get("mark_event_index") or []
    if len(marks) < 2:
        return float, "event of the trace"
    last = max(timeline["event_index"][-1], marks[-1] + 1)
    edges = [0, *marks, last] if marks[0] > 0 else [*marks, last]

    def step_of(event):
        index = max(0, min(len(edges) - 2, bisect_right(edges, event) - 1))
        share = (event - edges[index]) / max(1, edges[index + 1] - edges[index])
        return index + min(1.0, share) - (1 if marks[0] > 0 else 0)

    return step_of, "step of the program" + (" (before 0: its start)" if marks[0] > 0 else "")


def pool_curves(timeline, moment_count):
    """[(name, [(event, bytes), ...], colour)] of private pools, in steps: between two moments a value stays."""
    pools = timeline.get("private_pools")
    if not pools or not pools["event_index"]:
        return []
    reserved = pools["reserved_bytes"]
    stranded = [all_of_it - live for all_of_it, live in zip(reserved, pools["live_bytes"])]
    kept = kept_moments(stranded, moment_count)
    curves = []
    for name, values, colour in (("in private pools", reserved, "cause2"), ("stranded in them", stranded, "bad")):
        points = [(pools["event_index"][at], values[at]) for at in kept]
        steps = [(after[0], before[1]) for before, after in pairwise(points)]
        curves.append((name, [*(one for pair in zip(points, steps) for one in pair), points[-1]], colour))
    return curves


def _draw_captures(drawing, timeline, x_of, bottom):
    """A strip along the axis: where graphs were captured, and in red where a request failed meanwhile."""
    for begin, end, failed in (timeline.get("private_pools") or {}).get("captures", [])[:CAPTURES_MAX]:
        words = f"{'failed ' if failed else ''}capture of a graph, events {begin:,} to {end:,}"
        drawing.rectangle(x_of(begin), bottom - 5, max(1, x_of(end) - x_of(begin)), 5, "bad" if failed else "cause1", tip=words)


def timeline_chart(cell, timeline, style, moment_count=MOMENTS_MAX):
    kept = list(kept_moments(timeline["requested_bytes"], moment_count))
    series = (("reserved", "soft"), ("active", "m-active"), ("allocated", "m-allocated"), ("requested", "m-requested"))
    events = [timeline["event_index"][at] for at in kept]
    known = [(name, timeline[f"{name}_bytes"], colour) for name, colour in series if timeline.get(f"{name}_bytes")]
    shown = [(name, [(event, values[at]) for event, at in zip(events, kept)], colour) for name, values, colour in known]
    shown += pool_curves(timeline, moment_count)
    high = max((value or 0 for _, points, _ in shown for _, value in points), default=0)
    if not high or not kept:
        return None
    step_of, title = moment_axis(timeline)
    first, last = step_of(events[0]), step_of(events[-1])
    top, bottom, left, right = style.top, style.top + 250, 64, style.width - RIGHT
    drawing = new_drawing(style, bottom + 42, "Memory over time", f"{setting_text(cell)}, {title_of(cell)}")
    scale_bytes, unit = (GIB, "GiB") if high >= GIB else (MIB, "MiB")
    x, y = Scale(min(0, first), last, left, right), Scale(0, high / scale_bytes * 1.06, bottom, top)
    for tick in round_ticks(high / scale_bytes):
        drawing.line(left, y(tick), right, y(tick), "line")
        drawing.text(left - 6, y(tick) + 4, f"{tick:g} {unit}", 10, "end", "soft")
    for tick in round_ticks(last):
        drawing.line(x(tick), bottom, x(tick), bottom + 4, "soft")
        drawing.text(x(tick), bottom + 16, f"{tick:,g}", 10, "middle", "soft")
    drawing.text(right, bottom + 33, title, 11, "end", "soft")

    def x_of(event):
        return min(right, x(step_of(event)))

    at = left
    for name, points, colour in shown:
        drawing.curve([(x_of(event), y(value / scale_bytes)) for event, value in points if value is not None], colour, width=1.5)
        drawing.rectangle(at, bottom + 24, 10, 10, colour)
        drawing.text(at + 15, bottom + 33, name, 10.5)
        at += 40 + 6 * len(name)
    _draw_captures(drawing, timeline, x_of, bottom)
    for at in timeline.get("oom_event_index", [])[:300]:
        drawing.text(x_of(at), top - 2, "×", 12, "middle", "bad", tip=f"a request failed at event {at:,}")
    return drawing.render()


# Name, function, caption on the page; without one it is the name of the metric that the answer is about.
EXPERIMENT_CHARTS = (
    ("cost", cost_chart, ""),
    ("memory", memory_chart, "Peak memory beyond the requested peak"),
    ("oom", oom_chart, "Failed requests by cause; passes with an OOM (95 % interval)"),
    ("latency", latency_chart, "Latency of allocate"),
    ("slow", slow_chart, "Slow paths in one pass"),
    ("tails", tails_chart, "Tail of allocate's latency"),
)


def render_charts(run):
    """[(file name, svg)]; charts that have nothing to show are left out."""
    style = file_style()
    experiments, letters = prepare(run)
    charts = []
    for experiment in experiments:
        name = experiment["id"]
        charts += [(f"{name}-{kind}.svg", make(experiment, letters, style)) for kind, make, _ in EXPERIMENT_CHARTS]
        for cell in experiment["cells"]:
            path = run.timelines.get(cell["cell_id"])
            timeline = path and read_timeline(path, run.notes)
            if timeline:
                charts.append((f"{name}-timeline-{letters[setting_of(cell)]}.svg", timeline_chart(cell, timeline, style)))
    for index, one in enumerate(run.comparisons, 1):
        charts += comparison_charts(run, index, one, style)
    return [(name, svg) for name, svg in charts if svg is not None]
