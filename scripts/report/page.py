"""Makes report.html: one page that needs nothing but a browser, made with nothing but Python. A Run flows in; HTML flows out. Every text of the
results is escaped by markup.py or goes into the page as JSON, and the page's content policy lets only our own script run."""

import base64
import hashlib
import json
import re

from anchors import anchor_of
from chart_parts import LINES, page_style, setting_text, wide_page_style
from charts import EXPERIMENT_CHARTS, timeline_chart
from columns import format_bytes, make_headings
from comparison_charts import CHANGED_NUMBERS, changes_chart, overlay_charts
from comparisons import NUMBER_FIELDS, comparison_data, name_of, prepare_comparisons
from definitions import render_definitions
from experiments import all_cells, others_of, prepare, score_settings, setting_of
from facts import is_measured
from load import HERE, results_file
from markup import Html, join, tag
from sections import Page, answer_section, comparison_section, experiment_article, filters_form, scroll
from timelines import fit_timelines

# The pages of the appendix, from results/.
MANUALS = ("DEFINITIONS.md", "FAILURES.md", "TIMES.md", "FORMAT.md", "answer/ANSWER.md", "compare/VERDICTS.md")
# What the embedded copies of size classes hold, in this order.
SIZE_CLASS_FIELDS = tuple(
    f"{operation}_latency_{name}"
    for operation in ("allocate", "deallocate")
    for name in ("count", "ns_p50", "ns_p90", "ns_p99", "ns_p999", "ns_max")
)
OOM_FIELDS = ("event_index", "id", "size_bytes", "stream", "cause", "free_largest_bytes", "free_bytes", "live_bytes",
              "device_left_bytes", "limit_bytes", "free_by_stream", "free_other_processes_bytes")
PASS_FIELDS = ("allocate_latency_ns_p50", "allocate_latency_ns_p99", "deallocate_latency_ns_p50", "wall_ns")
# All charts of experiments together.
CHART_CHARACTERS_MAX = 4_000_000


def _compact(value):
    """Six significant digits are more than any measurement here has; bytes and counts stay exact."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _scalar_fields(cell):
    skipped = ("kind", "oom_first", "requests", "outcome", "failure")
    return [name for name, value in cell.items() if not isinstance(value, (list, dict)) and name not in skipped]


def as_script_json(value):
    """JSON that can stand in a script element whatever names it holds."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _first_failure(event):
    streams = (event or {}).get("free_by_stream")
    if streams is None:
        return event
    return {**event, "free_by_stream": ", ".join(f"{name}: {size_bytes}" for name, size_bytes in streams.items())}


def _cell_data(cell, fields, letter):
    classes = [[one["size_class"], *(_compact(one[name]) for name in SIZE_CLASS_FIELDS)] for one in cell["size_classes"]]
    return {
        "v": [str(cell[name]) if name == "seed" else _compact(cell.get(name)) for name in fields],
        "letter": letter,
        "counters": cell["counters"],
        "first": _first_failure(cell["oom_first"]),
        "requests": cell.get("requests"),
        "warnings": cell["warnings"],
        "passes": [[_compact(one[name]) for name in PASS_FIELDS] for one in cell["passes"]],
        "classes": classes,
    }


def page_data(page, timelines, cells):
    """What the script lists and draws."""
    fields = _scalar_fields(page.run.cells[0])
    names = (*fields, *OOM_FIELDS, *PASS_FIELDS, *SIZE_CLASS_FIELDS)
    maps = {cell_id: {name: one[name] for name in ("maps", "open", "failed")} for cell_id, one in timelines.items()}
    return {
        "fields": fields,
        "passFields": PASS_FIELDS,
        "classFields": SIZE_CLASS_FIELDS,
        "anchors": {name: anchor_of(name) for name in names if anchor_of(name) in page.anchors},
        "cells": [_cell_data(cell, fields, page.letters[setting_of(cell)]) for cell in cells],
        "timelines": maps,
        "comparisons": comparison_data(page.run),
        "comparisonFields": NUMBER_FIELDS,
    }


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
    cells = all_cells(run)
    for cell in cells:
        for warning in cell["warnings"]:
            counts[warning] = counts.get(warning, 0) + 1
    caveats += [f"{warning} ({count} of {len(cells)} cells)" for warning, count in sorted(counts.items(), key=lambda one: -one[1])]
    return caveats


