"""LaTeX tables: structure, and that no name becomes a command. Compiled where pdflatex is there."""

import shutil
import subprocess

import pytest

import conftest
import generate
import latex


def make_tables(tmp_path):
    lines = generate.make_lines(18)
    lines[1].update(workload=conftest.HOSTILE + r"\input{/etc/passwd}%$&#_^~" + "\x1b", conf="a:1,b:[2:3]")
    folder = generate.write_folder(tmp_path, lines)
    generate.make_report(folder, "--no-html", "--latex", tmp_path / "t.tex")
    return (tmp_path / "t.tex").read_text()


def test_special_characters_are_escaped():
    assert latex.escape(r"\input{x}") == r"\textbackslash{}input\{x\}"
    assert latex.escape("50% & #1_$ ~^") == r"50\% \& \#1\_\$ \textasciitilde{}\textasciicircum{}"
    assert "\x1b" not in latex.escape("\x1b[31m")


def test_one_table_per_experiment(tmp_path):
    text = make_tables(tmp_path)
    # 18 cells are two experiments, and the renamed cell is a third.
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 3
    assert r"\input" not in text.replace(r"to \input", "")
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and " & " in line and "multicolumn" not in line]
    columns = {1 + len(line.split("} ")[-1].rstrip("}")) for line in text.splitlines() if line.startswith(r"\begin{tabular}")}
    assert {line.count(" & ") for line in rows} == columns


def test_values_are_those_of_the_other_tables(tmp_path):
    run = generate.read_with_facts(generate.write_folder(tmp_path, generate.golden_lines()))
    headings = [(one["group"], one["name"]) for one in run.columns["headings"]]
    values = run.columns["rows"][next(cell["cell_id"] for cell in run.cells if cell["status"] == "ok")]
    shown = [latex.escape(value) for heading, value in zip(headings, values, strict=True) if heading in latex.SHOWN]
    assert len(shown) > 6 and " & ".join(shown) + r" \\" in latex.render_latex(run)


def test_a_page_is_not_made_when_only_latex_is_asked_for(tmp_path):
    make_tables(tmp_path)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_tables_compile(tmp_path):
    make_tables(tmp_path)
    (tmp_path / "a.tex").write_text("\\documentclass{article}\\usepackage{booktabs}\\usepackage[T1]{fontenc}\\begin{document}\\input{t}\\end{document}")
    subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"], cwd=tmp_path, check=True, capture_output=True)


def test_golden_results_make_tables(tmp_path):
    run = generate.read_with_facts(generate.write_folder(tmp_path, generate.golden_lines()))
    assert latex.render_latex(run).count(r"\toprule") == 3
