"""HTML as text that is escaped unless it was built here. Texts flow in; an Html, which is safe to put into a page, flows out."""

import html


class Html(str):
    """Markup. Any other str is text and is escaped when it becomes part of markup."""


def text(value):
    """As markup: a control character becomes visible, since HTML has none."""
    if isinstance(value, Html):
        return value
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in str(value))
    return Html(html.escape(shown, quote=True))


def join(parts, between=""):
    return Html(text(between).join(text(part) for part in parts if part is not None))


def _attributes(values):
    found = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        found.append(f" {name}" if value is True else f' {name}="{text(value)}"')
    return "".join(found)


VOID = {"meta", "link", "input", "br", "wbr", "hr"}


def tag(name, /, *children, **attributes):
    """tag("a", "x < y", href="#z"): None and False leave an attribute out, class_ is class, data_v is data-v."""
    opened = f"<{name}{_attributes(attributes)}>"
    return Html(opened if name in VOID else f"{opened}{join(children)}</{name}>")
