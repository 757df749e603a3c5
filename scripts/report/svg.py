"""The few shapes that charts on paper need, as SVG 1.1 text: no script, no style sheet, no font of our own, nothing from elsewhere. Numbers
and texts flow in; one document flows out. Texts are escaped, so a name never becomes markup."""

import math
from xml.sax.saxutils import escape, quoteattr

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"


def clean(text):
    """XML 1.0 has no control characters, however they are written."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _at(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Drawing:
    """Coordinates in pixels, from the upper left."""

    def __init__(self, width, height, title, colours):
        self.width, self.height, self.title, self.colours = width, height, title, colours
        self.parts = []

    def line(self, x0, y0, x1, y1, colour, width=1.0, dash=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{_at(x0)}" y1="{_at(y0)}" x2="{_at(x1)}" y2="{_at(y1)}" stroke="{self.colours[colour]}" stroke-width="{_at(width)}"{dashed}/>'
        )

    def rectangle(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{_at(x)}" y="{_at(y)}" width="{_at(max(0, width))}" height="{_at(height)}" fill="{self.colours[colour]}"/>')

    def dot(self, x, y, radius, colour, hollow=False):
        paint = f'fill="{self.colours["page"]}" stroke="{self.colours[colour]}" stroke-width="1.5"' if hollow else f'fill="{self.colours[colour]}"'
        self.parts.append(f'<circle cx="{_at(x)}" cy="{_at(y)}" r="{_at(radius)}" {paint}/>')

    def curve(self, points, colour, dash="", width=1.8):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        path = " ".join(f"{_at(x)},{_at(y)}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{self.colours[colour]}" stroke-width="{width}" stroke-linejoin="round"{dashed}/>')

    def text(self, x, y, text, size=11, anchor="start", colour="text", bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{_at(x)}" y="{_at(y)}" font-size="{size}" text-anchor="{anchor}" fill="{self.colours[colour]}"{weight}>{escape(clean(text))}</text>'
        )

    def render(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_at(self.width)}" height="{_at(self.height)}" '
            f'viewBox="0 0 {_at(self.width)} {_at(self.height)}" font-family={quoteattr(FONT)}>'
        )
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
