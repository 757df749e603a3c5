"""Makes report.html: one page that needs nothing but a browser. A Run flows in; HTML flows out. Every text of the results is escaped by
the template engine or goes into the page as JSON, and the page's content policy lets only our own two scripts run."""

import base64
import hashlib
import json
import re
from pathlib import Path

import jinja2
import plotly.offline
from markupsafe import Markup

from anchors import anchor_of
from comparisons import COMPARED_NUMBERS, NUMBER_FIELDS, comparison_data, prepare_comparisons
from columns import cell_text, cell_title, format_bytes, format_ratio, group_spans, make_headings
from definitions import render_definitions
from experiments import (
    causes_of,
    costs_of,
    failures_of,
    headline_of,
    outcome_of,
    prepare,
    score_settings,
    setting_of,
)
from facts import BASELINE_ALLOCATOR, CAUSES, is_baseline, is_measured
from load import HERE, results_file
from timelines import fit_timelines

# What the embedded copies of size classes hold, in this order.
SIZE_CLASS_FIELDS = tuple(
    f"{operation}_latency_{name}"
    for operation in ("allocate", "deallocate")
    for name in ("count", "ns_p50", "ns_p90", "ns_p99", "ns_p999", "ns_max")
)
OOM_FIELDS = ("event_index", "id", "size_bytes", "stream", "cause", "free_largest_bytes", "free_bytes")
PASS_FIELDS = ("allocate_latency_ns_p50", "allocate_latency_ns_p99", "deallocate_latency_ns_p50", "wall_ns")


def _compact(value):
    """Six significant digits are more than any measurement here has; bytes and counts stay exact."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _scalar_fields(cell):
    return [name for name, value in cell.items() if not isinstance(value, (list, dict)) and name not in ("kind", "oom_first", "requests")]


def as_script_json(value):
    """JSON that can stand in a script element whatever names it holds."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _chart_data(run, experiments, letters, anchors):
    cells = [cell for experiment in experiments for cell in experiment["cells"]]
    fields = _scalar_fields(cells[0])
    rows = []
    for cell in cells:
        row = [str(cell[name]) if name == "seed" else _compact(cell[name]) for name in fields]
        rows.append(
            {
                "v": row,
                "letter": letters[setting_of(cell)],
                "counters": cell["counters"],
                "first": cell["oom_first"],
                "requests": cell.get("requests"),
                "warnings": cell["warnings"],
                "passes": [[_compact(one[name]) for name in PASS_FIELDS] for one in cell["passes"]],
                "classes": [
                    [one["size_class"], *(_compact(one[name]) for name in SIZE_CLASS_FIELDS)] for one in cell["size_classes"]
                ],
                "tails": {
                    operation: [[float(f"{value:.4g}") for value in column] for column in curve]
                    for operation, curve in cell["tails"].items()
                },
            }
        )
    return {
        "fields": fields,
        "passFields": PASS_FIELDS,
        "classFields": SIZE_CLASS_FIELDS,
        "causes": CAUSES,
        "sampleMin": run.sample_count_min,
        "anchors": {name: anchor_of(name) for name in (*fields, *OOM_FIELDS, *PASS_FIELDS, *SIZE_CLASS_FIELDS) if anchor_of(name) in anchors},
        "cells": rows,
        "timelines": run.timelines,
        "comparisons": comparison_data(run),
        "comparisonFields": NUMBER_FIELDS,
    }


def environment_rows(environment):
    """(name, definition, value) of what the run ran on; empty facts are left out."""
    rows = []
    for name, value in environment.items():
        if name in ("kind", "warnings", "argv") or value in ("", None):
            continue
        text = format_bytes(value) if name.endswith("_bytes") else "yes" if value is True else "no" if value is False else str(value)
        rows.append((name, anchor_of(name), text))
    return rows


def shell_command(argv):
    def quoted(text):
        return text if re.fullmatch(r"[A-Za-z0-9_./:,=+@%-]+", text) else "'" + text.replace("'", "'\\''") + "'"

    return " ".join(map(quoted, argv))


