"""What stands in the page, without a browser: answers, links to definitions, escaping, size and time of a large one."""

import html
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import columns
import conftest
import definitions
import experiments
import facts
import generate
import load
import markdown
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


def test_every_column_and_every_field_is_defined(golden_page, tmp_path):
    outline = Outline(golden_page.read_text())
    run = generate.read_with_facts(generate.write_folder(tmp_path, generate.golden_lines()))
    for heading in run.columns["headings"]:
        assert definitions.anchor_of(columns.field_of(heading)) in outline.ids, heading
    schema = json.loads(load.results_file("schema.json").read_text())
    for name in schema["$defs"]["cell"]["required"]:
        assert definitions.anchor_of(name) in outline.ids, name


def test_readers_get_words_for_what_is_stored_under_a_name(tmp_path):
    lines = generate.golden_lines()
    for line in lines:
        if line["kind"] == "cell" and line.get("oom_count"):
            line.update({f"oom_count_{cause}": line["oom_count"] * (cause == "stranded") for cause in facts.CAUSES})
            line["oom_first"] = {**line["oom_first"], "cause": "stranded"} if line["oom_first"] else None
    folder = generate.write_folder(tmp_path, lines)
    generate.make_report(folder)
    page = without_scripts((folder / "report.html").read_text())
    shown, _, definitions_section = page.partition('id="definitions"')
    assert definitions_section
    assert "kept for other streams" in shown and "stranded" not in shown
    facts_of_run = re.findall(r'<th scope="?row"?>(.*?)</th>', shown.partition("Where it ran")[2])
    assert len(facts_of_run) > 10 and not [name for name in facts_of_run if "_" in re.sub("<.*?>", "", name)]
    # The page and report.md have the same words.
    report = (folder / "report.md").read_text()
    assert not [words for words in facts.CAUSE_WORDS.values() if f"| {words} (n) |" not in report]


def test_hostile_names_become_text_only(golden_page):
    text = golden_page.read_text()
    outline = Outline(text)
    assert outline.tags.count("script") == 2
    assert "img" not in outline.tags
    assert not [name for name in outline.attributes if name.startswith("on")]
    assert "window.broken = 1</script>" not in text
    assert "&lt;script&gt;window.broken" in text
    assert "{{7*7}}" in text
    # In a script element even '<!--' would change how the rest of the page is read.
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, flags=re.S)[1]
    assert not set("<>&") & set(data)
    assert conftest.HOSTILE + conftest.TURNS in {value for cell in json.loads(data)["cells"] for value in cell["warnings"]}


def test_nothing_is_taken_from_elsewhere(golden_page):
    text = without_scripts(golden_page.read_text())
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:,)""", text)
    assert "@import" not in text and "url(" not in text
    assert "default-src &#x27;none&#x27;" in text


def text_of(markup):
    """What a reader sees, blanks in one."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


def test_the_answer_is_that_of_report_md(tmp_path):
    """Every line of the program's answer stands on the page as it stands in report.md."""
    folder = generate.write_folder(tmp_path, generate.golden_lines())
    generate.make_report(folder)
    page = text_of(without_scripts((folder / "report.html").read_text()))
    report = re.sub(r"\\([^\w\s])", r"\1", (folder / "report.md").read_text()).replace("`", "")
    answer = next(one for one in generate.read_with_facts(folder).answers["experiments"] if one["verdict"] == "rescued")
    assert answer["paste"] == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in page
    assert answer["sentence"] in page and answer["sentence"] in report
    costs = [one["text"] for one in answer["settable"] + answer["others"]]
    assert len(costs) == 3 and all(one in page and one in report for one in costs)
    assert [page.index(one) for one in costs] == sorted(page.index(one) for one in costs)
    settings = ("caching expandable_segments:True", "caching max_split_size_mb:128", "native unset")
    wanted = [f"- {name}: {cost}" for name, cost in zip(settings, costs)]
    assert [line for line in answer["lines"] if line.startswith("- ")] == wanted


def test_units_and_values_are_those_of_report_md(tmp_path):
    folder = generate.write_folder(tmp_path, generate.golden_lines())
    generate.make_report(folder)
    report = (folder / "report.md").read_text()
    outline = (folder / "report.html").read_text()
    run = generate.read_with_facts(folder)
    for heading in run.columns["headings"]:
        name = f"{heading['group']} {heading['name']}".strip()
        assert (f"{name} ({heading['unit']})" if heading["unit"] else name) in report
        assert f"<small>{heading['unit']}</small>" in outline
    cell = next(cell for cell in run.cells if cell["conf"] == "max_split_size_mb:128" and cell["status"] == "ok")
    row = next(line for line in report.splitlines() if line.startswith("| `caching` | `max_split_size_mb:128` | ok"))
    values = run.columns["rows"][cell["cell_id"]]
    assert [one.strip() for one in row.split("|")[3:-1]] == list(values[: row.count("|") - 3])
    shown = re.search(rf'<tr id="c-{cell["cell_id"]}".*?</tr>', outline, flags=re.S)[0]
    assert all(f">{value}</td>" in shown for value in values)


