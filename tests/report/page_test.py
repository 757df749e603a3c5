"""What stands in the page, without a browser: answers, links to definitions, escaping, size and time of a large one."""

import json
import re
from html.parser import HTMLParser

import columns
import conftest
import definitions
import experiments
import generate
import load
from page import render_page

VOID = {"meta", "link", "input", "br", "wbr", "img", "hr", "col"}


class Outline(HTMLParser):
    """Ids, links, elements and text of a page; notes tags that do not close."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.tags, self.open, self.errors, self.attributes = [], [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.errors.append(tag)


def without_scripts(text):
    return re.sub(r"<script.*?</script>", "", text, flags=re.S)


def test_every_link_leads_to_something_in_the_page(golden_page):
    outline = Outline(golden_page.read_text())
    assert not outline.errors and not outline.open
    assert len(outline.ids) == len(set(outline.ids))
    missing = {link for link in outline.links if link.startswith("#") and link[1:] not in outline.ids}
    assert not missing
    outside = [link for link in outline.links if not link.startswith("#")]
    assert not outside


def test_every_column_and_every_field_is_defined(golden_page):
    outline = Outline(golden_page.read_text())
    from columns import COLUMNS

    for column in COLUMNS:
        assert definitions.anchor_of(column.field) in outline.ids, column.field
    schema = json.loads(load.results_file("schema.json").read_text())
    for name in schema["$defs"]["cell"]["required"]:
        assert definitions.anchor_of(name) in outline.ids, name


def test_hostile_names_become_text_only(golden_page):
    text = golden_page.read_text()
    outline = Outline(text)
    assert outline.tags.count("script") == 3
    assert "img" not in outline.tags
    assert not [name for name in outline.attributes if name.startswith("on")]
    assert "window.broken = 1</script>" not in text
    assert "&lt;script&gt;window.broken" in text
    assert "{{7*7}}" in text
    # In a script element even '<!--' would change how the rest of the page is read.
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, flags=re.S)[1]
    assert not set("<>&") & set(data)
    assert conftest.HOSTILE in {value for cell in json.loads(data)["cells"] for value in cell["warnings"]}


def test_nothing_is_taken_from_elsewhere(golden_page):
    text = without_scripts(golden_page.read_text())
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:,)""", text)
    assert "@import" not in text and "url(" not in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text


def test_the_answer_is_that_of_report_md(tmp_path):
    """Every ratio and sentence that the C++ report gives for the golden run is found among the facts of the page, and no others."""
    golden = (generate.GOLDEN.parent / "report.md").read_text().replace("\\~", "~")
    answers = [line for line in golden.splitlines() if line.startswith("`caching` unset")]
    assert "1 of 6000 requests failed" in answers[0]
    lines = generate.read_with_facts(generate.write_folder(tmp_path, generate.golden_lines())).cells
    facts = experiments.answer_of([cell for cell in lines if cell["workload"] == "gpt2_train_amp"])
    assert facts["baseline_failed"] and experiments.failures_of(facts["baseline"]) == "12 of 6,000 requests failed"
    from columns import format_ratio

    for cell in facts["without_oom"]:
        said = ", ".join(
            f"{cost['name']} {'' if cost['enough'] else '~'}{format_ratio(cost['ratio'])}{'' if cost['apart'] else '?'}"
            for cost in experiments.costs_of(cell, facts["baseline"])
        )
        assert f"({said})" in answers[0], said
    names = [cell["conf"] or cell["allocator"] for cell in facts["without_oom"]]
    places = [answers[0].index(name, answers[0].index("No OOM:")) for name in names]
    assert places == sorted(places)


def test_scores_count_what_the_experiments_say(tmp_path):
    run = generate.read_with_facts(generate.write_folder(tmp_path, generate.make_lines(90)))
    parts, letters = experiments.prepare(run)
    scores = experiments.score_settings(parts, letters)
    assert next(iter(letters.items())) == (("caching", ""), "A")
    assert letters[("caching", "max_split_size_mb:32")] < letters[("caching", "max_split_size_mb:128")]
    assert ("null", "") not in scores
    failed = [part for part in parts if part["answer"]["baseline_failed"]]
    score = scores[("caching", "max_split_size_mb:32")]
    assert score["count"] == 10 and score["rescuable"] == len(failed) > 0
    ok = [cell for cell in run.cells if cell["conf"] == "max_split_size_mb:32" and cell["oom_count"] == 0]
    assert score["without_oom"] == len(ok)
    assert experiments.headline_of(parts, scores)["failed_count"] == len(failed)


def test_one_cell_and_no_baseline_make_a_page(tmp_path):
    for cell in generate.golden_lines()[1:]:
        run = generate.read_with_facts(generate.write_folder(tmp_path, [generate.golden_lines()[0], cell]))
        assert cell["cell_id"] in render_page(run)


def test_braces_expand_as_the_readme_means_them():
    assert definitions.expand_braces("{a,b}_{,c_}d") == ["a_d", "a_c_d", "b_d", "b_c_d"]
    html, anchors = definitions.render_definitions("# T\n\n| f | m |\n| :- | :- |\n| `x_{p,q}` | <b>raw</b> |\n")
    assert anchors == {"def-x_p", "def-x_q"} and "&lt;b&gt;" in html and 'id="def-x_q"' in html


def test_a_thousand_cells_stay_below_fifteen_megabytes(large_page):
    assert large_page.stat().st_size < 15e6


def test_the_page_is_written_whole_or_not_at_all(tmp_path):
    folder = generate.write_folder(tmp_path, generate.make_lines(3))
    (folder / "report.html").mkdir()
    done = generate.run_program("report", folder)
    assert done.returncode == 4 and "cannot write" in done.stderr
    assert not list(folder.glob("*.part"))


def test_too_many_timelines_are_left_out_and_told(tmp_path, monkeypatch):
    import page
    import timelines

    monkeypatch.setattr(timelines, "CHARACTERS_MAX", 40000)
    lines = generate.make_lines(9)
    folder = generate.write_folder(tmp_path, lines, [generate.make_timeline(line["cell_id"]) for line in lines[1:]])
    assert re.search(r"\d timelines were left out", page.render_page(generate.read_with_facts(folder)))


def test_hostile_is_hostile():
    assert "<script>" in conftest.HOSTILE


def test_a_quantile_says_where_a_second_measurement_is_expected():
    cell = {"status": "ok", "allocate_latency_ns_p50": 2000.0, "allocate_latency_ns_p50_repeat_low": 1900.0, "allocate_latency_ns_p50_repeat_high": 2200.0}
    cell = {**{column.field: None for column in columns.COLUMNS}, **cell}
    titles = {heading["column"].field: columns.cell_title(cell, heading) for heading in columns.make_headings([cell])}
    assert titles["allocate_latency_ns_p50"] == "measured again: 1.90 to 2.20 us expected (95 %)"
    assert not any(text for field, text in titles.items() if field != "allocate_latency_ns_p50")
