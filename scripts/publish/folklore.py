"""Report: claims that people repeat, with a measured verdict each. Claims as data (results/published/claims.toml) and raw results flow in; Markdown flows out.
No verdict is written by hand: every check compares two numbers of cells, and the checks decide."""

import json
import tomllib
from pathlib import Path

from raw import is_measured
from text import by_field, conf, table

OPERATORS = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}
CELL_DEFAULTS = {"allocator": "caching", "conf": "", "capacity": "unlimited", "on_oom": "skip"}


def load_claims(path):
    return tomllib.loads(Path(path).read_text())["claim"]


def cell_query(side):
    """(workload, allocator, conf, capacity, on_oom) of one side of a check; None where it is a plain number or a config string."""
    if not isinstance(side, dict) or "workload" not in side:
        return None
    return tuple({**CELL_DEFAULTS, **side}[name] for name in ("workload", "allocator", "conf", "capacity", "on_oom"))


def sides(check):
    """Left and right; the right one takes over what it does not say."""
    left, right = check.get("left"), check.get("right")
    if isinstance(left, dict) and isinstance(right, dict):
        right = {**left, **right}
    return left, right


def queries(claims):
    """All cells that the claims need, without repetition."""
    found = {}
    for claim in claims:
        for check in claim.get("check", []):
            for side in sides(check):
                query = cell_query(side)
                if query is not None and side.get("run", "claims") == "claims":
                    found[query] = None
    return list(found)


def confs(claims):
    return [check["accepted"] for claim in claims for check in claim.get("check", []) if "accepted" in check]


class Cells:
    def __init__(self, raw):
        self.by_run = {}
        for name in raw.names():
            for cell in raw.cells(name):
                query = tuple(cell[field] for field in ("workload", "allocator", "conf", "capacity", "on_oom"))
                self.by_run.setdefault((name, query), cell)
                # The same cell measured for another report will do.
                if not name.startswith(("simulated", "together_", "gpu_")):
                    self.by_run.setdefault(("claims", query), cell)

    def value(self, side):
        """The number of one side, or None where it was not measured."""
        if not isinstance(side, dict):
            return side
        cell = self.by_run.get((side.get("run", "claims"), cell_query(side)))
        if not is_measured(cell):
            return None
        value = cell
        for part in side["field"].split("/"):  # counters have dots in their names
            value = value.get(part) if isinstance(value, dict) else None
        return value


def label(side):
    if not isinstance(side, dict):
        return ""
    query = {**CELL_DEFAULTS, **side}
    text = f"`{query['workload']}`, {query['capacity']}, `{query['allocator']}` {conf(query['conf'])}"
    return text + (f" ({side['run']})" if "run" in side else "")


def evaluate(check, cells, accepted):
    """(result, row): True, False, or None where something was not measured."""
    if "accepted" in check:
        result = accepted.get(check["accepted"])
        said = "not measured" if result is None else "accepted" if result else "refused"
        return result, [check["when"], f"`{check['accepted']}`", said, ""]
    left, right = sides(check)
    values = cells.value(left), cells.value(right)
    field = left["field"]
    factor = check.get("times", 1)
    row = [check["when"], label(left), f"`{field}` {by_field(field.split('/')[-1], values[0])}"]
    against = by_field(field.split("/")[-1], values[1])
    if isinstance(right, dict):
        other = label(right) if cell_query(right) != cell_query(left) else f"`{right['field']}`"
        against = f"{against} ({other})" if factor == 1 else f"{factor} x {against} ({other})"
    row.append(f"{check['op']} {against}")
    if None in values:
        return None, row
    return OPERATORS[check["op"]](values[0], values[1] * factor if factor != 1 else values[1]), row


def verdict(results):
    """Of [(when, result)]: holds, does not hold, or when it does."""
    known = [(when, result) for when, result in results if result is not None]
    if not known:
        return "not measured"
    if all(result for _, result in known):
        return "**holds**"
    if not any(result for _, result in known):
        return "**does not hold**"
    return "**holds only when**: " + "; ".join(when for when, result in known if result)


def decided(claim, cells, accepted):
    """(the verdict of each part, a row for each check)."""
    by_part, rows = {}, []
    for check in claim.get("check", []):
        result, row = evaluate(check, cells, accepted)
        by_part.setdefault(check.get("part", ""), []).append((check["when"], result))
        rows.append(row + ["not measured" if result is None else "yes" if result else "no"])
    return [f"{part}: {verdict(results)}" if part else verdict(results) for part, results in by_part.items()], rows


def section(claim, parts, rows):
    """A claim with its verdicts and the cells that decide it."""
    note = "\n" + claim["note"] + "\n" if "note" in claim else ""
    return (f"### {claim['id']}. {claim['text']}\n\n" + "<br>".join(parts) + "\n\n" +
            table(["when", "cell", "measured", "against", "so"], rows) + note + "\n")


def report(raw, _binary, claims_path):
    accepted_path = raw.folder / "raw" / "claims_confs.json"
    accepted = json.loads(accepted_path.read_text()) if accepted_path.is_file() else {}
    cells = Cells(raw)
    summary, details = [], ""
    for claim in load_claims(claims_path):
        parts, rows = decided(claim, cells, accepted)
        said = "<br>".join(parts) if parts else f"not tested: {claim['untested']}"
        summary.append([claim["id"], claim["text"], said])
        if rows:
            details += section(claim, parts, rows)
    out = "# Claims about GPU memory allocation, measured\n\n"
    out += ("Claims that articles and manuals repeat, in our words, each with checks on measured cells. A check compares two stored "
            "numbers; a claim holds where all its checks are true. What the checks are is in `results/published/claims.toml`, and "
            "nothing here was decided by hand.\n\n")
    return out + table(["", "claim", "verdict"], summary) + "\n## The cells that show it\n\n" + details