def test_an_impossible_job_is_told_so_on_the_page(tmp_path):
    lines = generate.golden_lines()[:1] + generate.make_lines(2)[1:]
    for line in lines[1:]:
        line.update(capacity="24GiB", capacity_bytes=24 << 30, requested_bytes_peak=36 << 30, oom_count=7, oom_count_fragmentation=7,
                    trial_oom_count=line["trial_count"])
    folder = generate.write_folder(tmp_path, lines)
    said = generate.make_report(folder)
    assert said.splitlines()[-1].endswith("needs 36.0 GiB live, 24.0 GiB are there: no setting can help; 12.0 GiB must go.")
    assert "no setting can help; 12.0 GiB must go" in re.search(r"<h1.*?</h1>", (folder / "report.html").read_text())[0]


def test_scores_count_what_the_experiments_say(tmp_path):
    run = generate.read_with_facts(generate.write_folder(tmp_path, generate.make_lines(90)))
    parts, letters = experiments.prepare(run)
    scores = experiments.score_settings(run, parts, letters)
    assert next(iter(letters.items())) == (("caching", ""), "A")
    assert letters[("caching", "max_split_size_mb:32")] < letters[("caching", "max_split_size_mb:128")]
    assert ("null", "") not in scores
    failed = [part for part in parts if next(cell for cell in part["cells"] if (cell["allocator"], cell["conf"]) == ("caching", ""))["oom_count"]]
    score = scores[("caching", "max_split_size_mb:32")]
    assert score["count"] == 10 and score["rescuable"] == len(failed) > 0
    ok = [cell for cell in run.cells if cell["conf"] == "max_split_size_mb:32" and cell["oom_count"] == 0]
    assert score["served"] == len(ok)


def test_one_cell_and_no_baseline_make_a_page(tmp_path):
    for cell in generate.golden_lines()[1:]:
        run = generate.read_with_facts(generate.write_folder(tmp_path, [generate.golden_lines()[0], cell]))
        assert cell["cell_id"] in render_page(run)


def test_braces_expand_as_the_readme_means_them():
    assert definitions.expand_braces("{a,b}_{,c_}d") == ["a_d", "a_c_d", "b_d", "b_c_d"]
    markup, anchors = definitions.render_definitions("# T\n\n| f | m |\n| :- | :- |\n| `x_{p,q}` | <b>raw</b> |\n")
    assert anchors == {"def-x_p", "def-x_q"} and "&lt;b&gt;" in markup and 'id="def-x_q"' in markup


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
    cell = {"allocate_latency_ns_p50_repeat_low": 1900.0, "allocate_latency_ns_p50_repeat_high": 2200.0}
    assert columns.cell_title(cell, "allocate_latency_ns_p50") == "measured again: 1.9 to 2.2 us expected (95 %)"
    assert columns.cell_title(cell, "allocate_latency_ns_p99") == ""


def test_bytes_are_written_as_the_program_writes_them():
    assert [columns.format_bytes(value) for value in (512, 1536, 96 << 20, 139 << 30)] == ["512 B", "1.50 KiB", "96.0 MiB", "139 GiB"]


def test_markdown_keeps_pipes_code_and_lists():
    blocks = list(markdown.blocks_of("# T\n\n| a | b |\n| :- | - |\n| `x\\|y` | z |\n\n- one\n  more\n- two\n\ntext *it* **bo**\n\n```\ncode <\n```\n"))
    assert [kind for kind, _ in blocks] == ["heading", "table", "list", "paragraph", "code"]
    assert blocks[1][1] == (["a", "b"], [["`x|y`", "z"]])
    assert blocks[2][1] == [[False, "one more"], [False, "two"]]
    made = markdown.inline("*it* **bo** `<c>` [x](y.md) [z](#t)", {"about-t"})
    assert made == '<em>it</em> <strong>bo</strong> <code>&lt;c&gt;</code> x <a href="#about-t">z</a>'


def test_the_page_needs_no_package(tmp_path):
    """-I and -S: no environment, no site-packages."""
    folder = generate.write_folder(tmp_path, generate.golden_lines())
    facts = generate.run_program("report", folder, "--format", "facts").stdout
    script = generate.ROOT / "scripts" / "report" / "report.py"
    done = subprocess.run([sys.executable, "-I", "-S", "-B", script, "--facts", "-", folder], input=facts, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (folder / "report.html").stat().st_size > 50_000
