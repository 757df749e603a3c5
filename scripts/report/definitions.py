"""Pages of results/ (DEFINITIONS.md and others) as an appendix of the page: rendered to HTML, with an anchor for every
field that their tables define. Markdown flows in; HTML and the set of anchors flow out. Raw HTML in the Markdown is shown as text."""

import re

from anchors import anchor_of, expand_braces
from markdown import blocks_of, inline, render_code, render_list
from markup import join, tag


def _heading_anchor(text):
    return "about-" + re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _defined_names(cell):
    return [name for code in re.findall(r"`([^`]+)`", cell) for name in expand_braces(code)]


def _render_row(row, anchors, headings):
    """One row may define many names; the row has the first as its id, the others get invisible targets."""
    fresh = [one for one in dict.fromkeys(map(anchor_of, _defined_names(row[0]))) if one not in anchors]
    anchors.update(fresh)
    targets = join(tag("span", id=one) for one in fresh[1:])
    first = tag("td", targets, inline(row[0], headings))
    return tag("tr", first, *(tag("td", inline(cell, headings)) for cell in row[1:]), id=fresh[0] if fresh else None)


def _render_table(heading, rows, anchors, headings):
    head = tag("thead", tag("tr", *(tag("th", inline(cell, headings)) for cell in heading)))
    body = tag("tbody", *(_render_row(row, anchors, headings) for row in rows))
    # Wide tables scroll by themselves; the page never does.
    return tag("div", tag("table", head, body), class_="scroll", tabindex="0")


def render_definitions(markdown):
    """(html, anchors). A name that is defined in several tables keeps its first anchor."""
    blocks = list(blocks_of(markdown))
    headings = {_heading_anchor(content[1]) for kind, content in blocks if kind == "heading"}
    parts, anchors, seen = [], set(), set()
    for kind, content in blocks:
        if kind == "heading":
            level, words = content
            name = _heading_anchor(words)
            # The page has its own h1 and h2 above.
            parts.append(tag(f"h{min(6, level + 1)}", inline(words, headings), id=None if name in seen else name))
            seen.add(name)
        elif kind == "table":
            parts.append(_render_table(*content, anchors, headings))
        elif kind == "list":
            parts.append(render_list(content, headings))
        elif kind == "code":
            parts.append(render_code(content))
        else:
            parts.append(tag("p", inline(content, headings)))
    return join(parts, "\n"), anchors
