"""Report: all allocators on recorded and generated programs, with three limits. Raw results flow in; Markdown flows out. Numbers that a cell does not
store are derived by `allocmark report`, so there is one place for each formula. allocator_figures.py draws the same cells."""

import json
import statistics

import folklore
from raw import PublishError, is_measured, reported
from text import conf, number, short, size, table, time

PREFIX = "allocators_"  # raw files of this report; SWEEP has more limits of few workloads
SWEEP = "allocators_sweep"
WHOLE = "unlimited"


def setting_of(cell):
    """(allocator, config string). A recording names the release of PyTorch that made it; this report compares allocators, so the release is dropped."""
    family, _, release = cell["allocator"].partition("@")
    return (family if family == "caching" and release else cell["allocator"], cell["conf"])


def words(setting):
    return f"`{setting[0]}`" + (f" {conf(setting[1])}" if setting[1] else "")


class Study:
    """The cells by workload, setting and limit, each with `regret_share` and tails of `allocmark report`."""

    def __init__(self, raw, binary, names):
        environment = raw.environment(names[0])
        cells = raw.cells(*names)
        facts = json.loads(reported(binary, environment, cells, "facts"))
        self.cells, self.tails = {}, facts["tails"]
        for cell in cells:
            cell = {**cell, "regret_share": facts["derived"][cell["cell_id"]].get("regret_share"), "calls": calls(cell)}
            self.cells[(cell["workload"], setting_of(cell), cell["capacity"])] = cell
        self.workloads = list(dict.fromkeys(workload for workload, _, _ in self.cells))
        self.limits = sorted({limit for _, _, limit in self.cells}, key=lambda limit: (limit != WHOLE, -float(limit.rstrip("x")) if limit != WHOLE else 0))
        self.settings = sorted({setting for _, setting, _ in self.cells}, key=self.rank)

    def cell(self, workload, setting, limit):
        cell = self.cells.get((workload, setting, limit))
        return cell if is_measured(cell) else None

    def value(self, workload, setting, limit, field):
        cell = self.cell(workload, setting, limit)
        return None if cell is None else cell[field]

    def values(self, setting, limit, field):
        found = [self.value(workload, setting, limit, field) for workload in self.workloads]
        return [value for value in found if value is not None]

    def rank(self, setting):
        """Least regret in the median first; then by name, so that the page is the same each time."""
        regrets = self.values(setting, WHOLE, "regret_share")
        return (statistics.median(regrets) if regrets else float("inf"), setting)

    def served(self, limit):
        """How many workloads each setting serves whole."""
        return {setting: sum(count == 0 for count in self.values(setting, limit, "oom_count")) for setting in self.settings}


def by_workload(study, limit, field, show, last=None):
    """One row a setting, one column a workload, and a last column (heading, function of the row's values)."""
    rows = []
    for setting in study.settings:
        values = study.values(setting, limit, field)
        shown = [show(study.value(workload, setting, limit, field)) for workload in study.workloads]
        rows.append([words(setting), *shown] + ([show(last[1](values)) if values else "-"] if last else []))
    headings = [f"{letter}:" for letter, _ in lettered(study.workloads)]
    return table(["setting", *headings, *([last[0] + ":"] if last else [])], rows)


def lettered(workloads):
    return [(chr(ord("A") + index), workload) for index, workload in enumerate(workloads)]


def percent(value):
    return "-" if value is None else f"{100 * value:.1f} %".replace("-0.0 %", "0.0 %")


def calls(cell):
    """The calls that take memory from the device or give it back, in one pass."""
    counts = [cell[field] for field in ("device_allocate_count", "device_free_count")]
    return None if None in counts else sum(counts)


def failures(study):
    rows = []
    limits = [limit for limit in study.limits if limit != WHOLE]
    served = {limit: study.served(limit) for limit in study.limits}
    for setting in study.settings:
        counts = []
        for workload in study.workloads:
            found = [study.value(workload, setting, limit, "oom_count") for limit in limits]
            counts.append(" / ".join("-" if one is None else number(one) for one in found))
        rows.append([words(setting), *counts, " / ".join(str(served[limit][setting]) for limit in limits)])
    headings = [f"{letter}:" for letter, _ in lettered(study.workloads)]
    return table(["setting", *headings, "served:"], rows), " / ".join(limits)


