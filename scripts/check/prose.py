#!/usr/bin/env python3
"""Holds the pages to the rules of prose. Prints file:line and the rule for: a line that is too long, a sentence that is too
long, a page that is too long, a sentence whose form makes a reader go back, a link or a named section that leads nowhere, and what
codespell takes for a slip.

Looks at every .md file but published results and goldens, which programs write. Sections that code names, as in
`workloads/TRACES.md, "Trace summary"`, are looked up too.

Prose and code wrap at 100 columns; a line with a link may have 160, a line of a block of code 140, a row of a table 1200. A
sentence has at most 25 words; a span of code counts as one. Where a paragraph needs more, the line before it gives the reason:
<!-- prose: long, REASON -->.

scripts/check/prose.py [--root DIR] [PAGE...]   checks all pages, or those named; exit code 1 where a rule is broken
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = ("results/published/", "tests/results/golden/")  # written by programs
COLUMNS_MAX, LINK_COLUMNS_MAX, CODE_COLUMNS_MAX, ROW_COLUMNS_MAX = 100, 160, 140, 1200
WORDS_MAX = 25
README_LINES_MAX, ROOM_LINES_MAX = 120, 60
SECTION_NAMED_IN = (".md", ".cc", ".h", ".cu", ".py", ".sh", ".txt", ".cmake")
WORDS_OF_THE_FIELD = "ser,fo,ans,mis,claus,implementors,re-use"  # codespell takes these for slips
HARD_FORMS = tuple(
    (re.compile(form), better)
    for form, better in (
        (r"\b(?:is|are|was|were) none\b", "say what is missing, as in 'a cell without results'"),
        (r"^Of \w+ \w+", "begin with the subject: not 'Of those, A is', but 'A of those is'"),
        (r"^(?:So|Nor|Neither) (?:is|are|was|were|do|does|did|has|have|can|may|must)\b", "repeat the verb: 'B does so, too'"),
        (r"^Who(?:ever)? \w+s\b", "name who it is"),
        (r"\b(?:hold|holds|held|holding) (?:[^.\s]+ ){0,8}against\b", "say 'compare with' or 'check by'"),
        (r"\b[Uu]ntil 20\d\d-", "history belongs in CHANGELOG.md or results/published/history"),
    )
)
EXCEPTION = re.compile(r"<!-- prose: long, \S.* -->")


def tracked(root):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True)
    return [name for name in names.stdout.splitlines() if (root / name).is_file() and not name.startswith(LEFT_OUT)]


def blocks(text):
    """(first line's number, kind, lines): prose, list items, tables, headings and code of a page, in order."""
    found, kind, begin, lines, fenced = [], None, 0, [], False

    def close():
        nonlocal kind, lines
        if lines:
            found.append((begin, kind, lines))
        kind, lines = None, []

    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            close()
            fenced = not fenced
            continue
        listed = re.match(r"\s*([-*]|\d+\.)\s", line)
        if fenced or (line.startswith("    ") and kind != "prose" and not listed):
            new = "code"
        elif not line.strip():
            close()
            continue
        elif line.startswith("|"):
            new = "table"
        elif line.startswith("#"):
            new = "heading"
        elif line.startswith("<!--"):
            new = "remark"
        else:
            new = "prose"
        if new != kind or listed or new in ("heading", "remark"):
            close()
            kind, begin = new, number
        lines.append(line)
    close()
    return found


def sentences(text):
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", "LINK", text)
    text = re.sub(r"^\s*([-*]|\d+\.)\s+", "", text).replace("*", "")
    # The colon before a list or an example ends a sentence; so do a sentence's own signs, also before a bracket closes.
    return re.split(r"(?<=[.!?:])[\"')]*\s+(?=[^a-z\d\s]|$)|:\s+", text)


def long_sentences(page, text):
    before = None
    for begin, kind, lines in blocks(text):
        excused = before and before[1] == "remark" and EXCEPTION.match(before[2][0])
        before = (begin, kind, lines)
        if kind != "prose" or excused:
            continue
        for sentence in sentences(" ".join(line.strip() for line in lines)):
            words = re.findall(r"[^\s]*\w[^\s]*", sentence)
            is_list = set(words) <= {"CODE", "CODE,", "CODE.", "and"}  # of rooms, which rooms.py writes
            if len(words) > WORDS_MAX and not is_list:
                yield f"{page}:{begin}: a sentence of {len(words)} words, at most {WORDS_MAX}: {' '.join(words[:8])} ..."


def hard_sentences(page, text):
    """Forms that make a reader go back: a subject at the end, a verb far from its object, history in a reference page."""
    for begin, kind, lines in blocks(text):
        if kind != "prose":
            continue
        for sentence in sentences(" ".join(line.strip() for line in lines)):
            for form, better in HARD_FORMS:
                if form.search(sentence) and not (page == "CHANGELOG.md" and "history" in better):
                    yield f"{page}:{begin}: '{form.search(sentence)[0]}': {better}"


def long_lines(page, text):
    most = {"code": CODE_COLUMNS_MAX, "table": ROW_COLUMNS_MAX}
    for begin, kind, lines in blocks(text):
        for number, line in enumerate(lines, begin):
            limit = most.get(kind, LINK_COLUMNS_MAX if "](" in line or "http" in line else COLUMNS_MAX)
            if len(line) > limit:
                yield f"{page}:{number}: {len(line)} columns, at most {limit} ({kind or 'prose'})"


def long_page(page, text):
    limit = README_LINES_MAX if page == "README.md" else ROOM_LINES_MAX if page.endswith("/README.md") else None
    # What rooms.py writes is not the author's to shorten.
    count = len(re.sub(r"^## May include\n.*?(?=^## |\Z)", "", text, flags=re.S | re.M).splitlines())
    if limit and count > limit:
        yield f"{page}:{limit + 1}: {count} lines, at most {limit}; move reference into a page of its own"


def anchor(title):
    return re.sub(r"[^\w\- ]", "", re.sub(r"`|\*", "", title).lower()).replace(" ", "-")


def titles(path):
    return [lines[0].lstrip("# ").strip() for _, kind, lines in blocks(path.read_text()) if kind == "heading"]


def dead_links(root, page, text):
    for begin, kind, lines in blocks(text):
        if kind == "code":
            continue
        for number, line in enumerate(lines, begin):
            for target in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, section = target.partition("#")
                path = (root / page).parent / name if name else root / page
                if not path.exists():
                    yield f"{page}:{number}: the link to {target} leads nowhere"
                elif section and section not in [anchor(title) for title in titles(path)]:
                    yield f"{page}:{number}: {name or page} has no section #{section}"


def dead_sections(root, name):
    """Sections named by page and title: the page lies beside the file, or at the path from the root."""
    try:
        text = (root / name).read_text()
    except UnicodeDecodeError:
        return
    plain = re.sub(r"\n\s*(//|#)?\s*", " ", text) if not name.endswith(".md") else re.sub(r"\s*\n\s*", " ", text)
    for page, title in re.findall(r"([\w./-]+\.md)[)`]*,? \\?\"([^\"\\]{2,})\\?\"", plain):
        paths = [path for path in (root / page, (root / name).parent / page) if path.is_file()]
        if not paths:
            yield f"{name}:1: names {page}, which does not exist"
        elif not any(title.strip(".,") in [found.replace("`", "") for found in titles(path)] + titles(path) for path in paths):
            yield f'{name}:1: {page} has no section "{title}"'


def misspelled(root, pages):
    if not shutil.which("codespell"):
        print("prose: spelling not checked, codespell is not installed (Debian: apt-get install codespell)")
        return
    command = ["codespell", "--ignore-words-list", WORDS_OF_THE_FIELD, *pages]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True)
    yield from answer.stdout.splitlines()


def check(root, named):
    names = tracked(root)
    pages = named or [name for name in names if name.endswith(".md")]
    for page in pages:
        text = (root / page).read_text()
        for rule in (long_page, long_lines, long_sentences, hard_sentences):
            yield from rule(page, text)
        yield from dead_links(root, page, text)
    for name in named or names:
        if name.endswith(SECTION_NAMED_IN):
            yield from dead_sections(root, name)
    yield from misspelled(root, pages)


def main(argv=None):
    parser = argparse.ArgumentParser(description="Hold the pages to the rules of prose.")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout [the one of this script]")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="pages to check, from the root [all]")
    arguments = parser.parse_args(argv)
    broken = list(check(arguments.root, arguments.pages))
    for line in broken:
        print(line, file=sys.stderr)
    print(f"prose: {len(broken)} rules broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
