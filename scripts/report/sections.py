"""The parts of the page as HTML: the answer, settings over all experiments, experiments, comparisons, methods. Prepared data flow in; markup,
in which every text is escaped, flows out."""

from anchors import anchor_of
from columns import cell_title, field_of, format_bytes, group_spans, sort_key
from comparisons import VERDICTS
from experiments import all_cells, others_of, setting_of
from facts import BASELINE_ALLOCATOR, is_measured
from markup import Html, join, tag

LISTED_MAX = 6


def setting(allocator, conf):
    name = tag("code", allocator, class_="allocator")
    if not conf:
        return join([name, " ", tag("span", "unset", class_="unset")])
    return join([name, " ", tag("code", join(conf.split(","), Html(",<wbr>")), class_="conf")])


def badge(letter):
    return tag("span", letter, class_="letter", aria_hidden="true")


def scroll(content, label):
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def plural(count, word):
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def verdict_class(verdict):
    return "verdict-" + verdict.replace(" ", "-")


class Page:
    """What all parts need to know: settings' letters, the anchors that the definitions have, the run."""

    def __init__(self, run, experiments, letters, anchors):
        self.run, self.experiments, self.letters, self.anchors = run, experiments, letters, anchors
        self.by_id = {cell["cell_id"]: cell for cell in run.cells}

    def named(self, cell):
        return join([badge(self.letters[setting_of(cell)]), " ", setting(cell["allocator"], cell["conf"])])

    def defined(self, words, field):
        anchor = anchor_of(field)
        return tag("a", words, href="#" + anchor) if anchor in self.anchors else words


def paste_line(line):
    return tag("p", tag("code", line), " ", tag("button", "copy", type="button", class_="copy", data_text=line), class_="paste") if line else None


def answer_section(page, scores, caveats):
    run, environment = page.run, page.run.environment
    statuses, cells = {}, all_cells(run)
    for cell in cells:
        statuses[cell["status"]] = statuses.get(cell["status"], 0) + 1
    simulated = environment["device"].startswith("sim:")
    gpu = environment["gpu_name"] and f"{'simulated ' if simulated else ''}{environment['gpu_name']}"
    lender = environment.get("times_borrowed_from")
    words = [environment["device"], gpu, lender and f"times borrowed from {lender}", environment["started_utc"][:10]]
    counts = [plural(len(page.experiments) + len(others_of(run)), "experiment"), plural(len(cells), "cell")]
    counts += [f"{count} {status.replace('_', ' ')}" for status, count in statuses.items() if status != "ok"]
    parts = [
        tag("p", " · ".join([*filter(None, words), ", ".join(counts)]), class_="eyebrow"),
        tag("h1", run.answers["sentence"], id="answer-title"),
        paste_line(run.answers["paste"]),
    ]
    if len(page.experiments) > 1:
        shown = page.experiments[:40]
        items = [tag("li", tag("a", one["answer"]["sentence"], href="#" + one["id"], class_="plain")) for one in shown]
        if len(page.experiments) > len(shown):
            items.append(tag("li", f"and {len(page.experiments) - len(shown)} more, below"))
        if others_of(run):
            items.append(tag("li", f"and {len(others_of(run))} that have no table here"))
        parts.append(tag("ul", *items, class_="sentences"))
    if caveats:
        listed = tag("ul", *(tag("li", one) for one in caveats))
        parts.append(tag("aside", tag("h2", "Before you use these numbers"), listed, class_="caveats", aria_label="Before you use these numbers"))
    if len(page.experiments) > 1:
        parts += [tag("h2", "Settings over all experiments"), scroll(_scores_table(page, scores), "Settings over all experiments")]
        parts += [tag("h2", "Who ran out of memory where"), scroll(_matrix(page, scores), "Outcome of every setting in every experiment")]
    return tag("section", *parts, id="answer", aria_labelledby="answer-title")