def caveats_of(run):
    """What must be known before any number is believed, most serious first."""
    environment, caveats = run.environment, []
    if environment["build_type"].lower() == "debug":
        caveats.append("Debug build: its latencies mean nothing.")
    if environment["device"].startswith("sim:"):
        caveats.append(
            "Simulated GPU: latency is measured host time of the allocator's own code plus modelled driver time; out-of-memory "
            "and memory figures are the simulated device's."
        )
    if environment["git_dirty"]:
        caveats.append("Built from a checkout with local changes: the commit alone does not reproduce it.")
    caveats += run.notes
    caveats += [f"{warning} (whole run)" for warning in environment["warnings"]]
    counts = {}
    for cell in run.cells:
        for warning in cell["warnings"]:
            counts[warning] = counts.get(warning, 0) + 1
    caveats += [f"{warning} ({count} of {len(run.cells)} cells)" for warning, count in sorted(counts.items(), key=lambda one: -one[1])]
    return caveats


def status_counts(cells):
    counts = {}
    for cell in cells:
        counts[cell["status"]] = counts.get(cell["status"], 0) + 1
    return counts


def overhead_range(cells):
    values = [cell["harness_overhead_ns_p50"] for cell in cells if is_measured(cell) and cell["harness_overhead_ns_p50"]]
    return (min(values), max(values)) if values else None


def _template_engine():
    engine = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "page"), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    engine.filters.update(bytes=format_bytes, ratio=format_ratio)
    engine.globals.update(
        failures_of=failures_of,
        causes_of=causes_of,
        costs_of=costs_of,
        outcome_of=outcome_of,
        setting_of=setting_of,
        is_baseline=is_baseline,
        is_measured=is_measured,
        cell_text=cell_text,
        cell_title=cell_title,
        anchor_of=anchor_of,
        BASELINE=BASELINE_ALLOCATOR,
        COMPARED_NUMBERS=COMPARED_NUMBERS,
    )
    return engine


def script_hash(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def render_page(run):
    experiments, letters = prepare(run)
    run.timelines, left_out = fit_timelines(run, [cell for experiment in experiments for cell in experiment["cells"]])
    if left_out:
        run.notes.append(f"{left_out} timelines were left out to keep the page small; they are in timelines/.")
    definitions, anchors = render_definitions(results_file("README.md").read_text(encoding="utf-8"))
    scores = score_settings(experiments, letters)
    headings = make_headings(run.cells)
    app = "\n".join((HERE / "page" / f"{name}.js").read_text(encoding="utf-8") for name in ("charts", "app", "compare"))
    plotly_js = plotly.offline.get_plotlyjs()
    context = {
        "run": run,
        "environment": run.environment,
        "environment_rows": environment_rows(run.environment),
        "command": shell_command(run.environment["argv"]),
        "experiments": experiments,
        "comparisons": prepare_comparisons(run),
        "letters": letters,
        "scores": scores,
        "headline": headline_of(experiments, scores),
        "headings": headings,
        "spans": group_spans(headings),
        "caveats": caveats_of(run),
        "statuses": status_counts(run.cells),
        "overhead": overhead_range(run.cells),
        "workloads": list(dict.fromkeys(cell["workload"] for cell in run.cells)),
        "capacities": list(dict.fromkeys(cell["capacity"] for cell in run.cells)),
        "allocators": list(dict.fromkeys(cell["allocator"] for cell in run.cells)),
        "anchors": anchors,
        "definitions": Markup(definitions),
        "data": as_script_json(_chart_data(run, experiments, letters, anchors)),
        "style": Markup((HERE / "page" / "style.css").read_text()),
        "app": Markup(app),
        "plotly": Markup(plotly_js),
        "script_hashes": [script_hash(app), script_hash(plotly_js)],
    }
    return _template_engine().get_template("report.html").render(context)
