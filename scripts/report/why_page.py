#!/usr/bin/env python3
"""Makes the page of `allocmark why FILE --out PAGE`: why a job ran out of memory, with maps of its segments. What `why` found flows in as
JSON on stdin; one page that works offline flows out on descriptor 3. It decides nothing: numbers, order and words are the program's."""

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from chart_parts import short, wide_page_style  # noqa: E402
from columns import format_bytes  # noqa: E402
from markup import Html, join, tag  # noqa: E402
from page import script_hash, style_sheet  # noqa: E402
from parent import end_with_parent  # noqa: E402
from sections import paste_line, scroll  # noqa: E402
from svg import Drawing, Scale  # noqa: E402
from why_owners import held_section  # noqa: E402
from why_pools import pools_section  # noqa: E402

RESULT_DESCRIPTOR = 3
# Where the reserved memory was: field, words, colour. Free memory that the request could not use has the colours of causes.
SHARES = (
    ("live_bytes", "live", "m-allocated"),
    ("waiting_bytes", "waiting for another stream", "cause1"),
    ("usable_bytes", "free for this request", "good"),
    ("other_stream_bytes", "free on other streams", "cause2"),
    ("other_class_bytes", "free for requests of another size", "cause0"),
    ("common_pool_bytes", "free in the common pool, which a private pool does not use", "cause3"),
    ("other_pool_bytes", "free in private pools of graphs or MemPools", "cause4"),
)
STATES = {"active_allocated": ("m-allocated", "live"), "active_pending_free": ("cause1", "waiting"), "inactive": ("m-reserved", "free")}
ROW = 22


def name_of(conf):
    return conf or "unset"


def shares_chart(oom):
    """One bar: what was reserved when the request failed."""
    style = wide_page_style()
    shown = [(oom[field], words, colour) for field, words, colour in SHARES if oom[field]]
    drawing = Drawing(style.width, 44 + ROW * len(shown), "Reserved memory when the request failed")
    total = sum(size for size, _, _ in shown) or 1
    scale, at = Scale(0, total, 8, style.width - 8), 0
    for size, words, colour in shown:
        drawing.rectangle(scale(at), 6, scale(at + size) - scale(at), 26, colour, f"{words}: {format_bytes(size)}")
        at += size
    for index, (size, words, colour) in enumerate(shown):
        y = 50 + ROW * index
        drawing.rectangle(8, y - 10, 12, 12, colour)
        drawing.text(28, y, f"{format_bytes(size)} {words} ({100 * size / total:.1f} %)", 13)
    return drawing.render()


def map_chart(segments):
    """A row for each segment, as wide as it is large; its blocks lie where they lay."""
    style = wide_page_style()
    left, top = 190, 30
    drawing = Drawing(style.width, top + ROW * len(segments) + 8, "Segments with free memory when the request failed")
    x = left
    for colour, words in STATES.values():
        drawing.rectangle(x, 6, 12, 12, colour)
        drawing.text(x + 17, 16, words)
        x += 90
    scale = Scale(0, max(one["size_bytes"] for one in segments), left, style.width - 8)
    for index, segment in enumerate(segments):
        y = top + ROW * index
        told = f"{format_bytes(segment['free_bytes'])} of {format_bytes(segment['size_bytes'])} free"
        drawing.text(left - 8, y + 13, told, 11, "end", "text" if segment["usable"] else "soft", tip=segment["holder"])
        at = 0
        for size, state in segment["runs"]:
            colour, words = STATES[state]
            drawing.rectangle(scale(at), y + 2, max(scale(at + size) - scale(at), 0.4), ROW - 6, colour, f"{words}: {format_bytes(size)}")
            at += size
    return drawing.render()


def settings_chart(settings, capacity, live):
    """Peak reserved of every setting against what there was."""
    style, left = wide_page_style(), 330
    drawing = Drawing(style.width, 34 + ROW * len(settings), "Peak reserved by setting")
    high = max([capacity or 0, live, *(one["reserved_bytes_peak"] for one in settings)])
    scale = Scale(0, high * 1.02, left, style.width - 72)
    for index, one in enumerate(settings):
        y = 28 + ROW * index
        failed = one["failed_count"]
        shown = short(name_of(one["conf"]), 54)
        drawing.text(left - 8, y + 12, shown, 11, "end", tip=name_of(one["conf"]))
        tip = f"{name_of(one['conf'])}: {format_bytes(one['reserved_bytes_peak'])}, {failed} failed"
        drawing.rectangle(left, y + 1, scale(one["reserved_bytes_peak"]) - left, ROW - 8, "cause3" if failed else "m-allocated", tip)
        drawing.text(style.width - 4, y + 12, f"{failed} failed" if failed else "serves", 11, "end", "bad" if failed else "good")
    for size, words, colour in ((live, "live", "soft"), (capacity, "there was", "bad")):
        if size:
            drawing.line(scale(size), 20, scale(size), 30 + ROW * len(settings), colour, 1.5, "5 3", tip=f"{words} {format_bytes(size)}")
            drawing.text(scale(size), 14, f"{words} {format_bytes(size)}", 10, "middle" if words == "live" else "end", colour)
    return drawing.render()


def figure(caption, svg, full=False):
    return tag("figure", tag("figcaption", caption), tag("div", Html(svg), class_="plot"), class_="chart full" if full else "chart")


def table(heads, rows, name):
    head = tag("tr", *(tag("th", one, scope="col") for one in heads))
    body = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    return scroll(tag("table", tag("thead", head), tag("tbody", *body)), name)


