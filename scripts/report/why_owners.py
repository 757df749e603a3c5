"""Who held the memory, for the page of `allocmark why`: a table of owners, their bytes over time and the stacks as a flame graph. What the
program found flows in; markup flows out."""

from chart_parts import short, wide_page_style
from columns import format_bytes
from markup import Html, join, tag
from sections import scroll
from svg import Drawing, Scale, round_ticks

COLOURS = {
    "weights": "line0", "optimizer state": "line3", "gradients": "line2", "key-value cache": "line5", "kept from forward passes": "line6",
    "activations": "line1", "inputs": "line4", "work space": "line7", "the program's own code": "q1", "from before the recording": "m-active",
    "kept from earlier": "m-allocated", "of the last step": "cause3", "unknown": "cause0",
}
FLAME_ROW, FLAME_DEPTH, LETTER = 20, 26, 6.1
HEIGHT, LEFT, LEGEND_ROW = 300, 84, 20


def share_of(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def swatch(colour):
    drawing = Drawing(12, 12, "colour")
    drawing.rectangle(0, 0, 12, 12, colour)
    return tag("span", Html(drawing.render()), class_="swatch")


def owners_table(held):
    rows = [tag("tr", tag("th", swatch(COLOURS[one["name"]]), " ", one["name"], scope="row"), tag("td", format_bytes(one["bytes"])),
                tag("td", share_of(one["bytes"], held["live_bytes"])), tag("td", str(one["block_count"])), tag("td", one["reason"]))
            for one in held["owners"]]
    if held["rounding_bytes"]:
        rows.append(tag("tr", tag("th", "rounding", scope="row"), tag("td", format_bytes(held["rounding_bytes"])), tag("td", ""), tag("td", ""),
                        tag("td", "the allocator rounds sizes up")))
    head = tag("tr", *(tag("th", one, scope="col") for one in ("owner", "bytes", "share", "blocks", "why it counts as such")))
    return scroll(tag("table", tag("thead", head), tag("tbody", *rows), class_="held"), "Who held the memory")


def groups_table(held, groups, head):
    rows = [tag("tr", tag("th", one.get("name") or f"{format_bytes(one['size_bytes'])} each", scope="row"), tag("td", format_bytes(one["bytes"])),
                tag("td", share_of(one["bytes"], held["live_bytes"])), tag("td", str(one["block_count"])), tag("td", one["owner"]))
            for one in groups[:12]]
    heads = tag("tr", *(tag("th", one, scope="col") for one in (head, "bytes", "share", "blocks", "owner")))
    return scroll(tag("table", tag("thead", heads), tag("tbody", *rows), class_="held"), f"By {head}")


def time_chart(held):
    """Bytes of each owner, one on top of the other, from the history's first entry to its last."""
    style, series, moments = wide_page_style(), held["over_time"], held["moments"]
    right, top = style.width - 12, 12
    totals = [sum(values) for values in zip(*(one["bytes"] for one in series))]
    per_row = 4
    drawing = Drawing(style.width, HEIGHT + 62 + LEGEND_ROW * ((len(series) + per_row - 1) // per_row), "Memory over time by owner")
    x = Scale(moments[0], max(moments[-1], moments[0] + 1), LEFT, right)
    y = Scale(0, max(totals) * 1.04, HEIGHT, top)
    for tick in round_ticks(max(totals) / 2**20):
        drawing.line(LEFT, y(tick * 2**20), right, y(tick * 2**20), "line")
        drawing.text(LEFT - 6, y(tick * 2**20) + 4, format_bytes(tick * 2**20), 11, "end", "soft")
    below = [0] * len(moments)
    for one in series:
        above = [low + size for low, size in zip(below, one["bytes"])]
        edge = [(x(at), y(size)) for at, size in zip(moments, above)]
        drawing.area(edge + [(x(at), y(size)) for at, size in reversed(list(zip(moments, below)))], COLOURS[one["name"]],
                     f"{one['name']}: at most {format_bytes(max(one['bytes']))}")
        below = above
    at = x(min(held["entry_index"], moments[-1]))
    drawing.line(at, top, at, HEIGHT, "bad", 1.5, "5 3", tip="when the request failed" if held["at_failure"] else "the peak")
    drawing.text(LEFT, HEIGHT + 16, f"entry {moments[0]:,}", 11, "start", "soft")
    drawing.text(right, HEIGHT + 16, f"entry {moments[-1]:,}", 11, "end", "soft")
    for index, one in enumerate(series):
        left, row = LEFT + (right - LEFT) / per_row * (index % per_row), HEIGHT + 42 + LEGEND_ROW * (index // per_row)
        drawing.rectangle(left, row - 10, 12, 12, COLOURS[one["name"]])
        drawing.text(left + 18, row, f"{one['name']}, at most {format_bytes(max(one['bytes']))}", 12)
    return drawing.render()


def depth_of(node):
    return 1 + max((depth_of(child) for child in node.get("children", ())), default=0)


def flame_chart(held):
    """Each frame as wide as the bytes that were asked for under it; those that it called stand below."""
    style, root = wide_page_style(), held["flame"]
    drawing = Drawing(style.width, FLAME_ROW * min(depth_of(root), FLAME_DEPTH) + 8, "Stacks by bytes")
    scale = Scale(0, max(1, root["bytes"]), 4, style.width - 4)

    def draw(node, start, depth):
        if depth >= FLAME_DEPTH:
            return
        left, width = scale(start), scale(start + node["bytes"]) - scale(start)
        told = f"{node['name']}: {format_bytes(node['bytes'])}, {share_of(node['bytes'], root['bytes'])}, most of it {node['owner']}"
        drawing.rectangle(left, 4 + FLAME_ROW * depth, max(width - 1, 0.4), FLAME_ROW - 1, COLOURS[node["owner"]] if depth else "m-reserved", told)
        if width > 5 * LETTER:
            words = f"{node['name']} {format_bytes(node['bytes'])}" if width > 30 * LETTER else node["name"]
            drawing.text(left + 3, 4 + FLAME_ROW * depth + 14, short(words, int(width / LETTER)), 11, "start", "page" if depth else "text", tip=told)
        at = start
        for child in node.get("children", ()):
            draw(child, at, depth + 1)
            at += child["bytes"]

    draw(root, 0, 0)
    return drawing.render()


def figure(caption, svg):
    return tag("div", tag("figure", tag("figcaption", caption), tag("div", Html(svg), class_="plot"), class_="chart full"), class_="charts")


def held_section(held):
    """Nothing where no block was live."""
    if not held["block_count"]:
        return None
    when = "when the request failed" if held["at_failure"] else f"at the peak, entry {held['entry_index']:,}"
    parts = [
        tag("h2", "Who held the memory", id="held"),
        tag("p", f"{format_bytes(held['live_bytes'])} in {held['block_count']:,} blocks were live {when}, as the program asked for them."),
        *(tag("p", line) for line in held["sentences"]),
        owners_table(held),
        figure("Memory over time, by owner", time_chart(held)),
        figure("Stacks by bytes: the outermost frame first", flame_chart(held)) if held["has_stacks"] else None,
        tag("p", "Point at a frame for its bytes. Its colour is that of the owner of most of them.", class_="note") if held["has_stacks"] else None,
    ]
    for key, head in (("stacks", "stack"), ("modules", "module of the forward pass"), ("sizes", "size, without a stack")):
        if held[key]:
            parts += [tag("h3", f"By {head}"), groups_table(held, held[key], head)]
    return tag("section", join(part for part in parts if part is not None))
