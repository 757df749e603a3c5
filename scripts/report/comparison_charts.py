"""The charts of a comparison: the changes of a number with their intervals, and both runs' tails over each other. allocmark's verdicts flow
in; SVG flows out, or None where there is nothing to show."""

from chart_parts import RIGHT, RowChart, label_text, new_drawing, setting_text, short, time_text, title_of
from comparisons import VERDICTS, change_text, interval_text, name_of, now_of, share_text
from svg import Scale, decades

VERDICT_COLOURS = {"worse": "bad", "better": "good", "not comparable": "cause1", "changed": "cause2", "undecided": "soft", "same": "m-active"}
CHANGED_NUMBERS = ("allocate_latency_ns_p50", "allocate_latency_ns_p99", "deallocate_latency_ns_p50")
OVERLAYS_MAX = 8
CHANGES_MAX = 40


def curves_chart(title, where, curves, style):
    """Shares of calls that take longer, both axes logarithmic; curves are (name, [[ns...], [share...]], colour, dash)."""
    drawn = []
    for name, (times, shares), colour, dash in curves:
        drawn.append((name, [(ns, share) for ns, share in zip(times, shares) if share > 0 and ns > 0], colour, dash))
    drawn = [one for one in drawn if one[1]]
    if not drawn:
        return None
    everything = [point for _, points, _, _ in drawn for point in points]
    top, left, right = style.top, 66, style.width - RIGHT
    bottom = top + 280
    drawing = new_drawing(style, bottom + 52 + 15 * len(drawn), title, where)
    ticks = decades(min(ns for ns, _ in everything), max(ns for ns, _ in everything))
    x = Scale(ticks[0], ticks[-1], left, right, log=True)
    shares = decades(min(share for _, share in everything), 1)
    y = Scale(shares[0], shares[-1], bottom, top, log=True)
    for tick in ticks:
        drawing.line(x(tick), top, x(tick), bottom, "line")
        drawing.text(x(tick), bottom + 16, time_text(tick), 10, "middle", "soft")
    for share in shares:
        drawing.line(left, y(share), right, y(share), "line")
        drawing.text(left - 6, y(share) + 4, f"{share * 100:g} %", 10, "end", "soft")
    drawing.text(left, top - 10, "share of calls that take longer", 11, "start", "soft")
    drawing.text(right, bottom + 32, "time of one allocate call, logarithmic", 11, "end", "soft")
    for index, (name, points, colour, dash) in enumerate(drawn):
        steps = [(left, y(1))]
        for ns, share in points:
            steps += [(x(ns), steps[-1][1]), (x(ns), y(share))]
        drawing.curve(steps, colour, dash)
        line = bottom + 50 + 15 * index
        drawing.line(left, line - 4, left + 34, line - 4, colour, 2, dash)
        drawing.text(left + 42, line, short(name, 120 if style.colours else 70), 11)
    return drawing.render()


def changes_chart(comparison, path, number_name, style):
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
    labels = [(f"{short(cell['workload'], 12)} {cell['capacity']} · {label_text(now_of(cell))}", "") for cell, _ in shown]
    chart = RowChart(f"Change of {name_of(number_name)}, 95 % intervals", where, labels, style)
    reach = max(max(1 + abs(one[field] or 0) for field in ("change", "change_low", "change_high") if field in one) for _, one in shown)
    reach = max(reach, 1.02) * 1.05
    scale = Scale(1 / reach, reach, chart.left, chart.right - 120, log=True)
    ticks = [one for one in (0.01, 0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 1, 1.01, 1.05, 1.1, 1.25, 2, 10, 100) if 1 / reach < one < reach]
    kept = []
    for tick in ticks:
        if not kept or scale(tick) - scale(kept[-1]) > 44:
            kept.append(tick)
    chart.axis(scale, kept, [share_text(tick - 1) for tick in kept], f"change of {name_of(number_name)}, logarithmic")
    for index, (cell, number) in enumerate(shown):
        y, colour = chart.y(index), VERDICT_COLOURS[number["verdict"]]
        low, high = number.get("change_low"), number.get("change_high")
        if low is not None and high is not None:
            chart.drawing.line(scale(max(1 / reach, 1 + low)), y, scale(min(reach, 1 + high)), y, colour, 2)
        hollow = number["verdict"] in ("same", "undecided")
        tip = f"{setting_text(now_of(cell))}: {change_text(number)}, {number['verdict']}"
        chart.drawing.dot(scale(min(reach, max(1 / reach, 1 + number["change"]))), y, 4.5, colour, hollow, tip)
        chart.drawing.text(chart.right, y + 4, interval_text(number) or change_text(number), 10, "end", "soft")
    chart.legend([(verdict, VERDICT_COLOURS[verdict]) for verdict in VERDICTS if any(one["verdict"] == verdict for _, one in shown)])
    return chart.drawing.render()


def overlay_charts(run, one, style):
    """(cell, svg) of the first cells that are worse or better, or where none is of the most important ones."""
    cells = {cell["cell_id"]: cell for cell in run.cells}
    known = [cell for cell in one["comparison"]["cells"] if cell["cell_id"] in one["tails"]]
    judged = [cell for cell in known if cell["verdict"] in ("worse", "better")] or known[:3]
    for cell in judged[:OVERLAYS_MAX]:
        now = cells.get(now_of(cell)["cell_id"], {"tails": {}})["tails"]
        base = one["tails"][cell["cell_id"]]
        sides = (("BASE", base, "m-requested", "7 3"), ("NEW", now, "accent", ""))
        curves = [(name, tails["allocate"], colour, dash) for name, tails, colour, dash in sides if "allocate" in tails]
        yield cell, curves_chart(f"Tail of allocate's latency, BASE and NEW: {setting_text(now_of(cell))}", title_of(cell), curves, style)


def comparison_charts(run, index, one, style):
    """(file name, svg)"""
    for number in CHANGED_NUMBERS:
        name = f"comparison-{index}-{number.replace('_latency_ns', '').replace('_', '-')}.svg"
        yield name, changes_chart(one["comparison"], one["path"], number, style)
    for cell, svg in overlay_charts(run, one, style):
        yield f"comparison-{index}-cell-{cell['cell_id']}.svg", svg
