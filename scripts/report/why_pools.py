"""The section on private pools of the page that why_page.py makes: what graphs and MemPools held, when, and what went back. The program's
numbers flow in; tables and a chart flow out."""
from itertools import pairwise

from chart_parts import wide_page_style
from columns import format_bytes
from markup import Html, tag
from sections import scroll
from svg import Drawing, Scale

POOLS_TOLD = 12  # of a moment
SERIES = ((1, "reserved", "soft"), (2, "live", "m-allocated"), (3, "stranded in private pools", "bad"))


def timeline(samples):
    """Steps of what was reserved, live and stranded, over the entries of the history."""
    style, left, top, bottom = wide_page_style(), 80, 34, 240
    drawing = Drawing(style.width, bottom + 28, "Reserved, live and stranded memory over the history")
    high = max(one[1] for one in samples) or 1
    x, y = Scale(0, samples[-1][0] or 1, left, style.width - 12), Scale(0, high * 1.02, bottom, top)
    for size in (0, high // 4, high // 2, 3 * high // 4, high):
        drawing.line(left, y(size), style.width - 12, y(size), "line")
        drawing.text(left - 8, y(size) + 4, format_bytes(size), 11, "end", "soft")
    at = left
    for field, words, colour in SERIES:
        points = [(x(samples[0][0]), y(samples[0][field]))]
        for before, after in pairwise(samples):
            points += [(x(after[0]), y(before[field])), (x(after[0]), y(after[field]))]
        drawing.curve(points, colour)
        drawing.rectangle(at, 8, 12, 12, colour)
        drawing.text(at + 18, 18, words)
        at += 40 + 8 * len(words)
    drawing.text(style.width - 12, bottom + 20, "entries of the history", 11, "end", "soft")
    return drawing.render()


def _table(heads, rows, name):
    head = tag("tr", *(tag("th", one, scope="col") for one in heads))
    body = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    return scroll(tag("table", tag("thead", head), tag("tbody", *body)), name)


def _rows(when, moment):
    pools = moment["pools"]
    sums = [sum(one[field] for one in pools) for field in ("reserved_bytes", "live_bytes", "stranded_bytes")]
    rows = [(f"{when}: {len(pools)} pool{'' if len(pools) == 1 else 's'}", *map(format_bytes, sums))]
    rows += [(one["name"], *(format_bytes(one[field]) for field in ("reserved_bytes", "live_bytes", "stranded_bytes"))) for one in pools[:POOLS_TOLD]]
    if len(pools) > POOLS_TOLD:
        rows.append((f"and {len(pools) - POOLS_TOLD} more", "", "", ""))
    return rows


def pools_section(facts):
    """None where the job had no private pools."""
    pools = facts.get("private_pools")
    if not pools:
        return None
    most, end = pools["most_stranded"], pools["end"]
    rows = _rows(f"most stranded, before entry {most['entry_index']}", most) if most["pools"] else []
    rows += _rows("at the end", end)
    parts = [
        tag("h2", "Private pools of graphs and MemPools", id="pools"),
        tag("p", pools["words"]),
        tag("div", tag("figure", tag("figcaption", "Memory over the history"), tag("div", Html(timeline(pools["samples"])), class_="plot"),
                       class_="chart full"), class_="charts"),
        _table(("pool", "reserved", "live", "stranded"), rows, "Private pools"),
    ]
    if pools["returns"]:
        returned = [(str(one["before"]["entry_index"]), format_bytes(one["given_back_bytes"]), format_bytes(one["before"]["reserved_bytes"]),
                     format_bytes(one["after"]["reserved_bytes"]), format_bytes(one["after"]["live_bytes"]), format_bytes(one["after"]["stranded_bytes"]))
                    for one in pools["returns"]]
        parts += [tag("h3", "What went back to the device at once"),
                  _table(("before entry", "given back", "of", "stays", "of it live", "stranded"), returned, "What went back")]
    return tag("section", *parts)