def _scores_table(page, scores):
    heads = ("served everything", "failures of unset avoided")
    head = tag("tr", tag("th", "setting", scope="col"), *(tag("th", tag("button", one, type="button"), scope="col") for one in heads))
    rows = []
    for key, score in scores.items():
        share = score["served"] / score["count"] if score["count"] else -1
        meter = tag("span", class_="meter", style=f"--share:{100 * share:.1f}%")
        served = join([meter, f"{score['served']} of {score['count']}"]) if score["count"] else tag("span", "no numbers", class_="none")
        left = tag("small", f" ({score['not_measured']} without numbers)") if score["not_measured"] and score["count"] else None
        is_unset = key == (BASELINE_ALLOCATOR, "")
        avoided = "-" if is_unset or not score["rescuable"] else f"{score['rescued']} of {score['rescuable']}"
        name = tag("th", badge(page.letters[key]), " ", setting(*key), scope="row")
        rows.append(tag("tr", name, tag("td", served, left, data_v=f"{share:.4f}"), tag("td", avoided, data_v=score["rescued"])))
    return tag("table", tag("thead", head), tag("tbody", *rows), id="scores", class_="sortable")


def _outcome_mark(cell):
    return {"ok": "✓", "oom": "OOM"}.get(cell["outcome"]) or (cell["status"] if cell["status"] != "ok" else "-")


def _matrix(page, scores):
    named = [(key, f"{key[0]} {key[1] or 'unset'}") for key in scores]
    heads = [tag("th", badge(page.letters[key]), tag("span", name, class_="hidden"), scope="col", title=name) for key, name in named]
    rows = []
    for experiment in page.experiments:
        key, by_setting = experiment["key"], {setting_of(cell): cell for cell in experiment["cells"]}
        where = key["capacity"] + (f" · seed {key['seed']}" if key["seed"] else "")
        row = [tag("th", tag("a", key["workload"], href="#" + experiment["id"]), " ", tag("small", where), scope="row")]
        for setting_key, name in named:
            cell = by_setting.get(setting_key)
            if cell is None:
                row.append(tag("td", tag("span", "·", title="not in this run"), class_="outcome absent"))
                continue
            told = {"ok": "served everything", "oom": cell["failure"]}.get(cell["outcome"], cell["status"])
            link = tag("a", _outcome_mark(cell), href="#c-" + cell["cell_id"], title=f"{name}: {told}")
            row.append(tag("td", link, class_=f"outcome {cell['outcome']}"))
        rows.append(tag("tr", *row))
    head = tag("thead", tag("tr", tag("th", "experiment", scope="col"), *heads))
    return tag("table", head, tag("tbody", *rows), id="matrix")


def _ranked_list(page, heading, ranked):
    if not ranked:
        return None
    items = []
    for one in ranked[:LISTED_MAX]:
        items.append(tag("li", page.named(page.by_id[one["cell_id"]]), " ", tag("span", one["text"], class_="costs")))
    if len(ranked) > LISTED_MAX:
        items.append(tag("li", f"and {len(ranked) - LISTED_MAX} more, in the table"))
    return join([tag("p", heading), tag("ol", *items)])


def _verdict(page, answer):
    """The lines that allocmark made, with the ranked ones laid out as lists with letters."""
    by = page.defined(answer["metric"]["name"], answer["metric"]["field"])
    plain = [line for line in answer["lines"][1:] if not line.startswith(("- ", "To set it:", "Served every request,"))]
    return tag(
        "div",
        tag("p", tag("b", answer["sentence"])),
        paste_line(answer["paste"]),
        *(tag("p", line) for line in plain[:1]),
        _ranked_list(page, join(["Served every request, as settings of PyTorch, by ", by, ":"]), answer["settable"]),
        _ranked_list(page, join(["Served every request, but cannot be set in PyTorch, by ", by, ":"]), answer["others"]),
        *(tag("p", line) for line in plain[1:]),
        class_=f"verdict {answer['verdict']}",
    )


def figure(kind, caption, svg, full=False):
    if svg is None:
        return None
    save = tag("button", "SVG", type="button", class_="save", aria_label="Save this chart as SVG")
    plot = tag("div", Html(svg), class_="plot", tabindex="0", role="region", aria_label=caption)
    return tag("figure", tag("figcaption", caption, save), plot, class_="chart full" if full else "chart", data_chart=kind)


