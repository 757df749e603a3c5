#!/usr/bin/env python3
"""Runs the traces of workloads/scenarios/bugs on every release of an allocator that is there, and says which of them show the bug.

scripts/measure/bug_museum.py ALLOCMARK               writes the table in workloads/scenarios/bugs/README.md
scripts/measure/bug_museum.py --check ALLOCMARK       changes nothing; exit code 1 where an answer is not what the table says

A trace is a program of 'allocmark parity --live'. Its head says what is wrong, where it is known from, and "shown by": conditions
joined by "and", each with "not" before it or without. STEP counts the rows from 0, without capacity and the first conf.
  oom STEP                       the request of that step fails
  placed STEP                    it is served
  place STEP is place STEP       both lie at the same address
  text STEP has WORDS            the out-of-memory text of that step holds the words
  accepted                       no config string is refused
  given back a piece             PyTorch was about to free a piece of a segment (or did, and failed)
  COUNTER > N, COUNTER < N       at the end
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "workloads/scenarios/bugs"
TABLE = re.compile(r"(<!-- made by scripts/measure/bug_museum\.py -->\n).*?(<!-- end -->)", re.S)
CONDITION = re.compile(
    r"(?P<not>not )?(?:(?P<kind>oom|placed) (?P<step>\d+)|place (?P<first>\d+) is (?P<other>not )?place (?P<second>\d+)|text (?P<of>\d+) has (?P<words>.+)"
    r"|(?P<accepted>accepted)|(?P<piece>given back a piece)|(?P<counter>[\w.]+) (?P<sign>[<>]) (?P<bound>\d+))$")
PRESENT, ABSENT, UNKNOWN = "present", "-", "no such key"
REFUSED = ("Unrecognized key", "Unrecognized CachingAllocator option")
NEWER = "a config key is newer than the release"


class Bug:
    """One trace: its head and its conditions."""

    def __init__(self, path):
        self.path, self.name = path, path.stem
        head = [line[2:] for line in path.read_text().splitlines() if line.startswith("# ")]
        known = next(i for i, line in enumerate(head) if line.startswith("known as: "))
        self.what = " ".join(head[:known])
        self.known = head[known].removeprefix("known as: ")
        shown = next(line for line in head if line.startswith("shown by: ")).removeprefix("shown by: ")
        self.conditions = []
        for text in shown.split(" and "):
            found = CONDITION.match(text)
            if not found:
                sys.exit(f"bug_museum: {path}: this is no condition: '{text}'; see scripts/measure/bug_museum.py --help")
            self.conditions.append(found)

    def shown_by(self, answers):
        return all(answers.holds(condition) != bool(condition["not"]) for condition in self.conditions)


class Answers:
    """What an allocator answered: 'a STEP PLACE', 'm STEP TEXT', 'c STEP TEXT', 's STEP NAME=VALUE...', 'b' and 'e'."""

    def __init__(self, text):
        self.places, self.texts, self.counters, self.refusals, self.failed = {}, {}, {}, [], False
        for line in text.splitlines():
            letter, _, rest = line.partition(" ")
            step, _, words = rest.partition(" ")
            if letter == "a":
                self.places[step] = words
            elif letter == "m":
                self.texts[step] = words
            elif letter == "s":
                self.counters = {name: int(value) for name, value in (word.split("=") for word in words.split())}
            elif letter == "c":
                self.refusals.append(words)
            elif letter in ("b", "e", "end"):
                self.failed = True

    def holds(self, condition):
        if condition["kind"] == "oom":
            return self.places.get(condition["step"]) == "oom"
        if condition["kind"] == "placed":
            return self.places.get(condition["step"], "oom") != "oom"
        if condition["first"]:
            same = self.places.get(condition["first"]) == self.places.get(condition["second"], "")
            return same != bool(condition["other"])
        if condition["of"]:
            return condition["words"] in self.texts.get(condition["of"], "")
        if condition["accepted"]:
            return not self.refusals
        if condition["piece"]:
            return self.failed
        value, bound = self.counters.get(condition["counter"], 0), int(condition["bound"])
        return value > bound if condition["sign"] == ">" else value < bound


def allocators(program):
    """Every release that is there; a plugin that cannot run is left out."""
    listed = subprocess.run([program, "list", "allocators"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^ +((?:caching|torch)@[\d.]+) +(.*)$", listed, re.M)
    return [name for name, text in rows if "cannot run here" not in text]


def verdict(program, bug, allocator):
    ran = subprocess.run([program, "parity", "--live", str(bug.path), "--answers", allocator], capture_output=True, text=True, timeout=120)
    said = ran.stdout + ran.stderr
    if ran.returncode != 0:
        if NEWER in said or any(words in said for words in REFUSED):
            return UNKNOWN
        sys.exit(f"bug_museum: {allocator} does not run {bug.path.name}: {said.strip()}")
    answers = Answers(ran.stdout)
    if any(words in text for text in answers.refusals for words in REFUSED):
        return UNKNOWN
    return PRESENT if bug.shown_by(answers) else ABSENT


def minor(allocator):
    return tuple(int(number) for number in allocator.partition("@")[2].split(".")[:2])


def rows(program, bugs):
    """{bug: {minor: verdict}} of `caching`, and where a release of PyTorch itself says otherwise."""
    found, wrong = {}, []
    names = allocators(program)
    for bug in bugs:
        own = {minor(name): verdict(program, bug, name) for name in names if name.startswith("caching@")}
        for name in names:
            if name.startswith("torch@") and minor(name) in own:
                theirs = verdict(program, bug, name)
                if theirs != own[minor(name)]:
                    wrong.append(f"{bug.name}: {name} says {theirs}, caching says {own[minor(name)]}")
        found[bug] = own
    return found, wrong, [name for name in names if name.startswith("torch@")]


def table(found):
    releases = sorted({release for own in found.values() for release in own})
    lines = [f"| bug | {' | '.join(f'{major}.{number}' for major, number in releases)} |", "| --- |" + " --- |" * len(releases)]
    lines += [f"| [`{bug.name}`]({bug.path.name}) | {' | '.join(own[release] for release in releases)} |" for bug, own in found.items()]
    return "\n".join(lines) + "\n"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="a built allocmark")
    parser.add_argument("--check", action="store_true", help="change nothing, and say what differs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the traces and their README.md [the ones that ship]")
    arguments = parser.parse_args(argv)
    bugs = [Bug(path) for path in sorted(arguments.folder.glob("*.csv"))]
    found, wrong, originals = rows(arguments.program, bugs)
    page = arguments.folder / "README.md"
    text = page.read_text()
    made = TABLE.sub(lambda match: match.group(1) + table(found) + match.group(2), text)
    if made != text and arguments.check:
        wrong.append(f"{page}: the table is not what caching answers; run scripts/measure/bug_museum.py {arguments.program}")
    elif made != text:
        page.write_text(made)
    for line in wrong:
        print(f"bug_museum: {line}", file=sys.stderr)
    print(f"{len(bugs)} bugs, caching of {len(next(iter(found.values()), {}))} releases, originals: {', '.join(originals) or 'none is fetched'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
