"""The page's main charts as SVG files for publishing: latency quantiles and tails, peak memory, failed requests, slow paths, memory over time, and for a
comparison its changes and latency curves. The same cells as the page's flow in; (file name, SVG text) flow out. Needs no packages."""

import re

from comparisons import VERDICTS, change_text, interval_text, name_of, now_of, share_text
from columns import TIME_UNITS, format_bytes
from experiments import prepare, setting_of
from facts import CAUSES, NULL_ALLOCATOR, has_enough_samples, is_measured
from load import HERE, read_timeline
from svg import Drawing, Scale, decades, round_ticks

WIDTH = 900
LEFT, RIGHT = 310, 24
ROW = 26
TOP = 62
GIB = 2**30
LINES = ("#0b6bcb", "#d9480f", "#2b8a3e", "#9c36b5", "#c99400", "#0c8599", "#c2255c", "#5c6f82")
DASHES = ("", "7 3", "2 3", "8 3 2 3")
QUANTILES = (("P50", "p50", "q0"), ("P90", "p90", "q1"), ("P99", "p99", "q2"), ("P99.9", "p999", "q3"), ("max", "max", "q4"))
SLOW_PATHS = (
    ("device allocs", "device_allocate_count", "m-allocated"),
    ("device frees", "device_free_count", "m-requested"),
    ("retries", "retry_count", "cause3"),
    ("sync all", "synchronize_all_count", "cause2"),
)
VERDICT_COLOURS = {"worse": "bad", "better": "good", "not comparable": "cause1", "changed": "cause2", "undecided": "soft", "same": "m-active"}
OVERLAYS_MAX = 8
CHANGES_MAX = 40


def light_colours():
    """The page's colours, which stand in its style sheet; the first block is the light one."""
    first = (HERE / "page" / "style.css").read_text(encoding="utf-8").split("}", 1)[0]
    colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", first))
    return colours | {f"line{index}": colour for index, colour in enumerate(LINES)}


def time_text(ns):
    scale, unit = next(((scale, unit) for scale, unit in TIME_UNITS if ns >= scale), TIME_UNITS[-1])
    return f"{ns / scale:g} {unit}"


def short(text, length):
    return text if len(text) <= length else text[: length - 1] + "…"


def setting_text(cell):
    return f"{cell['allocator']} {cell['conf'] or 'unset'}"


def title_of(key):
    return f"{key['workload']}, capacity {key['capacity']}, {key['device']}, seed {key['seed']}"


def labels_of(cells, letters):
    return [(setting_text(cell), letters[setting_of(cell)]) for cell in cells]


class RowChart:
    """One row per cell with its setting at the left; the caller draws the values."""

    def __init__(self, what, where, labels, colours):
        self.bottom = TOP + ROW * len(labels)
        self.drawing = Drawing(WIDTH, self.bottom + 34, f"{what}: {where}", colours)
        self.drawing.text(12, 20, what, 14, bold=True)
        self.drawing.text(12, 37, short(where, 120), 11, colour="soft")
        for index, (label, letter) in enumerate(labels):
            self.drawing.text(LEFT - (34 if letter else 12), self.y(index) + 4, short(label, 46), 11, "end")
            self.drawing.text(LEFT - 12, self.y(index) + 4, letter, 11, "end", bold=True)

    def y(self, index):
        return TOP + ROW * (index + 0.5)

    def axis(self, scale, ticks, texts):
        for tick, text in zip(ticks, texts):
            x = scale(tick)
            self.drawing.line(x, TOP, x, self.bottom, "line")
            self.drawing.text(x, self.bottom + 16, text, 10, "middle", "soft")

    def legend(self, entries):
        """(word, colour) at the upper right, drawn from the right."""
        x = WIDTH - RIGHT
        for word, colour in reversed(entries):
            self.drawing.text(x, TOP - 10, word, 10.5, "end")
            x -= 5.5 * len(word) + 6
            self.drawing.rectangle(x - 10, TOP - 19, 10, 10, colour)
            x -= 24


