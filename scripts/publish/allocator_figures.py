"""Figures of allocators.py as papers draw them: bars of utilisation, failed requests against memory, latency curves, and the place of every block over a
step. Raw results flow in; (file name, SVG) flow out."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from allocators import ADDRESS_FIGURES, PREFIX, SWEEP, WHOLE, Study, figure_name
from raw import PublishError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "report"))

from chart_parts import DASHES, GIB, LINES, MIB, RIGHT, RowChart, file_style, new_drawing, short
from comparison_charts import curves_chart
from svg import Scale, decades, round_ticks

# The step whose blocks are drawn, and the least block that is seen at this size.
ADDRESS_WORKLOAD, ADDRESS_STEP, ADDRESS_BYTES_MIN = "gpt2_train_amp", "step2", MIB
BAR = 5


def plain(setting):
    return f"{setting[0]} {setting[1]}".strip()


def look(index):
    """Colour and dash: eight colours, then again with another dash."""
    return f"line{index % len(LINES)}", DASHES[index // len(LINES) % len(DASHES)]


def utilisation(study):
    """Rows of settings, a bar for each workload: the best plan over what was reserved."""
    style = file_style()
    shown = [setting for setting in study.settings if study.values(setting, WHOLE, "regret_share")]
    chart = RowChart("Utilisation: best plan over reserved memory", "whole card, a bar a program in the order of the page",
                     [(plain(one), "") for one in shown], style)
    # More programs than a row has room for share it: bars get thinner.
    thick = min(BAR, 20 / max(1, len(study.workloads)))
    scale = Scale(0, 1, chart.left, chart.right - 12)
    chart.axis(scale, [0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    for row, setting in enumerate(shown):
        for index, workload in enumerate(study.workloads):
            regret = study.value(workload, setting, WHOLE, "regret_share")
            if regret is not None:
                share = 1 / (1 + regret)
                top = chart.y(row) - thick * len(study.workloads) / 2 + thick * index
                chart.drawing.rectangle(chart.left, top, scale(share) - chart.left, max(1, thick - 0.6), look(index)[0], f"{workload}: {share:.1%}")
    return chart.drawing.render()


def failures_chart(study, workload):
    """Failed requests of all requests, by limit, logarithmic. Lines that lie on each other are one line."""
    style = file_style()
    named = sorted((float(limit.rstrip("x")), limit) for limit in study.limits if limit != WHOLE)
    limits = [limit for limit, _ in named]
    lines = {}
    for setting in study.settings:
        cells = [(limit, study.cell(workload, setting, name)) for limit, name in named]
        points = tuple((limit, cell["oom_count"] / cell["allocate_count"]) for limit, cell in cells if cell is not None)
        if points:
            lines.setdefault(points, []).append(plain(setting))
    top, left, right = style.top, 66, style.width - RIGHT
    bottom = top + 280
    drawing = new_drawing(style, bottom + 52 + 15 * len(lines), "Failed requests against memory", workload)
    x = Scale(limits[0], limits[-1], left, right)
    shares = [share for points in lines for _, share in points if share > 0] or [1.0]
    ticks = decades(min(shares), max(shares))
    # Shares span decades; none at all lies on the axis, a step below the least decade.
    none = ticks[0] / 10
    y = Scale(none, ticks[-1], bottom, top, log=True)
    for limit in limits:
        drawing.line(x(limit), top, x(limit), bottom, "line")
        drawing.text(x(limit), bottom + 16, f"{limit:g}", 10, "middle", "soft")
    for tick in [none, *ticks]:
        drawing.line(left, y(tick), right, y(tick), "line")
        drawing.text(left - 6, y(tick) + 4, "none" if tick == none else f"{tick * 100:g} %", 10, "end", "soft")
    drawing.text(left, top - 10, "failed requests, share of all", 11, "start", "soft")
    drawing.text(right, bottom + 32, "memory, times the most requested at once", 11, "end", "soft")
    for index, (points, names) in enumerate(lines.items()):
        colour, dash = look(index)
        drawing.curve([(x(limit), y(share or none)) for limit, share in points], colour, dash)
        line = bottom + 50 + 15 * index
        drawing.line(left, line - 4, left + 34, line - 4, colour, 2, dash)
        drawing.text(left + 42, line, short(", ".join(names), 120), 11)
    return drawing.render()


def latency(study, workload):
    curves = []
    for setting in study.settings:
        cell = study.cell(workload, setting, WHOLE)
        tail = study.tails.get(cell["cell_id"], {}).get("allocate") if cell else None
        if tail:
            curves.append((plain(setting), tail, *look(len(curves))))
    return curves_chart("Latency of allocate, whole card", workload, curves, file_style())


def lifetimes(text, step):
    """(ordinal of the allocation, bytes, birth, death) of every block of a trace, and the events at which a step begins and ends."""
    found, open_at, born, event, begin, end = [], {}, 0, 0, None, None
    for line in text.splitlines():
        if line.startswith(("#", "op,")):
            continue
        kind, name, amount, *_ = line.split(",")
        if kind == "mark":
            if begin is not None and end is None:
                end = event
            if name == step:
                begin = event
        elif kind == "alloc":
            open_at[name] = (born, int(amount), event)
            born += 1
        elif kind == "free" and name in open_at:
            found.append((*open_at.pop(name), event))
        event += kind != "mark"
    found += [(*one, event) for one in open_at.values()]
    return found, begin, end if end is not None else event


def places(text):
    """The address of each allocation by its ordinal, None where it failed, of a file of --record-placements."""
    segments, found = {}, []
    for line in text.splitlines():
        part = line.split(" ")
        if part[0] == "g":
            segments[part[1]] = int(part[2], 16)
        elif part[0] == "a":
            found.append(None if part[1] in ("oom", "ok") else segments[part[1]] + int(part[2], 16))
    return found


def simulated_placements(binary, setting):
    """(text of the placements, placement hash, trace) of a cell of the simulated device."""
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "run", "--device", "sim:h200", "--workload", ADDRESS_WORKLOAD, "--allocator", setting[0],
                   "--conf", f"{setting[0]}={setting[1] or 'unset'}", "--passes", "1", "--no-html",
                   "--record-placements", f"{folder}/places", "--format", "jsonl", "--out", f"{folder}/run", "--allow-debug", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        made = list(Path(folder, "places").glob("*.txt"))
        if done.returncode != 0 or len(made) != 1:
            raise PublishError(f"{' '.join(command[1:8])}: no placements: {done.stderr.strip()[-300:]}")
        trace = Path(folder) / "trace.csv"
        subprocess.run([binary, "trace", "generate", ADDRESS_WORKLOAD, str(trace), "--quiet"], check=True, capture_output=True)
        cell = next(line for line in map(json.loads, (Path(folder) / "run" / "results.jsonl").read_text().splitlines()) if line["kind"] == "cell")
        return made[0].read_text(), cell["placement_hash"], trace.read_text()


def addresses(study, binary, setting):
    """The blocks of one step: a rectangle from its birth to its death, at its address. Between parts of memory the empty addresses are left out. The places
    come from the simulated device, and the card's cell must have the same hash of places."""
    text, placement_hash, trace = simulated_placements(binary, setting)
    cell = study.cell(ADDRESS_WORKLOAD, setting, WHOLE)
    if cell is None or cell["placement_hash"] != placement_hash:
        raise PublishError(f"{plain(setting)}: the card placed its blocks elsewhere than the simulated device, {placement_hash}, or has no such cell")
    blocks, begin, end = lifetimes(trace, ADDRESS_STEP)
    found = places(text)
    drawn = [(found[at], size, max(birth, begin), min(death, end)) for at, size, birth, death in blocks
             if size >= ADDRESS_BYTES_MIN and birth < end and death > begin and found[at] is not None]
    used = pressed([(address, address + size) for address, size, _, _ in drawn])
    total = sum(high - low for low, high, _ in used)
    style = file_style()
    top, left, right = style.top, 66, style.width - RIGHT
    bottom = top + 420
    drawing = new_drawing(style, bottom + 40, f"Address by time: {plain(setting)}", f"{ADDRESS_WORKLOAD}, {ADDRESS_STEP}, blocks of 1 MiB and more")
    x, y = Scale(begin, end, left, right), Scale(0, total, bottom, top)
    for tick in round_ticks(total / GIB):
        drawing.line(left, y(tick * GIB), right, y(tick * GIB), "line")
        drawing.text(left - 6, y(tick * GIB) + 4, f"{tick:g} GiB", 10, "end", "soft")
    for index, (address, size, birth, death) in enumerate(sorted(drawn, key=lambda one: one[2])):
        low = next(below + address - low for low, high, below in used if low <= address < high)
        drawing.rectangle(x(birth), y(low + size), x(death) - x(birth), max(0.4, y(low) - y(low + size) - 0.2), f"line{index % len(LINES)}")
    drawing.text(right, bottom + 26, "requests of the step", 11, "end", "soft")
    return drawing.render()


def pressed(ranges):
    """Ranges of addresses joined where they touch or overlap: (low, high, bytes of all ranges below)."""
    joined, below = [], 0
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    out = []
    for low, high in joined:
        out.append((low, high, below))
        below += high - low
    return out


def figures(raw, binary):
    """(file name, SVG) of all figures of the report."""
    study = Study(raw, binary, [name for name in raw.names(PREFIX) if name != SWEEP])
    yield "utilisation.svg", utilisation(study)
    for workload in study.workloads:
        drawn = latency(study, workload)
        if drawn:
            yield f"latency-{figure_name(workload)}.svg", drawn
    if raw.has(SWEEP):
        sweep = Study(raw, binary, [SWEEP])
        for workload in sweep.workloads:
            yield f"failures-{figure_name(workload)}.svg", failures_chart(sweep, workload)
    for name, setting in ADDRESS_FIGURES.items():
        yield f"addresses-{name}.svg", addresses(study, binary, setting)