def _timeline_figures(page, cells, timelines):
    shown = [cell for cell in cells if cell["cell_id"] in timelines]
    if not shown:
        return []
    first = next((cell for cell in shown if cell["outcome"] == "oom"), shown[0])
    options = [
        tag("option", f"{page.letters[setting_of(cell)]} {cell['allocator']} {cell['conf'] or 'unset'}", value=cell["cell_id"], selected=cell is first)
        for cell in shown
    ]
    select = tag("select", *options, class_="t-cell", aria_label="Setting of the timeline")
    save = tag("button", "SVG", type="button", class_="save", aria_label="Save this chart as SVG")
    plots = [tag("div", Html(timelines[cell["cell_id"]]["chart"] or ""), class_="plot", data_cell=cell["cell_id"], hidden=cell is not first) for cell in shown]
    scrub = tag("input", class_="t-scrub", type="range", min="0", value="0", aria_label="Moment of the address map")
    caption = tag("figcaption", "Address map ", tag("output", class_="t-at"), scrub)
    return [
        tag("figure", tag("figcaption", "Memory over time ", select, save), *plots, class_="chart full", data_chart="timeline"),
        tag("figure", caption, tag("p", class_="t-told"), tag("div", class_="plot", tabindex="0"), class_="chart full", data_chart="map"),
    ]


def _cells_table(page, experiment, headings):
    spans = [tag("th", group, scope="colgroup", colspan=count, class_="group") for group, count in group_spans(headings)]
    first = [index == 0 or headings[index - 1]["group"] != heading["group"] for index, heading in enumerate(headings)]
    names = []
    for heading, begins in zip(headings, first):
        link = tag("a", "?", class_="def", href="#" + heading["anchor"], aria_label=f"definition of {heading['name']}") if heading["anchor"] else None
        names.append(tag("th", tag("button", heading["name"] or heading["group"], type="button"), link, tag("small", heading["unit"]),
                         scope="col", class_="first" if begins else None))
    rows = [_cell_row(page, cell, headings, first) for cell in experiment["cells"]]
    head = tag("thead", tag("tr", tag("th", "setting", scope="col", rowspan="2"), *spans), tag("tr", *names))
    return tag("table", head, tag("tbody", *rows), class_="cells sortable")


def _cell_row(page, cell, headings, first):
    told = f"Everything about {cell['allocator']} {cell['conf'] or 'unset'}"
    letter = tag("button", page.letters[setting_of(cell)], type="button", class_="letter open", aria_label=told)
    row = [tag("th", letter, " ", setting(cell["allocator"], cell["conf"]), scope="row")]
    values = page.run.columns["rows"][cell["cell_id"]]
    if not is_measured(cell):
        reason = tag("td", cell["reason"] or "no reason given", class_="first reason", colspan=len(headings) - 1)
        headings, values, row_end = [{"group": "", "name": "status"}], [cell["status"]], [reason]
    else:
        row_end = []
    for heading, begins, value in zip(headings, first, values):
        if heading["name"] == "status":
            warn = tag("span", "⚠", class_="warn", title="\n".join(cell["warnings"])) if cell["warnings"] else None
            rank = {"ok": 0, "oom": 1, "none": 2}[cell["outcome"]]
            shown = {"oom": "OOM"}.get(cell["outcome"], value) if value == "ok" else value.replace("_", " ")
            row.append(tag("td", shown, " " if warn else None, warn, class_=f"outcome {cell['outcome']}", data_v=rank))
        else:
            title = cell_title(cell, field_of(heading)) or None
            row.append(tag("td", value, class_="first" if begins else None, data_v=sort_key(value), title=title))
    data = {"data_allocator": cell["allocator"], "data_conf": cell["conf"], "data_outcome": cell["outcome"]}
    return tag("tr", *row, *row_end, id="c-" + cell["cell_id"], **data)


