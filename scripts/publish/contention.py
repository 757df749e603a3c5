"""Report: processes that share a GPU, and GPUs that share a machine. Raw results flow in, Markdown flows out."""

import statistics

from raw import is_measured
from text import ratio, short, table, time

FIELDS = (("allocate P50", "allocate_latency_ns_p50"), ("allocate P99", "allocate_latency_ns_p99"), ("free P50", "deallocate_latency_ns_p50"),
          ("program", "program_ns"))


def groups(cells):
    """{(workload, allocator): cells}, in order."""
    found = {}
    for cell in cells:
        if is_measured(cell):
            found.setdefault((cell["workload"], cell["allocator"]), []).append(cell)
    return found


def median(cells, field):
    values = [cell[field] for cell in cells if cell[field] is not None]
    return statistics.median(values) if values else None


def rows_against(base, others):
    """A row per workload, allocator and other; `others` is [(label, cells)]."""
    alone, rows = groups(base), []
    for key, cells in alone.items():
        for label, together in others:
            now = groups(together).get(key)
            if now is None:
                continue
            row = [short(key[0]), f"`{key[1]}`", label]
            for _, field in FIELDS:
                before, after = median(cells, field), median(now, field)
                row.append("-" if not before or after is None else f"{time(after)} ({ratio(after / before)})")
            placements = {cell["placement_hash"] for cell in cells}, {cell["placement_hash"] for cell in now}
            row.append("as alone" if placements[0] == placements[1] else "differ")
            rows.append(row)
    return rows


def processes(raw, name):
    """How many at a time a run's command asked for."""
    words = raw.environment(name).get("argv", [])
    count = words[words.index("--jobs") + 1] if "--jobs" in words else "1"
    return "One process" if count == "1" else f"{count} processes"


def report(raw, _binary):
    out = "# Contention\n\nEach program runs in a process of its own, with its own context and its own allocator. Medians over the "
    out += "processes; in parentheses the ratio to running alone.\n\n"
    headings = ["workload", "allocator", "processes:"] + [name + " (to alone):" for name, _ in FIELDS] + ["placements"]
    names = sorted(raw.names("together_"), key=lambda name: int(name.rsplit("_", 1)[1]))
    if names:
        counts = [(name.rsplit("_", 1)[1], raw.cells(name)) for name in names]
        out += "## Processes on one GPU\n\n" + table(headings, rows_against(counts[0][1], counts)) + "\n"
        out += ("All of them start together and replay the same trace. Their driver calls meet in the driver's locks and on the device; a "
                "caching allocator that is warm makes few.\n\n")
    alone, together = raw.names("gpu_alone_"), raw.names("gpu_together_")
    if together:
        headings[2] = "GPUs at once"
        base = [cell for name in alone for cell in raw.cells(name)]
        every = [("1", base), (str(len(together)), [cell for name in together for cell in raw.cells(name)])]
        out += f"## {processes(raw, together[0])} on each of {len(together)} GPUs\n\n" + table(headings, rows_against(base, every)) + "\n"
        out += "GPU by GPU, all at once, over the same GPU alone:\n\n"
        rows = []
        for name in together:
            index = name.rsplit("_", 1)[1]
            rows += [[index, *row] for row in rows_against(raw.cells(f"gpu_alone_{index}"), [("all", raw.cells(name))])]
        out += table(["GPU:", *headings], rows) + "\n"
    else:
        out += "## Several GPUs\n\nNot measured here: the machine has one GPU.\n"
    return out
