"""report.md and table.csv of results with hostile names, read by other people's parsers: Markdown with raw HTML allowed holds none, its
tables are whole, and the CSV has a row per cell with the stored values."""

import csv

import pytest

import conftest
import generate

markdown_it = pytest.importorskip("markdown_it", reason="markdown-it-py is not installed (tests/scripts/report/install.sh)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = generate.write_folder(tmp_path_factory.mktemp("texts"), conftest.hostile_lines())
    generate.make_report(folder, "--no-html")
    return folder


def test_markdown_holds_no_html_and_whole_tables(folder):
    tokens = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").parse((folder / "report.md").read_text())
    everything = [inner for token in tokens for inner in [token, *(token.children or [])]]
    assert not [token.content for token in everything if token.type in ("html_block", "html_inline", "image")]
    assert not [token.attrGet("href") for token in everything if token.type == "link_open" and not token.attrGet("href").startswith(("#", "http"))]
    widths, tables = [], 0
    for token in tokens:
        tables += token.type == "table_open"
        if token.type == "tr_open":
            widths.append(0)
        widths[-1:] = [widths[-1] + 1] if token.type in ("th_open", "td_open") else widths[-1:]
        if token.type == "table_close":
            assert len(set(widths)) == 1 and len(widths) > 1
            widths = []
    assert tables >= 3
    assert any(token.type == "code_inline" and "window.broken" in token.content for token in everything)


def test_markdown_turns_no_text_around(folder):
    shown = (folder / "report.md").read_text()
    assert not set(shown) & set(conftest.TURNS)


def without_controls(value):
    """As CSV shows a name, since it has no escapes: control characters as in C."""
    return "".join(repr(letter)[1:-1] if letter < " " else letter for letter in value)


def test_csv_has_a_row_per_cell_with_its_values(folder):
    with (folder / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["cell_id"]: row for row in csv.DictReader(file, strict=True)}
    cells = {line["cell_id"]: line for line in conftest.hostile_lines()[1:]}
    assert rows.keys() == cells.keys()
    for cell_id, cell in cells.items():
        row = rows[cell_id]
        assert None not in row and None not in row.values()
        for name, value in cell.items():
            if isinstance(value, str) and name in row:
                assert row[name] == without_controls(value), name
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                assert float(row[name]) == pytest.approx(value, rel=1e-12), name
