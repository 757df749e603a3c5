"""results/README.md as an appendix of the page: rendered to HTML, with an anchor for every field that its tables define. Markdown
flows in; HTML and the set of anchors flow out. Raw HTML in the Markdown is shown as text."""

import re

from markdown_it import MarkdownIt

from anchors import anchor_of, expand_braces


def _heading_anchor(text):
    return "about-" + re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def render_definitions(markdown):
    """(html, anchors). A name that is defined in several tables keeps its first anchor."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens, anchors = parser.parse(markdown), set()
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            # The page has its own h1 and h2 above.
            token.attrSet("id", _heading_anchor(tokens[index + 1].content))
            level = min(6, int(token.tag[1]) + 1)
            closing = next(one for one in tokens[index:] if one.type == "heading_close")
            token.tag = closing.tag = f"h{level}"
        if token.type != "td_open" or tokens[index - 1].type != "tr_open":
            continue
        inline = tokens[index + 1]
        names = [name for one in inline.children if one.type == "code_inline" for name in expand_braces(one.content)]
        fresh = [anchor for anchor in dict.fromkeys(map(anchor_of, names)) if anchor not in anchors]
        anchors.update(fresh)
        if fresh:
            tokens[index - 1].attrSet("id", fresh[0])
            # One row may define many names; each gets an invisible target of its own.
            token.meta["anchors"] = fresh[1:]
    parser.renderer.rules["td_open"] = _open_cell
    # Wide tables scroll by themselves; the page never does.
    parser.renderer.rules["table_open"] = lambda *_: '<div class="scroll" tabindex="0"><table>\n'
    parser.renderer.rules["table_close"] = lambda *_: "</table></div>\n"
    return parser.renderer.render(tokens, parser.options, {}), anchors


def _open_cell(tokens, index, _options, _env):
    style = tokens[index].attrGet("style")
    targets = "".join(f'<span id="{anchor}"></span>' for anchor in tokens[index].meta.get("anchors", []))
    return f'<td style="{style}">{targets}' if style else f"<td>{targets}"
