"""The part of Markdown that the pages of results/ use, as HTML: headings, paragraphs, lists, tables, code, links and emphasis. Raw HTML is
shown as text. Markdown flows in; blocks of HTML flow out."""

import re

from markup import join, tag, text

INLINE = re.compile(r"(?P<code>(?P<fence>`+)(?P<inner>.+?)(?P=fence))|\[(?P<label>[^\]]+)\]\((?P<target>[^)\s]+)\)"
                    r"|\*\*(?P<strong>.+?)\*\*|\*(?P<weak>[^*\s][^*]*)\*", re.S)


def inline(source, anchors=frozenset()):
    """A link stays one where it leads to a heading of the same page; other files are not in the page, so their names are text."""
    parts, at = [], 0
    for match in INLINE.finditer(source):
        parts.append(text(unescape(source[at : match.start()])))
        at = match.end()
        if match["code"]:
            parts.append(tag("code", match["inner"].strip() if match["inner"].strip() else match["inner"]))
        elif match["label"]:
            target = "about-" + match["target"].lstrip("#")
            label = inline(match["label"])
            parts.append(tag("a", label, href="#" + target) if match["target"].startswith("#") and target in anchors else label)
        else:
            parts.append(tag("strong" if match["strong"] else "em", inline(match["strong"] or match["weak"], anchors)))
    parts.append(text(unescape(source[at:])))
    return join(parts)


def unescape(source):
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", source)


def cells_of(line):
    """The cells of a table's row; a pipe after a backslash is part of a cell."""
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def is_table_rule(line):
    return re.fullmatch(r"\s*\|?(\s*:?-+:?\s*\|)+\s*(:?-+:?\s*)?", line) is not None


ITEM = re.compile(r"^(?P<indent>\s*)(?P<mark>[-*]|\d+\.)\s+(?P<rest>.*)$")


def blocks_of(source):
    """(kind, content) of every block: heading (level, text), code text, table (heading, rows), list [(ordered, text)], paragraph text."""
    lines, at = source.splitlines(), 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif line.startswith("```"):
            end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith("```")), len(lines))
            yield "code", "\n".join(lines[at + 1 : end])
            at = end + 1
        elif line.startswith("    "):
            end = next((i for i in range(at, len(lines)) if lines[i].strip() and not lines[i].startswith("    ")), len(lines))
            yield "code", "\n".join(one[4:] for one in lines[at:end]).rstrip()
            at = end
        elif match := re.match(r"(#{1,6})\s+(.*)", line):
            yield "heading", (len(match[1]), match[2].strip())
            at += 1
        elif at + 1 < len(lines) and "|" in line and is_table_rule(lines[at + 1]):
            end = next((i for i in range(at + 2, len(lines)) if "|" not in lines[i] or not lines[i].strip()), len(lines))
            yield "table", (cells_of(line), [cells_of(one) for one in lines[at + 2 : end]])
            at = end
        elif ITEM.match(line):
            items, at = _items(lines, at)
            yield "list", items
        else:
            end = next((i for i in range(at + 1, len(lines)) if not lines[i].strip() or lines[i].startswith(("#", "```"))
                        or ITEM.match(lines[i]) or (i + 1 < len(lines) and "|" in lines[i] and is_table_rule(lines[i + 1]))), len(lines))
            yield "paragraph", " ".join(one.strip() for one in lines[at:end])
            at = end


def _items(lines, at):
    """The items of a list, nested ones among them, and where it ends; what is indented belongs to the item above."""
    items = []
    while at < len(lines) and lines[at].strip():
        match = ITEM.match(lines[at])
        if match:
            items.append([match["mark"][0].isdigit(), match["rest"]])
        elif lines[at].startswith(("#", "```", "|")):
            break
        else:
            items[-1][1] += " " + lines[at].strip()
        at += 1
    return items, at


def render_list(items, anchors):
    return tag("ol" if items[0][0] else "ul", *(tag("li", inline(words, anchors)) for _, words in items))


def render_code(source):
    return tag("pre", tag("code", source))