def experiment_article(page, experiment, headings, charts, timelines):
    key, capacity = experiment["key"], experiment["capacity_bytes"]
    facts = [
        tag("b", f"capacity {key['capacity']}"), f" ({format_bytes(capacity)})" if capacity else None,
        f" · {key['device']} · seed {key['seed']} · on OOM {key['on_oom']} · {key['event_count']:,} events",
    ]  # fmt: skip
    figures = [figure(kind, caption, svg) for kind, caption, svg in charts]
    figures += _timeline_figures(page, experiment["cells"], timelines)
    return tag(
        "article",
        tag("h3", tag("a", key["workload"], class_="self", href="#" + experiment["id"])),
        tag("p", *facts, class_="facts"),
        _verdict(page, experiment["answer"]),
        tag("div", *figures, class_="charts") if any(figures) else None,
        scroll(_cells_table(page, experiment, headings), "Results of this experiment"),
        id=experiment["id"],
        class_="experiment",
        data_workload=key["workload"],
        data_capacity=key["capacity"],
        style=f"--rows:{len(experiment['cells'])}",
    )


def _select(label, name, options):
    choices = [tag("option", "all", value=""), *(tag("option", words, value=value) for value, words in options)]
    return tag("label", label, " ", tag("select", *choices, id=name))


def filters_form(run):
    def seen(name):
        return [(one, one) for one in dict.fromkeys(cell[name] for cell in run.cells)]

    outcomes = [("ok", "served everything"), ("oom", "out of memory"), ("none", "no numbers")]
    return tag(
        "form",
        tag("label", "Filter ", tag("input", id="f-text", type="search", placeholder="workload, allocator or config string",
                                    autocomplete="off"), class_="grow"),
        _select("Workload", "f-workload", seen("workload")),
        _select("Capacity", "f-capacity", seen("capacity")),
        _select("Allocator", "f-allocator", seen("allocator")),
        _select("Outcome", "f-outcome", outcomes),
        tag("button", "Reset", type="reset"),
        tag("output", f"{len(run.cells)} of {len(run.cells)} cells", id="f-count", aria_live="polite"),
        id="filters",
        role="search",
        aria_label="Filter the cells",
    )


def comparison_section(page, one, charts):
    parts = [
        tag("p", "this run, NEW, against ", tag("code", one["path"]), ", BASE", class_="eyebrow"),
        tag(
            "div",
            tag("h2", "✓ " if one["passed"] else "✗ ", one["decision"], id=one["id"] + "-title"),
            tag("ul", *(tag("li", failure) for failure in one["failures"])) if one["failures"] else None,
            class_="decision " + ("good" if one["passed"] else "bad"),
        ),
        _tally(one),
        _comparison_caveats(one),
        _incomplete(one),
    ]
    if one["rows"]:
        parts += [_comparison_filters(one), scroll(_compared_table(page, one), "Cells by importance")]
        parts.append(tag("div", *(figure(*chart) for chart in charts), class_="charts"))
    return tag("section", *parts, id=one["id"], class_="comparison", data_index=one["id"].split("-")[1], aria_labelledby=one["id"] + "-title")


def _tally(one):
    items = []
    for verdict, count in one["verdict_counts"].items():
        if count:
            items.append(tag("li", tag("b", count), " ", tag("span", verdict, class_=verdict_class(verdict))))
    if one["incomplete"]:
        items.append(tag("li", tag("b", len(one["incomplete"])), " ", tag("span", "without a result", class_="verdict-worse")))
    if one["skipped_count"]:
        items.append(tag("li", tag("b", one["skipped_count"]), " skipped in both"))
    return tag("ul", *items, class_="tally", aria_label="Cells by verdict")


def _comparison_caveats(one):
    judged = one["calibrated"] or one["interleaved"]
    if judged and not one["notes"] and not one["environment"]:
        return None
    items = [] if judged else ["Without a calibration no timed difference is called better or worse, unless the policy says so."]
    items += one["notes"]
    items += [f"{name} differs: {before} in BASE, {after} in NEW" for name, before, after in one["environment"]]
    listed = tag("ul", *(tag("li", item) for item in items))
    return tag("details", tag("summary", "Before you use these verdicts"), listed, class_="caveats", open=not one["passed"])


