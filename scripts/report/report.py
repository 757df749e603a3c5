#!/usr/bin/env python3
"""Makes report.html, LaTeX tables and SVG charts from a results folder. `allocmark report DIR` calls it and hands over what it computed
(`allocmark report DIR --format facts` prints that). Exit codes are allocmark's: 2 for a bad command line, 4 for files that cannot be read or
written."""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from charts import render_charts  # noqa: E402
from facts import attach, read_facts  # noqa: E402
from latex import render_latex  # noqa: E402
from load import ReportError, read_run  # noqa: E402
from output_file import write_file  # noqa: E402
from page import render_page  # noqa: E402
from parent import end_with_parent  # noqa: E402


def _arguments(argv):
    parser = argparse.ArgumentParser(prog="report.py", description="Make report.html from a folder that 'allocmark run' wrote.")
    parser.add_argument("folder", help="the results folder")
    parser.add_argument("--facts", metavar="FILE", required=True, help="what 'allocmark report FOLDER --format facts' prints; - is stdin")
    parser.add_argument("--html", metavar="FILE", help="where the page goes [FOLDER/report.html]")
    parser.add_argument("--latex", metavar="FILE", help="write LaTeX tables there as well")
    parser.add_argument("--svg", metavar="DIR", help="write the charts as SVG files there as well")
    parser.add_argument("--no-html", action="store_true", help="do not make the page")
    return parser.parse_args(argv)


def _write(path, text):
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise SystemExit(_fail(f"cannot write {path}: {error.strerror}")) from None


def _write_charts(folder, charts):
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(_fail(f"cannot make {folder}: {error.strerror}")) from None
    for name, svg in charts:
        _write(Path(folder) / name, svg)
    print(f"charts: {len(charts)} in {folder}")


def _text_of(path):
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"cannot read {path}: {error}") from None


def _fail(text):
    print(f"error: {text}", file=sys.stderr)
    return 4


def main(argv=None):
    arguments = _arguments(argv)
    try:
        facts = read_facts(_text_of(arguments.facts), arguments.facts)
        run = read_run(arguments.folder, facts)
        attach(run, facts)
        if arguments.latex:
            _write(arguments.latex, render_latex(run))
            print(f"latex: {arguments.latex}")
        if arguments.svg:
            _write_charts(arguments.svg, render_charts(run))
        if not arguments.no_html:
            return _make_page(run, arguments)
    except ReportError as error:
        return _fail(str(error))
    return 0


def _make_page(run, arguments):
    page = Path(arguments.html or Path(arguments.folder) / "report.html")
    _write(page, render_page(run))
    print(f"page: {page}")
    return 0


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main())