# Facts of the environment whose stored names say too little; others are their names with blanks.
ENVIRONMENT_WORDS = {
    "host_reference_ns": "test program on this host (ns)",
    "profile_host_reference_ns": "the same on the profiled card's host (ns)",
    "profile_clock_overhead_ns": "reading the clock there (ns)",
    "profile_host_reference_basis": "how the time there is known",
    "clock_overhead_ns": "reading the clock (ns)",
    "clock_resolution_ns": "step of the clock (ns)",
    "profile_name": "device model",
    "profile_hash": "its content (hash)",
    "hostname_hash": "host (hash)",
    "git_sha": "commit",
    "git_dirty": "local changes",
    "started_utc": "started (UTC)",
    "gpu_name": "GPU",
    "os": "system",
}


def environment_words(name):
    return ENVIRONMENT_WORDS.get(name) or re.sub("^(gpu|cpu|ecc|mig|pci)\\b", lambda found: found[0].upper(), name.removesuffix("_bytes").replace("_", " "))


def _environment_rows(page):
    rows = []
    for name, value in page.run.environment.items():
        if name in ("kind", "warnings", "argv") or value in ("", None):
            continue
        text = format_bytes(value) if name.endswith("_bytes") else "yes" if value is True else "no" if value is False else value
        rows.append(tag("tr", tag("th", page.defined(environment_words(name), name), scope="row"), tag("td", text)))
    return rows


def _overhead_words(cells):
    values = [cell["harness_overhead_ns_p50"] for cell in cells if is_measured(cell) and cell["harness_overhead_ns_p50"]]
    if not values:
        return None
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"{low if low == high else f'{low} to {high}'} ns"


def _methods(page):
    run, environment = page.run, page.run.environment
    simulated = environment["device"].startswith("sim:")
    host = "On a GPU the host's time contains the driver's."
    if simulated:
        host = (
            "On this simulated device it is the measured host time of the allocator's own code plus the driver time that the device's "
            f"measured profile ({environment['profile_name'] or environment['device']}) adds."
        )
    overhead = _overhead_words(run.cells)
    items = [
        ("Each cell is one setting on one workload under one capacity, in a process of its own. One untimed checked pass counts failed "
         "requests and bytes and checks every live block. Timed passes then replay the same trace on fresh instances of the allocator."),
        f"Latency is what one call costs the calling thread. {host} Quantiles are nearest-rank, within 0.8 %.",
        run.answers["legend"],
        "- is not defined or not known, never zero. In tables, ~ marks a quantile with fewer than ten samples beyond it; do not compare it.",
        ("Passes with an OOM carry Wilson's score interval at 95 %. It assumes independent passes, which those of a deterministic allocator "
         "are not. The OOM rate has no interval, since requests of one trace depend on each other."),
    ]
    if overhead:
        items.append(join(["The harness itself adds ", page.defined(overhead, "harness_overhead_ns_p50"),
                           " to each sample (P50 on the null backend); it is not subtracted."]))
    table = tag("table", tag("tbody", *_environment_rows(page)), class_="facts")
    return tag(
        "section",
        tag("h2", "Methods and environment", id="methods-title"),
        tag("ul", *(tag("li", item) for item in items)),
        tag("h3", "Run it again"),
        tag("pre", tag("code", shell_command(environment["argv"])), tabindex="0"),
        tag("h3", "Where it ran"),
        scroll(table, "Where it ran"),
        id="methods",
        aria_labelledby="methods-title",
    )


def _importance(experiment):
    """Experiments in which something was decided keep their charts longest."""
    order = ("rescued", "impossible", "unrescued", "no_baseline", "served")
    return order.index(experiment["answer"]["verdict"])


def _charts_of(experiments, letters, style):
    """({experiment id: [(kind, caption, svg)]}, count of experiments without charts): as many as the page can hold, the important ones
    first."""
    charts, used, left_out = {}, 0, 0
    for experiment in sorted(experiments, key=_importance):
        made = []
        if used <= CHART_CHARACTERS_MAX:
            made = [(kind, caption, make(experiment, letters, style)) for kind, make, caption in EXPERIMENT_CHARTS]
            name = experiment["answer"]["metric"]["name"]
            made = [(kind, caption or name[0].upper() + name[1:], svg) for kind, caption, svg in made if svg]
            used += sum(len(svg) for _, _, svg in made)
        else:
            left_out += 1
        charts[experiment["id"]] = made
    return charts, left_out


def _comparison_figures(run, one, style):
    figures = [("changes", f"Change of {name_of(name)}", changes_chart(one["comparison"], one["path"], name, style)) for name in CHANGED_NUMBERS]
    figures += [("overlay", f"Tail of allocate, BASE and NEW: {setting_text(cell)}", svg) for cell, svg in overlay_charts(run, one, style)]
    return figures


