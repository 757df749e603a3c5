"""Markdown tables and numbers for people. Values flow in, text flows out."""


def table(headings, rows):
    """Markdown; a heading that ends in ':' is aligned to the right."""
    lines = ["| " + " | ".join(heading.rstrip(":") for heading in headings) + " |"]
    lines.append("| " + " | ".join("--:" if heading.endswith(":") else ":--" for heading in headings) + " |")
    lines += ["| " + " | ".join(str(value).replace("|", "\\|") for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def time(ns):
    """Three significant places with a unit."""
    if ns is None:
        return "-"
    for unit, scale in (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        if ns < 999.5 * scale or unit == "s":
            return f"{ns / scale:.3g} {unit}" if ns / scale < 1000 else f"{ns / scale:.0f} {unit}"
    return "-"


def size(count):
    if count is None:
        return "-"
    for unit, scale in (("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)):
        if count < 1024 * scale or unit == "GiB":
            return f"{count} B" if unit == "B" else f"{count / scale:.2f} {unit}"
    return "-"


def number(value):
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def by_field(field, value):
    """A field's value in the unit that its name says."""
    if value is None:
        return "-"
    if "_ns" in field:
        return time(value)
    if "_bytes" in field:
        return size(value)
    return number(value)


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


def share(count, total):
    return "-" if total == 0 else f"{100 * count / total:.0f} %"


def conf(text):
    return f"`{text}`" if text else "unset"


def short(workload):
    """A workload in a table: long parameter lists are cut, the raw files have all."""
    return f"`{workload}`" if len(workload) <= 44 else f"`{workload[:41]}...`"