def latency_chart(experiment, letters, colours):
    cells = [cell for cell in experiment["cells"] if cell["allocate_latency_count"]]
    values = [cell[f"allocate_latency_ns_{name}"] for cell in cells for _, name, _ in QUANTILES]
    values = [value for value in values if value]
    if not values:
        return None
    chart = RowChart("Latency of allocate", title_of(experiment["key"]), labels_of(cells, letters), colours)
    ticks = decades(min(values), max(values))
    scale = Scale(ticks[0], ticks[-1], LEFT, WIDTH - RIGHT, log=True)
    chart.axis(scale, ticks, map(time_text, ticks))
    for index, cell in enumerate(cells):
        points = [(scale(value), name, colour) for _, name, colour in QUANTILES if (value := cell[f"allocate_latency_ns_{name}"])]
        if points:
            chart.drawing.line(points[0][0], chart.y(index), points[-1][0], chart.y(index), "line", 3)
        for x, name, colour in points:
            enough = name == "max" or has_enough_samples(cell, f"allocate_latency_ns_{name}")
            chart.drawing.dot(x, chart.y(index), 4.5, colour, hollow=not enough)
    chart.legend([(word, colour) for word, _, colour in QUANTILES])
    return chart.drawing.render()


def memory_chart(experiment, letters, colours):
    cells = [cell for cell in experiment["cells"] if is_measured(cell) and cell["allocator"] != NULL_ALLOCATOR]
    if not cells:
        return None
    capacity = experiment["capacity_bytes"]
    bars = (("reserved", "m-reserved", 18), ("active", "m-active", 12), ("allocated", "m-allocated", 7))
    high = max([capacity or 0] + [cell["requested_bytes_peak"] for cell in cells] + [cell[f"{name}_bytes_peak"] or 0 for cell in cells for name, _, _ in bars])
    chart = RowChart("Peak memory", title_of(experiment["key"]), labels_of(cells, letters), colours)
    scale = Scale(0, high / GIB * 1.03, LEFT, WIDTH - RIGHT)
    ticks = round_ticks(high / GIB)
    chart.axis(scale, ticks, [f"{tick:g} GiB" for tick in ticks])
    for index, cell in enumerate(cells):
        for name, colour, height in bars:
            value = cell[f"{name}_bytes_peak"]
            if value:
                chart.drawing.rectangle(LEFT, chart.y(index) - height / 2, scale(value / GIB) - LEFT, height, colour)
        x = scale(cell["requested_bytes_peak"] / GIB)
        chart.drawing.line(x, chart.y(index) - 10, x, chart.y(index) + 10, "m-requested", 3)
    if capacity:
        x = scale(capacity / GIB)
        chart.drawing.line(x, TOP, x, chart.bottom, "bad", 1.5, "5 3")
        chart.drawing.text(x, chart.bottom + 29, f"capacity {format_bytes(capacity)}", 10, "end" if x > WIDTH * 0.8 else "middle", "bad")
    chart.legend([(name, colour) for name, colour, _ in bars] + [("requested", "m-requested")])
    return chart.drawing.render()