def outcome(failed):
    return tag("span", f"{failed} failed" if failed else "serves all", class_="worse" if failed else "better")


def time_of(one):
    return f"{one['driver_ns_per_step'] / 1e6:.3f}" if "driver_ns_per_step" in one else "-"


def oom_section(facts):
    oom = facts["oom"]
    rows = [(format_bytes(one["free_bytes"]), format_bytes(one["size_bytes"]), f"{one['block_count']}, the largest {format_bytes(one['block_bytes'])}",
             "yes" if one["usable"] else "no", one["holder"] or "no stack was recorded") for one in facts["map"][:12]]
    parts = [
        tag("h2", "When the request failed", id="oom"),
        tag("p", f"A request of {format_bytes(oom['size_bytes'])} failed, {facts['oom_count']} in all. {format_bytes(oom['reserved_bytes'])} were "
            "reserved, after everything was given back that could be. The largest piece that the request could have used had "
            f"{format_bytes(oom['usable_largest_bytes'])}."),
        tag("div", figure("Where the reserved memory was", shares_chart(oom), full=True), class_="charts"),
    ]
    if facts["map"]:
        parts += [
            tag("h3", "What holds the free memory"),
            tag("p", "A segment goes back to the card only when all of it is free. Names in grey: this request could not have used the segment. "
                "Point at a name for the stack of its largest live block.", class_="note"),
            tag("div", figure("Segments with the most free memory", map_chart(facts["map"]), full=True), class_="charts"),
            table(("free", "of", "live blocks", "usable", "who holds the largest"), rows, "What holds the free memory"),
        ]
    return tag("section", *parts)


def settings_section(facts):
    unit = "CUDA ms/step" if facts["step_count"] > 1 else "CUDA ms"
    capacity = facts.get("capacity_bytes")
    rows = [(join([tag("code", name_of(one["conf"]), class_="conf"), " recorded" if one["conf"] == facts["recorded_conf"] else None]),
             outcome(one["failed_count"]), format_bytes(one["reserved_bytes_peak"]), time_of(one), str(one["driver_call_count"]))
            for one in facts["settings"]]
    parts = [
        tag("h2", "The same requests under other settings", id="settings"),
        tag("p", f"From a fresh heap, with {format_bytes(capacity)} ({facts['capacity_source']})." if capacity
            else f"From a fresh heap, without limit ({facts['capacity_source']})."),
        table(("setting", "outcome", "peak reserved", unit, "driver calls"), rows, "Settings"),
        *(tag("p", line, class_="note") for line in facts["order"].strip().split("\n")),
        tag("div", figure("Peak reserved", settings_chart(facts["settings"], capacity, facts["live_bytes_peak"]), full=True), class_="charts"),
    ]
    if facts["other_allocators"]:
        others = [(tag("code", one["name"], class_="conf"), outcome(one["failed_count"]), format_bytes(one["peak_bytes"]), time_of(one),
                   "yes" if one["is_setting_of_pytorch"] else "no") for one in facts["other_allocators"]]
        parts += [tag("h3", "Other allocators, on the simulated H200"),
                  table(("allocator", "outcome", "peak", unit, "a setting of PyTorch"), others, "Other allocators")]
    return tag("section", *parts)


def body_of(facts):
    advised = facts["advised_conf"]
    paste = None if advised is None else f"export PYTORCH_CUDA_ALLOC_CONF={advised}" if advised else "unset PYTORCH_CUDA_ALLOC_CONF"
    answer = [
        tag("p", facts["file"], class_="eyebrow"),
        tag("h1", facts["answer"][0].upper() + facts["answer"][1:]),
        paste_line(paste),
        *(tag("p", line.strip()) for line in facts["self_check"].strip().split("\n")),
        tag("ul", *(tag("li", note) for note in facts["notes"]), class_="sentences") if facts["notes"] else None,
    ]
    close = tag("section", tag("h2", "Measure it", id="measure"), tag("pre", tag("code", facts["measure"].strip()), tabindex="0"))
    held = held_section(facts["held"])
    failed = oom_section(facts) if "oom" in facts else None
    shown = [("When it failed", "oom", failed), ("Who held it", "held", held)]
    # Of a job that is too big the free memory is of no interest: who held the rest comes first.
    if not facts["free_memory_matters"]:
        shown.reverse()
    shown.append(("Private pools", "pools", pools_section(facts)))
    links = [(words, target) for words, target, section in shown if section]
    nav = tag("nav", *(tag("a", words, href="#" + target) for words, target in [*links, ("Settings", "settings"), ("Measure it", "measure")]),
              aria_label="Sections")
    theme = tag("button", "◐", id="theme", type="button", aria_label="Switch between light and dark")
    header = tag("header", tag("div", tag("p", "allocmark ", tag("span", "why"), class_="brand"), nav, theme, class_="wide bar"))
    sections = [tag("section", *answer), *(section for _, _, section in shown), settings_section(facts), close]
    return join([header, tag("main", *sections, class_="wide")])


def render(facts):
    script = (HERE / "page" / "why.js").read_text(encoding="utf-8")
    policy = f"default-src 'none'; script-src '{script_hash(script)}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"allocmark why: {facts['answer']}"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Html(style_sheet())),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, tag("body", body_of(facts), tag("script", Html(script))), lang="en") + "\n"


def main():
    with os.fdopen(RESULT_DESCRIPTOR, "w", encoding="utf-8", newline="\n") as page:
        page.write(render(json.load(sys.stdin)))


if __name__ == "__main__":
    end_with_parent()
    main()