def script_hash(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _head(run, script, style):
    policy = f"default-src 'none'; script-src '{script_hash(script)}'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="allocmark-results-sha256", content=run.results_sha256),
        tag("title", f"allocmark: {run.answers['sentence']}"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Html(style)),
    )


def _header(comparisons):
    links = [("Comparison", comparisons[0]["id"])] if comparisons else []
    links += [("Answer", "answer"), ("Experiments", "experiments"), ("Methods", "methods"), ("Definitions", "definitions")]
    nav = tag("nav", *(tag("a", words, href="#" + target) for words, target in links), aria_label="Sections")
    theme = tag("button", "◐", id="theme", type="button", aria_label="Switch between light and dark")
    return tag("header", tag("div", tag("p", "allocmark ", tag("span", "report"), class_="brand"), nav, theme, class_="wide bar"))


def _experiments_section(page, charts, timelines):
    headings = make_headings(page.run.columns, page.anchors)
    told = join(
        [
            "One workload under one capacity each; every row is one setting. Select a column's name to sort, ",
            tag("span", "?", class_="def"),
            " for its definition, a setting's letter for everything known about its cell.",
        ]
    )
    articles = [experiment_article(page, one, headings, charts[one["id"]], timelines) for one in page.experiments]
    return tag(
        "section",
        tag("h2", "Experiments", id="experiments-title"),
        tag("p", told),
        filters_form(page.run),
        *articles,
        tag("p", "No cell matches the filters.", id="nothing", hidden=True),
        id="experiments",
        aria_labelledby="experiments-title",
    )


def style_sheet():
    """The page's own, and the classes of chart colours."""
    style = (HERE / "page" / "style.css").read_text(encoding="utf-8")
    names = sorted(set(re.findall(r"--([a-z0-9-]+):", style)))
    lines = "".join(f".f-line{index}{{fill:{colour}}}.s-line{index}{{stroke:{colour}}}" for index, colour in enumerate(LINES))
    return style + "\n.f-none{fill:none}\n" + lines + "".join(f".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}" for name in names)


def render_page(run):
    experiments, letters = prepare(run)
    style = page_style()
    cells = [cell for experiment in experiments for cell in experiment["cells"]]
    timelines, left_out = fit_timelines(run, cells, lambda cell, timeline, count: timeline_chart(cell, timeline, wide_page_style(), count))
    charts, without_charts = _charts_of(experiments, letters, style)
    if left_out:
        run.notes.append(f"{left_out} timelines were left out to keep the page small; they are in timelines/.")
    if without_charts:
        run.notes.append(f"{without_charts} of {len(experiments)} experiments with a table have no charts here, to keep the page small: "
                         "'allocmark report DIR --svg CHARTS' draws all.")
    if others_of(run):
        count = len(experiments) + len(others_of(run))
        run.notes.append(f"{len(others_of(run))} of {count} experiments have no table here, to keep the page small: they are counted, and "
                         "their numbers are in table.csv.")
    manuals = "\n".join(results_file(name).read_text(encoding="utf-8") for name in MANUALS)
    definitions, anchors = render_definitions(manuals)
    page = Page(run, experiments, letters, anchors)
    comparisons = prepare_comparisons(run)
    script = "\n".join((HERE / "page" / f"{name}.js").read_text(encoding="utf-8") for name in ("app", "maps", "compare"))
    sections = [comparison_section(page, one, _comparison_figures(run, raw, style)) for one, raw in zip(comparisons, run.comparisons)]
    sections += [
        answer_section(page, score_settings(run, experiments, letters), caveats_of(run)),
        _experiments_section(page, charts, timelines),
        _methods(page),
        tag("section", tag("h2", "Definitions", id="definitions-title"), tag("div", definitions, class_="prose"), id="definitions",
            aria_labelledby="definitions-title"),
    ]
    close = tag("button", "✕", type="submit", aria_label="Close")
    body = tag(
        "body",
        tag("a", "Skip to the answer", class_="skip", href="#" + (comparisons[0]["id"] if comparisons else "answer")),
        _header(comparisons),
        tag("main", *sections, class_="wide"),
        tag("dialog", tag("form", tag("h2", id="detail-title"), close, method="dialog"), tag("div", id="detail-body"), id="detail",
            aria_labelledby="detail-title"),
        tag("noscript", tag("p", "Sorting, filters and address maps need JavaScript; every number is in the tables above.", class_="wide")),
        tag("script", as_script_json(page_data(page, timelines, cells)), id="data", type="application/json"),
        tag("script", Html(script)),
    )
    return "<!DOCTYPE html>\n" + tag("html", _head(run, script, style_sheet()), body, lang="en") + "\n"
