"""The few shapes that charts need, as SVG 1.1 text: no script, no font of our own, nothing from elsewhere. Numbers and texts flow in; one
document, or one element of a page, flows out. Texts are escaped, so a name never becomes markup."""

import math
from xml.sax.saxutils import escape, quoteattr

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"


def clean(text):
    """XML 1.0 has no control characters, however they are written."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _at(value):
    return f"{value:.1f}".removesuffix(".0")


class Drawing:
    """Coordinates in pixels, from the upper left. With `colours`, a file of its own; without, part of a page, whose style sheet colours the
    classes f-NAME (fill) and s-NAME (stroke)."""

    def __init__(self, width, height, title, colours=None):
        self.width, self.height, self.title, self.colours = width, height, title, colours
        self.parts = []

    def _paint(self, fill, stroke=None):
        if self.colours is None:
            names = [f"f-{fill or 'none'}"] + ([f"s-{stroke}"] if stroke else [])
            return f'class="{" ".join(names)}"'
        stroked = f' stroke="{self.colours[stroke]}"' if stroke else ""
        return f'fill="{self.colours[fill] if fill else "none"}"{stroked}'

    def _add(self, shape, tip=""):
        name = shape[1 : shape.index(" ")]
        self.parts.append(f"{shape}><title>{escape(clean(tip))}</title></{name}>" if tip else f"{shape}/>")

    def line(self, x0, y0, x1, y1, colour, width=1.0, dash="", tip=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        thick = f' stroke-width="{_at(width)}"' if width != 1 else ""
        self._add(f'<line x1="{_at(x0)}" y1="{_at(y0)}" x2="{_at(x1)}" y2="{_at(y1)}" {self._paint(None, colour)}{thick}{dashed}', tip)

    def rectangle(self, x, y, width, height, colour, tip=""):
        self._add(f'<rect x="{_at(x)}" y="{_at(y)}" width="{_at(max(0, width))}" height="{_at(height)}" {self._paint(colour)}', tip)

    def dot(self, x, y, radius, colour, hollow=False, tip=""):
        paint = self._paint("page", colour) + ' stroke-width="1.5"' if hollow else self._paint(colour)
        self._add(f'<circle cx="{_at(x)}" cy="{_at(y)}" r="{_at(radius)}" {paint}', tip)

    def curve(self, points, colour, dash="", width=1.8):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        path = " ".join(f"{_at(x)},{_at(y)}" for x, y in points)
        self._add(f'<polyline points="{path}" {self._paint(None, colour)} stroke-width="{width}" stroke-linejoin="round"{dashed}')

    def area(self, points, colour, tip=""):
        path = " ".join(f"{_at(x)},{_at(y)}" for x, y in points)
        self._add(f'<polygon points="{path}" {self._paint(colour)}', tip)

    def text(self, x, y, text, size=11, anchor="start", colour="text", bold=False, tip=""):
        weight = ' font-weight="bold"' if bold else ""
        placed = f' text-anchor="{anchor}"' if anchor != "start" else ""
        sized = f' font-size="{size}"' if size != 11 else ""
        shape = f'<text x="{_at(x)}" y="{_at(y)}"{sized}{placed} {self._paint(colour)}{weight}>'
        told = f"<title>{escape(clean(tip))}</title>" if tip else ""
        self.parts.append(f"{shape}{told}{escape(clean(text))}</text>")

    def render(self):
        size = f'viewBox="0 0 {_at(self.width)} {_at(self.height)}" font-family={quoteattr(FONT)} font-size="11"'
        if self.colours is None:
            # No title element: a browser would show it as the tooltip of everything.
            return "".join([f'<svg {size} role="img" aria-label={quoteattr(clean(self.title))}>', *self.parts, "</svg>"])
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_at(self.width)}" height="{_at(self.height)}" {size}>'
        back = f'<rect width="100%" height="100%" fill="{self.colours["page"]}"/>'
        return "\n".join([head, f"<title>{escape(clean(self.title))}</title>", back, *self.parts, "</svg>"]) + "\n"


class Scale:
    """Values to pixels between `start` and `end`; logarithmic where asked for."""

    def __init__(self, low, high, start, end, log=False):
        self.log, self.start, self.end = log, start, end
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)
        if self.high <= self.low:
            self.high = self.low + 1

    def __call__(self, value):
        value = math.log10(value) if self.log else value
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def round_ticks(high, count=6):
    """0 and multiples of 1, 2 or 5 times a power of ten up to `high`."""
    if high <= 0:
        return [0]
    raw = high / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= raw)
    return [step * index for index in range(int(high / step + 1e-9) + 1)]


def decades(low, high):
    """Powers of ten from at or below `low` to at or above `high`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def log_ticks(low, high):
    """(ends of the axis, ticks) of a logarithmic axis: whole decades, or steps of 1, 2 and 5 where there are few."""
    steps = [10.0**power * one for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2) for one in (1, 2, 5)]
    first = max(one for one in steps if one <= low * 0.999)
    last = min(one for one in steps if one >= high * 1.001)
    inside = [one for one in steps if first <= one <= last]
    if len(inside) > 7:
        whole = [one for one in inside if abs(math.log10(one) - round(math.log10(one))) < 1e-9]
        inside = whole if len(whole) >= 3 else inside[::2]
    return (first, last), inside
