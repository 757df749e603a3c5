#!/usr/bin/env python3
"""Planted races of plain memory x rules of 'allocmark conformance': every race is found and named, and plugins that order
their threads in other ways are right. The table of RACES.md is what this finds; `--approve` writes it anew.

Usage: plugin_races_test.py ALLOCMARK PLAIN/racy_none.so TSAN/racy_none.so RACES.md [--approve]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# name: (what it does, found by)
RIGHT = {
    "none": "one lock around all",
    "own_spin_lock": "a spinning lock of its own, with acquire and release",
    "call_once": "makes its list on first use, by `std::call_once`",
    "part_locks": "two locks, always in the same order",
    "atomic_counter": "counts with an atomic number outside the lock",
}
WRONG = {
    "unlocked_list": "a free puts the block on the list without the lock",
    "unlocked_lookup": "a free looks at the table before it takes the lock",
    "unlocked_counter": "counts requests outside the lock",
    "unlocked_limit": "reads whether the cache is full before it takes the lock",
    "early_unlock": "gives up the lock before the block's entry is made",
    "wrong_lock": "frees take another lock than requests",
    "shared_lock": "changes the list under a lock for readers",
    "double_checked": "makes its list on first use, after a look without the lock",
    "unlocked_trim": "trim empties the list without the lock",
    "unlocked_retry": "what follows a failed cudaMalloc goes without the lock",
    "relaxed_spin_lock": "a spinning lock that orders nothing else (`memory_order_relaxed`)",
    "kept_reference": "writes to an entry after the lock",
    "lock_order": "requests lock A and then B, frees B and then A",
}
# No race of memory: a thread that is never woken is seen where it happens.
LOST_WAKE = ("lost_wake", "a lock of its own that forgets to wake who has just gone to sleep")
FUNCTIONS = "my_malloc,my_free,trim:my_trim"
RULES = ("threads", "races", "preemption")
BEGIN, END = "<!-- planted -->\n", "<!-- /planted -->\n"

failures = []


def check(holds, text):
    if not holds:
        failures.append(text)
        print("FAILED:", text, file=sys.stderr)


def answers(allocmark, folder, library, name, timeout="120", rules=RULES, build=""):
    """{rule: (outcome, what was seen)}"""
    path = Path(folder) / build / f"racy_{name}.so"
    path.parent.mkdir(exist_ok=True)
    shutil.copy(library, path)
    command = [allocmark, "conformance", f"{path},{FUNCTIONS}", "--format", "json", "--timeout", timeout, "--rule", *rules]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{name}: {done.stderr}")
    said = json.loads(done.stdout)["rules"]
    check([rule["name"] for rule in said] == list(rules), f"{name}: --rule gave {said}")
    fails = any(rule["outcome"] == "fail" for rule in said)
    check(done.returncode == (1 if fails else 0), f"{name}: exit code {done.returncode}")
    return {rule["name"]: (rule["outcome"], rule["seen"]) for rule in said}


def right_row(allocmark, folder, plain, tsan, name):
    """The row of RACES.md for a plugin that every rule passes."""
    for build, library in (("plain", plain), ("tsan", tsan)):
        said = answers(allocmark, folder, library, name, build=build)
        kept = [outcome for outcome, _ in said.values()]
        check(kept == ["pass", "n/a" if build == "plain" else "pass", "pass"], f"{name} is right: {said}")
        check("-fsanitize=thread" in said["races"][1] or build == "tsan", f"the plain build: {said}")
    return f"| `{name}` | right: {RIGHT[name]} | pass |"


def wrong_row(allocmark, folder, tsan, name):
    # A race may crash the plugin before it is told: that fails as well, and names no race. A hang names it.
    kind = "lock-order-inversion" if name == "lock_order" else "nothing orders the two"
    for _ in range(3):
        said = answers(allocmark, folder, tsan, name, "20", rules=["races"])
        outcome, seen = said["races"]
        check(outcome == "fail", f"{name}: {said}")
        check(kind in seen or "crash" in seen, f"{name}: {seen}")
        if kind in seen:
            break
    check("racy_plugin.cc:" in seen, f"{name}: {said}")
    check(kind in seen, f"{name}: {seen}")
    return f"| `{name}` | {WRONG[name]} | FAIL, {kind} |"


def main():
    allocmark, plain, tsan, page = sys.argv[1:5]
    rows = ["| plugin | what it does | `races` says |", "| :-- | :-- | :-- |"]
    with tempfile.TemporaryDirectory() as folder:
        # They wait more than they compute.
        with ThreadPoolExecutor(4) as several:
            right = [several.submit(right_row, allocmark, folder, plain, tsan, name) for name in RIGHT]
            wrong = [several.submit(wrong_row, allocmark, folder, tsan, name) for name in WRONG]
            rows += [row.result() for row in right + wrong]
        # Found in a rule's process that hangs, not by the detector; luck, so it may take several tries.
        name, text = LOST_WAKE
        for _ in range(5):
            said = answers(allocmark, folder, plain, name, "10")
            if any("a call hangs" in seen for _, seen in said.values()):
                break
        else:
            check(False, f"{name}: {said}")
        rows.append(f"| `{name}` | {text} | pass; `threads` says that a call hangs, by luck |")
        # Options of the user's own are heard, and cannot make a race pass.
        os.environ["TSAN_OPTIONS"] = "exitcode=0:halt_on_error=1"
        said = answers(allocmark, folder, tsan, "unlocked_counter", rules=["races"])
        check(said["races"][0] == "fail", f"with TSAN_OPTIONS: {said}")
    table = "\n".join(rows) + "\n"
    text = Path(page).read_text()
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    if "--approve" in sys.argv:
        Path(page).write_text(before + BEGIN + table + END + after)
    else:
        check(old == table, f"{page} has another table:\n{table}")
    print(table)
    sys.exit(1 if failures else 0)


main()