def _incomplete(one):
    if not one["incomplete"]:
        return None
    items = []
    for cell in one["incomplete"][:20]:
        where = tag("small", f"{cell['workload']} · {cell['capacity']}")
        items.append(tag("li", setting(cell["allocator"], cell["conf"]), " ", where, " ", cell["reason"]))
    if len(one["incomplete"]) > 20:
        items.append(tag("li", f"and {len(one['incomplete']) - 20} more"))
    return join([tag("h3", "Without a result"), tag("ul", *items, class_="incomplete")])


def _comparison_filters(one):
    differs = one["verdict_counts"]["same"] != len(one["rows"])
    options = [tag("option", "all", value=""), tag("option", "not the same", value="differs", selected=differs)]
    options += [tag("option", verdict) for verdict in VERDICTS if one["verdict_counts"].get(verdict)]
    text = tag("input", class_="k-text", type="search", placeholder="workload, allocator, config string or number", autocomplete="off")
    return tag(
        "form",
        tag("label", "Filter ", text, class_="grow"),
        tag("label", "Verdict ", tag("select", *options, class_="k-verdict")),
        tag("output", class_="k-count", aria_live="polite"),
        class_="filters",
        role="search",
        aria_label="Filter the comparison",
    )


def _compared_table(page, one):
    heads = ("verdict", "cell", "number", "BASE → NEW", join(["change ", tag("small", "95 % interval")]), "also")
    head = tag("thead", tag("tr", *(tag("th", words, scope="col") for words in heads)))
    return tag("table", head, tag("tbody", *(_compared_row(page, row) for row in one["rows"])), class_="compared")


def _compared_row(page, row):
    key, now, main = row["key"], row["now"], row["main"]
    words = (key["workload"], key["capacity"], key["allocator"], key["conf"] or "unset", now["allocator"], now["conf"] or "unset", main["name"] if main else "")
    letter = tag("button", page.letters.get(setting_of(now), "·"), type="button", class_="letter numbers",
                 aria_label=f"All numbers of {key['allocator']} {key['conf'] or 'unset'}")
    before = join([setting(key["allocator"], key["conf"]), " → "]) if now["cell_id"] != key["cell_id"] else None
    where = f"{key['workload']} · {key['capacity']}"
    where = tag("small", tag("a", where, href="#c-" + now["cell_id"]) if now["cell_id"] in page.by_id else where)
    parts = [tag("td", row["verdict"], class_="judged " + verdict_class(row["verdict"])),
             tag("th", letter, " ", before, setting(now["allocator"], now["conf"]), " ", where, scope="row")]
    if main:
        long = len(main["before"]) > 14
        values = f"{main['before'][:6]}… → {main['after'][:6]}…" if long else f"{main['before']} → {main['after']}"
        name = tag("a", main["name"], class_="plain", href="#" + main["anchor"]) if main["anchor"] in page.anchors else main["name"]
        why = join([tag("small", " " + main["interval"]) if main["interval"] else None,
                    tag("small", " " + main["reason"], class_="why") if main["reason"] else None])
        parts += [tag("td", name, None if main["gated"] else tag("small", " does not decide")), tag("td", values, class_="number"),
                  tag("td", main["change"], why, class_="number")]
    else:
        parts.append(tag("td", row["reason"] or "-", colspan="3"))
    also = [tag("span", f"{other['name']} {other['change'] or other['verdict']}", class_="cost " + verdict_class(other["verdict"])) for other in row["others"]]
    if row["more_count"]:
        also.append(tag("span", f"and {row['more_count']} more", class_="none"))
    if row["flags"]:
        also.append(tag("span", "⚠", class_="warn", title="\n".join(row["flags"])))
    parts.append(tag("td", join(also, " "), class_="also"))
    return tag("tr", *parts, data_cell=key["cell_id"], data_verdict=row["verdict"], data_words=" ".join(words).lower())
