"""Where a name is defined in the page's appendix. Names flow in; anchors flow out. Needs no packages."""

import itertools
import re


def expand_braces(name):
    """'{a,b}_c' names a_c and b_c; an empty alternative is allowed."""
    parts = re.split(r"(\{[^}]*\})", name)
    choices = [part[1:-1].split(",") if part.startswith("{") else [part] for part in parts]
    return ["".join(choice) for choice in itertools.product(*choices)]


def anchor_of(name):
    return "def-" + re.sub(r"[^A-Za-z0-9_.-]", "-", name)
