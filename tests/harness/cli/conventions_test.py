#!/usr/bin/env python3
"""The conventions of harness/shell/CONVENTIONS.md, held against every command that `allocmark --help` names, and its table of exit codes.

Usage: conventions_test.py PATH_OF_ALLOCMARK PATH_OF_HARNESS_CLI
"""
import json
import re
import subprocess
import sys
from pathlib import Path

# A short letter stands for one long option, everywhere.
SHORT = {"-h": "--help", "-V": "--version", "-q": "--quiet", "-o": "--out", "-w": "--workload", "-a": "--allocator", "-c": "--conf",
         "-d": "--device", "-j": "--jobs"}
FORMATS = {"table", "markdown", "csv", "json", "jsonl", "junit", "github", "bencher", "facts"}
complaints = []


def call(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=False)


def expect(is_met, where, what):
    if not is_met:
        complaints.append(f"allocmark {where}: {what}")


def commands_in(text):
    part = re.search(r"^(?:Subcommands|Commands):\n((?:  .*\n)+)", text, re.M)
    return re.findall(r"^  ([a-z]\w*)", part.group(1), re.M) if part else []


def options_in(text):
    """Short letter, long name, what it takes and the description of every option."""
    return re.findall(r"^  (?:(-\w),)?(--[\w-]+)((?: \S+)?(?: [A-Z]\S*)*(?: \.\.\.)?)\s{2,}(.*)$", text, re.M)


def check_help(program, path):
    where = " ".join(path)
    text = call(program, *path, "--help")
    expect(text.returncode == 0 and text.stderr == "", where, "--help ends with 0 and says nothing on stderr")
    expect(text.stdout == call(program, *path, "-h").stdout, where, "-h is --help")
    if path:
        expect(text.stdout == call(program, "help", *path).stdout, where, "'help COMMAND' is --help")
        expect(text.stdout.splitlines()[0][0].isupper(), where, "help begins with a sentence")
    expect(f"Usage: allocmark {where}".strip() in text.stdout, where, "help shows the usage")
    leak = re.search(r"\{\w|\bUINT\b|\bINT\b|\bFLOAT\b|\bTEXT\b|NONNEGATIVE|REQUIRED| x 2", text.stdout)
    expect(leak is None, where, f"help leaks {leak and leak.group(0)}")
    return text.stdout


def check_options(where, text, is_leaf):
    options = options_in(text)
    names = [name for _, name, _, _ in options]
    expect(len(names) == len(set(names)), where, "an option stands twice")
    for short, name, takes, description in options:
        expect(description, where, f"{name} is described")
        expect(not short or SHORT.get(short) == name, where, f"{short} is {SHORT.get(short)}, not {name}")
        expect(re.fullmatch(r"--[a-z]+(-[a-z]+)*", name), where, f"{name} is lower case with dashes")
        if name == "--out":
            expect(takes.strip() in {"FILE", "DIR"}, where, "--out takes FILE or DIR")
            expect(short == "-o", where, "--out is -o, too")
        if name == "--format":
            named = set(re.findall(r"[a-z]+", description)) & FORMATS
            expect(takes.strip() == "F" and "table" in named, where, "--format F names table among its formats")
    if is_leaf:
        expect("--quiet" in names, where, "has --quiet")


def check_errors(program, path):
    where = " ".join(path)
    wrong = call(program, *path, "--no-such-option")
    expect(wrong.returncode == 2 and wrong.stdout == "", where, "a wrong option is 2, and stdout stays empty")
    expect(wrong.stderr.startswith("allocmark") and wrong.stderr.count("allocmark: allocmark") == 0, where, "errors name the program once")
    expect(f"see: allocmark {where}".strip() in wrong.stderr, where, "an error names the help to read")


def walk(program, path=()):
    text = check_help(program, path)
    parts = [name for name in commands_in(text) if name != "help"]
    check_options(" ".join(path), text, not parts)
    check_errors(program, path)
    return 1 + sum(walk(program, (*path, name)) for name in parts)


def check_json(program):
    for words in (["list"], ["explain", "max_split_size_mb:128"], ["explain", "-a", "async", "release_threshold_mb:64"]):
        result = call(program, *words, "--format", "json")
        try:
            expect(isinstance(json.loads(result.stdout), dict), " ".join(words), "--format json is one object")
        except ValueError:
            expect(False, " ".join(words), "--format json is JSON")


def check_table_of_codes(program, folder):
    header = (folder.parent.parent / "base" / "exit_code.h").read_text()
    codes = set(re.findall(r"^  \w+ = (\d+),", header, re.M))
    page = (folder / "CONVENTIONS.md").read_text()
    expect(codes == set(re.findall(r"^\| (\d+) \|", page, re.M)), "", "CONVENTIONS.md lists the exit codes of base/exit_code.h")
    footer = set(re.findall(r"^  (\d+)  ", call(program, "--help").stdout, re.M))
    expect(footer == codes, "--help", "lists the exit codes of base/exit_code.h")


def main(program, folder):
    count = walk(program)
    expect(count >= 18, "", f"only {count} help texts were found")
    check_json(program)
    check_table_of_codes(program, Path(folder))
    quiet = call(program, "explain", "-q", "PYTORCH_ALLOC_CONF=max_split_size_mb:128")
    expect(quiet.returncode == 0 and quiet.stderr == "" and quiet.stdout, "explain -q", "says nothing on stderr")
    print("\n".join(complaints))
    print(f"{count} help texts, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
