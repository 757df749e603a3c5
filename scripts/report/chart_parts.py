"""What all charts share: the two places that they are drawn for, rows with a name each, and texts for axes. Numbers flow in; shapes on a
Drawing flow out."""

import re
from dataclasses import dataclass

from columns import TIME_UNITS
from load import HERE
from svg import Drawing

ROW, RIGHT = 24, 20
LINES = ("#0b6bcb", "#d9480f", "#2b8a3e", "#9c36b5", "#c99400", "#0c8599", "#c2255c", "#5c6f82")
DASHES = ("", "7 3", "2 3", "8 3 2 3")
GIB, MIB = 2**30, 2**20


def light_colours():
    """The page's colours, which stand in its style sheet; the first block is the light one."""
    first = (HERE / "page" / "style.css").read_text(encoding="utf-8").split("}", 1)[0]
    colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", first))
    return colours | {f"line{index}": colour for index, colour in enumerate(LINES)}


@dataclass(frozen=True)
class Style:
    """A chart of a file says itself what it shows; a chart of the page has its caption."""

    width: int
    left: int  # where values begin, right of the rows' names
    label_length: int
    colours: dict | None  # None: the page's style sheet

    @property
    def top(self):
        return 34 if self.colours is None else 62


def page_style():
    return Style(width=620, left=196, label_length=27, colours=None)


def wide_page_style():
    """Of charts that take the page's whole width."""
    return Style(width=1230, left=196, label_length=27, colours=None)


def file_style():
    return Style(width=900, left=310, label_length=46, colours=light_colours())


def short(text, length):
    return text if len(text) <= length else text[: length - 1] + "…"


def setting_text(cell):
    return f"{cell['allocator']} {cell['conf'] or 'unset'}"


def only_release(cells):
    """Of PyTorch's allocator, "caching" or "caching@2.11"; several: "caching"."""
    found = {cell["allocator"] for cell in cells if cell["allocator"].split("@")[0] == "caching"}
    return found.pop() if len(found) == 1 else "caching"


def label_text(cell, release="caching"):
    """PyTorch's own settings by their config string alone: the room is short."""
    return cell["conf"] if cell["allocator"] == release and cell["conf"] else setting_text(cell)


def title_of(key):
    return f"{key['workload']}, capacity {key['capacity']}, {key['device']}, seed {key['seed']}"


def time_text(ns, digits="g"):
    scale, unit = next(((scale, unit) for scale, unit in TIME_UNITS if ns >= scale), TIME_UNITS[-1])
    return f"{ns / scale:{digits}} {unit}"


def new_drawing(style, height, what, where):
    drawing = Drawing(style.width, height, f"{what}: {where}", style.colours)
    if style.colours is not None:
        drawing.text(12, 20, what, 14, bold=True)
        drawing.text(12, 37, short(where, 120), 11, colour="soft")
    return drawing


class RowChart:
    """One row per cell with its setting at the left; the caller draws the values."""

    def __init__(self, what, where, labels, style):
        self.style, self.top = style, style.top
        self.bottom = self.top + ROW * len(labels)
        self.left, self.right = style.left, style.width - RIGHT
        self.drawing = new_drawing(style, self.bottom + 42, what, where)
        for index, (label, letter) in enumerate(labels):
            end = self.left - (34 if letter else 12)
            shown = short(label, style.label_length)
            self.drawing.text(end, self.y(index) + 4, shown, 11, "end", tip=label if shown != label else "")
            if letter:
                self.drawing.text(self.left - 12, self.y(index) + 4, letter, 11, "end", bold=True)

    def y(self, index):
        return self.top + ROW * (index + 0.5)

    def axis(self, scale, ticks, texts, title=""):
        for tick, text in zip(ticks, texts):
            x = scale(tick)
            self.drawing.line(x, self.top, x, self.bottom, "line")
            self.drawing.text(x, self.bottom + 15, text, 10, "middle", "soft")
        if title:
            self.drawing.text(self.right, self.bottom + 32, title, 11, "end", "soft")

    def legend(self, entries):
        """(word, colour) above the values, from the left; widths are those of common letters. Many begin further left, in smaller letters."""
        wanted = sum(5.5 * len(word) + 30 for word, _ in entries)
        x = max(min(self.left, self.style.width - wanted), 12)
        size = min(1, (self.style.width - x) / max(wanted, 1))
        for word, colour in entries:
            self.drawing.rectangle(x, self.top - 19, 10, 10, colour)
            self.drawing.text(x + 14, self.top - 10, word, round(10.5 * size, 2))
            x += (5.5 * len(word) + 30) * size