def oom_chart(experiment, letters, colours):
    cells = [cell for cell in experiment["cells"] if is_measured(cell) and cell["allocator"] != NULL_ALLOCATOR]
    if not any(cell["oom_count"] or cell["trial_oom_count"] for cell in cells):
        return None
    chart = RowChart("Failed requests by cause; passes with an OOM (Wilson, 95 %)", title_of(experiment["key"]), labels_of(cells, letters), colours)
    causes, passes = Scale(0, 1, LEFT, 580), Scale(0, 1, 690, WIDTH - RIGHT - 8)
    ticks = (0, 0.5, 1)
    chart.axis(causes, ticks, ("0 %", "50 %", "100 % of failures"))
    chart.axis(passes, ticks, ("0 %", "50 %", "100 %"))
    for index, cell in enumerate(cells):
        at, y = 0.0, chart.y(index)
        for number, cause in enumerate(CAUSES):
            share = cell["oom_count_" + cause] / cell["oom_count"] if cell["oom_count"] else 0
            if share:
                chart.drawing.rectangle(causes(at), y - 8, causes(at + share) - causes(at), 16, f"cause{number}")
            at += share
        failed = "stopped" if cell["status"] == "oom_stopped" else f"{cell['oom_count']:,}" if cell["oom_count"] else "none"
        chart.drawing.text(635, y + 4, failed, 11, "middle", "bad" if cell["oom_count"] else "soft")
        if cell["trial_oom_rate"] is not None:
            chart.drawing.line(passes(cell["trial_oom_rate_low"]), y, passes(cell["trial_oom_rate_high"]), y, "soft", 1.5)
            chart.drawing.dot(passes(cell["trial_oom_rate"]), y, 4, "text")
    seen = [(cause, f"cause{number}") for number, cause in enumerate(CAUSES) if any(cell["oom_count_" + cause] for cell in cells)]
    chart.legend(seen)
    return chart.drawing.render()


def slow_chart(experiment, letters, colours):
    """Counts span decades and may be 0: log10(1 + n) shows both, with ticks in n."""
    cells = [cell for cell in experiment["cells"] if is_measured(cell) and any(cell[field] is not None for _, field, _ in SLOW_PATHS)]
    most = max((cell[field] or 0 for cell in cells for _, field, _ in SLOW_PATHS), default=0)
    if not most:
        return None
    chart = RowChart("Slow paths in one pass", title_of(experiment["key"]), labels_of(cells, letters), colours)
    scale = Scale(1, (1 + most) * 1.5, LEFT + 10, WIDTH - RIGHT, log=True)
    ticks = [0] + [tick for tick in decades(1, most + 1) if tick <= most * 1.5]
    chart.axis(lambda tick: scale(1 + tick), ticks, [f"{tick:,.0f}" for tick in ticks])
    for index, cell in enumerate(cells):
        for row, (_, field, colour) in enumerate(SLOW_PATHS):
            if cell[field] is not None:
                chart.drawing.dot(scale(1 + cell[field]), chart.y(index) + (row - 1.5) * 5, 3.2, colour)
    chart.legend([(word, colour) for word, _, colour in SLOW_PATHS])
    return chart.drawing.render()


def curves_chart(title, where, curves, colours):
    """Shares of calls that take longer, both axes logarithmic; curves are (name, [[ns...], [share...]], colour, dash)."""
    drawn = []
    for name, (times, shares), colour, dash in curves:
        drawn.append((name, [(ns, share) for ns, share in zip(times, shares) if share > 0 and ns > 0], colour, dash))
    drawn = [one for one in drawn if one[1]]
    if not drawn:
        return None
    everything = [point for _, points, _, _ in drawn for point in points]
    height, bottom, left, right = 470 + 15 * len(drawn), 400, 70, WIDTH - RIGHT
    drawing = Drawing(WIDTH, height, f"{title}: {where}", colours)
    drawing.text(12, 20, title, 14, bold=True)
    drawing.text(12, 37, short(where, 120), 11, colour="soft")
    ticks = decades(min(ns for ns, _ in everything), max(ns for ns, _ in everything))
    x = Scale(ticks[0], ticks[-1], left, right, log=True)
    shares = decades(min(share for _, share in everything), 1)
    y = Scale(shares[0], shares[-1], bottom, TOP, log=True)
    for tick in ticks:
        drawing.line(x(tick), TOP, x(tick), bottom, "line")
        drawing.text(x(tick), bottom + 16, time_text(tick), 10, "middle", "soft")
    for share in shares:
        drawing.line(left, y(share), right, y(share), "line")
        drawing.text(left - 6, y(share) + 4, f"{share * 100:g} %", 10, "end", "soft")
    drawing.text(right, bottom + 32, "share of calls that take longer than …", 10, "end", "soft")
    for index, (name, points, colour, dash) in enumerate(drawn):
        steps = [(left, y(1))]
        for ns, share in points:
            steps += [(x(ns), steps[-1][1]), (x(ns), y(share))]
        drawing.curve(steps, colour, dash)
        line = bottom + 52 + 15 * index
        drawing.line(left, line - 4, left + 34, line - 4, colour, 2, dash)
        drawing.text(left + 42, line, short(name, 120), 11)
    return drawing.render()


