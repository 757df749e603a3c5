#!/usr/bin/env python3
"""Planted faults x rules of 'allocmark conformance': every fault is named by the rules that it breaks, and a right plugin
keeps all of them. conformance.tsv is the table; `--approve` writes it anew.

Usage: conformance_test.py ALLOCMARK FAULTY_PLUGIN.so FAULTY_PLUGGABLE.so EXAMPLE.so [--approve]
"""
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TABLE = Path(__file__).resolve().parent / "conformance.tsv"
FUNCTIONS = "record_stream:my_record_stream,trim:my_trim,init:my_init"
FAULTS = (
    "none spin_lock nap_lock ignores_record any_stream wrong_stream early_event no_wait no_stream_wait overlap double_hand_out misaligned "
    "align_shrinks host_pointer scribbles leaks trim_keeps grows lifo_only rounds_up null_sometimes oom_early null_after_oom "
    "stale_error size_zero_crash free_null_crash foreign_free_crash init_twice_crash device_zero stream_default crash hang "
    "exit throw fork lost_unlock thread_racy records_unlocked destroys_event claims_unlocked lock_cycle"
).split()
# Right, whatever lock it takes.
RIGHT = ("none", "spin_lock", "nap_lock")
HANGS = ("hang", "lost_unlock", "lock_cycle")
# Threads that race may hang, too.
WAITS = (*HANGS, "thread_racy")
# So many commands share the rules of one that hangs, since a command waits for a few rules at once.
PARTS = 4
# What else is said of those that take the process with them.
SAID = {"crash": "SIGABRT", "hang": "a call hangs", "exit": "ended the process", "throw": "threw an exception", "fork": "forked"}

# Found by the search alone, with these words.
PREEMPTION = {
    "records_unlocked": "a free stood at the begin of cudaEventRecord",
    "destroys_event": "cudaEventRecord failed with cudaErrorInvalidResourceHandle",
    "claims_unlocked": "a request stood at the begin of cudaEventQuery",
    "lock_cycle": "a call hangs",
}

failures = []


def check(holds, text):
    if not holds:
        failures.append(text)
        print("FAILED:", text, file=sys.stderr)


def conformance(allocmark, plugin, *options):
    return subprocess.run([allocmark, "conformance", plugin, *options], capture_output=True, text=True)


def held_rules(allocmark, plugin, *options):
    """What the command says of each rule."""
    done = conformance(allocmark, plugin, "--format", "json", *options)
    rules = json.loads(done.stdout)["rules"]
    is_broken = any(rule["outcome"] == "fail" for rule in rules)
    check(done.returncode == (1 if is_broken else 0), f"{plugin}: exit code {done.returncode}")
    return rules


def held_in_parts(allocmark, plugin, names, *options):
    """The same of the rules `names`, by several commands at the same time."""
    with ThreadPoolExecutor(PARTS) as pool:
        parts = [pool.submit(held_rules, allocmark, plugin, *options, "--rule", *names[at::PARTS]) for at in range(PARTS)]
        held = {rule["name"]: rule for part in parts for rule in part.result()}
    check(sorted(held) == sorted(names), f"{plugin}: the rules {sorted(held)}")
    return [held[name] for name in names if name in held]


def rules_of(allocmark, library, folder, fault, all_names=()):
    """What the command says of the fault, by rule."""
    path = Path(folder) / f"faulty_{fault}.so"
    shutil.copy(library, path)
    # A hang costs the limit for each rule; nothing else may come near it.
    if fault in HANGS:
        return held_in_parts(allocmark, f"{path},{FUNCTIONS}", all_names, "--timeout", "8")
    return held_rules(allocmark, f"{path},{FUNCTIONS}", "--timeout", "8" if fault in WAITS else "60")