def programs(study):
    rows = []
    for letter, workload in lettered(study.workloads):
        cell = next(cell for (name, _, _), cell in study.cells.items() if name == workload)
        rows.append([letter, f"`{workload}`", number(cell["event_count"]), size(cell["requested_bytes_peak"]), size(cell["packed_bytes"])])
    return table(["", "workload", "events:", "most requested at once:", "best plan found:"], rows)


def findings(raw, path):
    """Each a sentence, its verdict, and the cells that decide it."""
    cells = folklore.Cells(raw)
    return "".join(folklore.section(claim, *folklore.decided(claim, cells, {})) for claim in folklore.load_claims(path))


def report(raw, binary, findings_path):
    names = [name for name in raw.names(PREFIX) if name != SWEEP]
    if not names:
        raise PublishError("no cells of this report; measure the step 'allocators'")
    study = Study(raw, binary, names)
    gpu = raw.environment(names[0])["gpu_name"]
    failed, limits = failures(study)
    out = "# Allocators side by side\n\n"
    out += (f"Every allocator that allocmark has for one device, on the same requests, on one {gpu}. PyTorch's `caching`, TensorFlow's and JAX's `bfc`, "
            "JAX's `xla_vmm`, CuPy's, RMM's and llama.cpp's are rebuilt decision for decision; `async`, `native`, `cub` and `thrust_pool` are the real "
            "libraries; `vmm_stitch` and `planned` are this project's. Cells: raw/, a line each.\n\n## Programs\n\n")
    out += programs(study) + ("\n*Best plan found* is the least memory into which all requests were packed when all are known beforehand "
                              "(results/DEFINITIONS.md, \"Regret\").\n")
    out += "\n## Findings\n\nA finding holds where all its checks are true. The checks compare stored numbers; nothing was decided by hand.\n\n"
    out += findings(raw, findings_path)
    out += "## Memory: regret with the whole card\n\n"
    out += ("Regret is reserved memory beyond the best plan, in percent of that plan. Rows stand by their median. `-`: a request failed, or the allocator "
            "keeps no count of reserved memory.\n\n")
    out += by_workload(study, WHOLE, "regret_share", percent, ("median", statistics.median))
    out += f"\n## Failed requests at {limits}\n\nThe limit is a multiple of the most requested at once. *served*: workloads without a failed request.\n\n"
    out += failed
    out += ("\n## Wall time of a step\n\nMedian over the steps, with the whole card. The device idles: recordings hold requests, not kernels. What the "
            "program itself would do in the step is not in it.\n\n")
    out += by_workload(study, WHOLE, "step_ns_p50", time)
    out += "\n## P99 of one allocate call\n\n" + by_workload(study, WHOLE, "allocate_latency_ns_p99", time)
    out += "\n## Calls that take memory from the device or give it back, in one pass\n\n" + by_workload(study, WHOLE, "calls", number)
    out += "\n## Figures\n\n"
    out += "- [utilisation](figures/utilisation.svg): the best plan over what was reserved, by allocator and program\n"
    if raw.has(SWEEP):
        for workload in dict.fromkeys(cell["workload"] for cell in raw.cells(SWEEP)):
            out += f"- [failed requests against memory](figures/failures-{figure_name(workload)}.svg), {short(workload)}\n"
    for workload in study.workloads:
        out += f"- [latency of allocate](figures/latency-{figure_name(workload)}.svg), {short(workload)}\n"
    out += "- address by time: " + ", ".join(f"[{name}](figures/addresses-{name}.svg)" for name in ADDRESS_FIGURES) + " of one training step\n"
    return out


def figure_name(workload):
    return "".join(letter if letter.isalnum() else "_" for letter in workload.split(",")[0])


# Of these settings the place of every block is drawn: (allocator, config string).
ADDRESS_FIGURES = {
    "caching": ("caching", ""),
    "expandable_segments": ("caching", "expandable_segments:True"),
    "bfc": ("bfc@tf2.21", "allow_growth:True,fraction:1"),
    "planned": ("planned", ""),
}