def tails_chart(experiment, letters, colours):
    curves = [
        (f"{letters[setting_of(cell)]} {setting_text(cell)}", cell["tails"]["allocate"], f"line{index % len(LINES)}", DASHES[index // len(LINES) % len(DASHES)])
        for index, cell in enumerate(one for one in experiment["cells"] if "allocate" in one["tails"])
    ]
    return curves_chart("Tail of allocate's latency", title_of(experiment["key"]), curves, colours)


def timeline_chart(cell, timeline, colours):
    series = (("reserved", "soft"), ("active", "m-active"), ("allocated", "m-allocated"), ("requested", "m-requested"))
    shown = [(name, timeline[f"{name}_bytes"], colour) for name, colour in series if timeline.get(f"{name}_bytes")]
    high = max((value or 0 for _, values, _ in shown for value in values), default=0)
    if not high or not timeline["event_index"]:
        return None
    bottom, left, right = 340, 80, WIDTH - RIGHT
    drawing = Drawing(WIDTH, 392, f"Memory over time: {setting_text(cell)}, {title_of(cell)}", colours)
    drawing.text(12, 20, "Memory over time", 14, bold=True)
    drawing.text(12, 37, short(f"{setting_text(cell)}, {title_of(cell)}", 120), 11, colour="soft")
    x, y = Scale(0, timeline["event_index"][-1], left, right), Scale(0, high / GIB * 1.06, bottom, TOP)
    for tick in round_ticks(high / GIB):
        drawing.line(left, y(tick), right, y(tick), "line")
        drawing.text(left - 6, y(tick) + 4, f"{tick:g} GiB", 10, "end", "soft")
    for tick in round_ticks(timeline["event_index"][-1]):
        drawing.text(x(tick), bottom + 16, f"{tick:,.0f}", 10, "middle", "soft")
    drawing.text(right, bottom + 32, "event of the trace", 10, "end", "soft")
    for index, (name, values, colour) in enumerate(shown):
        drawing.curve([(x(at), y(value / GIB)) for at, value in zip(timeline["event_index"], values) if value is not None], colour, width=1.5)
        drawing.rectangle(left + 110 * index, bottom + 30, 10, 10, colour)
        drawing.text(left + 110 * index + 15, bottom + 39, name, 10.5)
    for at in timeline.get("oom_event_index", [])[:300]:
        drawing.text(x(at), TOP - 2, "×", 12, "middle", "bad")
    return drawing.render()


def changes_chart(comparison, path, number_name, colours):
    """The changes of one number, most important cell first, with their intervals."""
    shown = []
    for cell in comparison["cells"]:
        number = next((one for one in cell["numbers"] if one["number"] == number_name and one["change"] is not None), None)
        if number is not None:
            shown.append((cell, number))
    shown = shown[:CHANGES_MAX]
    if not shown:
        return None
    where = f"NEW against BASE ({path}), {comparison['new']['device']}, most important cells first"
    labels = [(f"{short(cell['workload'], 16)} {cell['capacity']} · {short(setting_text(now_of(cell)), 24)}", "") for cell, _ in shown]
    chart = RowChart(f"Change of {name_of(number_name)}, 95 % intervals", where, labels, colours)
    reach = max(max(1 + abs(one[field] or 0) for field in ("change", "change_low", "change_high") if field in one) for _, one in shown)
    reach = max(reach, 1.02) * 1.05
    scale = Scale(1 / reach, reach, LEFT, WIDTH - RIGHT - 150, log=True)
    ticks = [one for one in (0.01, 0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 1, 1.01, 1.05, 1.1, 1.25, 2, 10, 100) if 1 / reach < one < reach]
    kept = [1.0]
    for tick in sorted(ticks, key=lambda one: abs(scale(one) - scale(1))):
        if all(abs(scale(tick) - scale(other)) > 62 for other in kept):
            kept.append(tick)
    chart.axis(scale, kept, ["no change" if tick == 1 else share_text(tick - 1) for tick in kept])
    chart.drawing.line(scale(1), TOP, scale(1), chart.bottom, "soft", 1.5)
    for index, (cell, number) in enumerate(shown):
        y, colour = chart.y(index), VERDICT_COLOURS[number["verdict"]]
        low, high = number.get("change_low"), number.get("change_high")
        if low is not None and high is not None:
            chart.drawing.line(scale(max(1 / reach, 1 + low)), y, scale(min(reach, 1 + high)), y, colour, 2)
        hollow = number["verdict"] in ("same", "undecided")
        chart.drawing.dot(scale(min(reach, max(1 / reach, 1 + number["change"]))), y, 4.5, colour, hollow)
        chart.drawing.text(WIDTH - RIGHT, y + 4, interval_text(number) or change_text(number), 10, "end", "soft")
    chart.legend([(verdict, VERDICT_COLOURS[verdict]) for verdict in VERDICTS if any(one["verdict"] == verdict for _, one in shown)])
    return chart.drawing.render()


def _comparison_charts(run, index, one, colours):
    comparison, cells = one["comparison"], {cell["cell_id"]: cell for cell in run.cells}
    for number in ("allocate_latency_ns_p50", "allocate_latency_ns_p99", "deallocate_latency_ns_p50"):
        yield f"comparison-{index}-{number.replace('_latency_ns', '').replace('_', '-')}.svg", changes_chart(comparison, one["path"], number, colours)
    judged = [cell for cell in comparison["cells"] if cell["verdict"] in ("worse", "better") and cell["cell_id"] in one["tails"]]
    for cell in judged[:OVERLAYS_MAX]:
        now = cells.get(now_of(cell)["cell_id"], {"tails": {}})["tails"]
        base = one["tails"][cell["cell_id"]]
        curves = [(name, tails["allocate"], colour, dash) for name, tails, colour, dash in (("BASE", base, "m-requested", "7 3"), ("NEW", now, "accent", "")) if "allocate" in tails]
        yield f"comparison-{index}-cell-{cell['cell_id']}.svg", curves_chart(f"Tail of allocate's latency, BASE and NEW: {setting_text(cell)}", title_of(cell), curves, colours)


def render_charts(run):
    """[(file name, svg)]; charts that have nothing to show are left out."""
    colours = light_colours()
    experiments, letters = prepare(run)
    charts = []
    for experiment in experiments:
        name = experiment["id"]
        for kind, make in (("latency", latency_chart), ("tails", tails_chart), ("memory", memory_chart), ("oom", oom_chart), ("slow", slow_chart)):
            charts.append((f"{name}-{kind}.svg", make(experiment, letters, colours)))
        for cell in experiment["cells"]:
            path = run.timelines.get(cell["cell_id"])
            timeline = path and read_timeline(path, run.notes)
            if timeline:
                charts.append((f"{name}-timeline-{letters[setting_of(cell)]}.svg", timeline_chart(cell, timeline, colours)))
    for index, one in enumerate(run.comparisons, 1):
        charts += _comparison_charts(run, index, one, colours)
    return [(name, svg) for name, svg in charts if svg is not None]