def row_of(fault, rules):
    """The fault's row of the table."""
    check(len(rules) >= 20, f"{fault}: {len(rules)} rules")
    broken = [rule for rule in rules if rule["outcome"] == "fail"]
    names, seen = [rule["name"] for rule in broken], " ".join(rule["seen"] for rule in broken)
    # What a fault costs in time is not what it is; planted_pool_test.py has the faults of time.
    names = [name for name in names if name not in ("stalls", "uptime")]
    check(SAID.get(fault, "") in seen, f"{fault}: {seen}")
    # What threads run into differs from run to run.
    if fault == "thread_racy":
        check("threads" in names, f"{fault}: {names}")
        names = ["threads"]
    elif fault in PREEMPTION:
        check(PREEMPTION[fault] in seen, f"{fault}: {seen}")
        names = [name for name in names if name != "threads"]
    elif SAID.get(fault) is None:
        names = [name for name in names if name != "threads"]
    check((fault in RIGHT) == (names == []), f"{fault}: {names}")
    return f"{fault}\t{' '.join(names)}"


def main():
    allocmark, library, faulty, example = sys.argv[1:5]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(WAITS)) as pool:
        # Those that hang wait; the others run meanwhile, one at a time.
        held = {"none": rules_of(allocmark, library, folder, "none")}
        names = [rule["name"] for rule in held["none"]]
        waiting = {fault: pool.submit(rules_of, allocmark, library, folder, fault, names) for fault in WAITS}
        held |= {fault: rules_of(allocmark, library, folder, fault) for fault in FAULTS if fault not in WAITS and fault not in held}
        held |= {fault: rules.result() for fault, rules in waiting.items()}
    rows = ["fault\tbroken rules", *(row_of(fault, held[fault]) for fault in FAULTS)]
    text = "\n".join(rows) + "\n"
    if "--approve" in sys.argv:
        TABLE.write_text(text)
    check(TABLE.read_text() == text, f"the table is another one:\n{text}")

    # The example of the manual, without optional functions: what does not apply is said.
    done = conformance(allocmark, f"{example},trim:my_trim")
    check(done.returncode == 0 and "n/a   record-stream" in done.stdout, f"example: {done.stdout}")
    # Functions that simcuda lacks are named, and do not fail a rule.
    done = conformance(allocmark, f"pluggable:{faulty},unimplemented_malloc,unimplemented_free")
    check("cudaDestroyTextureObject, which simcuda lacks" in done.stderr.replace("\n", " "), f"missing call: {done.stderr}")
    # A library that never asks the runtime.
    done = conformance(allocmark, f"pluggable:{faulty},null_malloc,never_free")
    check(done.returncode == 1 and "shared" in done.stdout, f"static runtime: {done.stdout}")
    # Waivers and baselines.
    path = f"{library},{FUNCTIONS}"
    done = conformance(allocmark, f"{faulty},null_malloc,never_free", "--rule", "serves", "--baseline", path)
    check(done.returncode == 1 and "FAIL  serves" in done.stdout, f"a rule that the baseline keeps: {done.stdout}")
    done = conformance(allocmark, path, "--rule", "serves", "--baseline", f"{faulty},null_malloc,never_free")
    check(done.returncode == 0 and "mended  serves" in done.stdout, f"a mended rule: {done.stdout}")
    done = conformance(allocmark, f"{faulty},null_malloc,never_free", "--rule", "serves", "--waive", "serves=it is a stub")
    check(done.returncode == 0 and "waived: it is a stub" in done.stdout, f"a waiver: {done.stdout}")
    check(conformance(allocmark, path, "--waive", "serves").returncode == 2, "a waiver without a reason")
    check(conformance(allocmark, path, "--waive", "nothing=x").returncode == 2, "a waiver of no rule")
    # Wrong words.
    check(conformance(allocmark, "nothing.so").returncode == 6, "a missing file")
    check(conformance(allocmark, f"{example},no_such_function").returncode == 2, "a missing function")
    check(conformance(allocmark, f"{example},trim:no_such_function").returncode == 2, "a missing trim")
    check(conformance(allocmark, example, "--device", "cuda:0").returncode == 2, "a GPU")
    print(text)
    sys.exit(1 if failures else 0)


main()
