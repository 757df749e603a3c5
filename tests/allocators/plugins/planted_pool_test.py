#!/usr/bin/env python3
"""Plants each fault of the table below into one pool (planted_pool.cc), holds it against the rules of 'allocmark conformance' beside
the pool without a fault, as gate.sh does, and checks which rule names it. Writes the second table of results/compare/PLANTED_FAULTS.md.

Usage: planted_pool_test.py ALLOCMARK POOL.so GATE.sh PAGE [--only NAME,...] [--approve]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Fault: (what it does, the rule that names it, a word that it says, further rules that its effect may break).
FAULTS = {
    "none": ("nothing: the same pool", "", "", []),
    "retry_unfinished": ("after out of memory, uses blocks again whose recorded streams still work", "oom-order", "still use", []),
    "retry_other_stream": ("after out of memory, takes a free block of another stream", "oom-order", "still use", []),
    "split_rest": ("gives the rest of a split block to another stream", "split-order", "still use", ["trim", "record-many", "oom-order"]),
    "last_record_only": ("waits for the last recorded stream alone", "record-many", "still use", ["oom-order"]),
    "forgets_third": ("waits for two recorded streams at most", "record-many", "still use", ["oom-order"]),
    "stream_handle": ("takes a new stream for the destroyed one that had its handle", "stream-handle", "handle of a destroyed one", []),
    "record_default": ("takes the default stream, which is NULL, for none", "record-many", "still use", ["oom-order"]),
    "few_events": ("while more than 200 events are waited for, waits for no others", "record-many", "still use", []),
    "rounds_down": ("rounds 513, 1025, ... bytes down", "sizes", "which is live", ["many-requests"]),
    "mib_too_small": ("gives 1 MiB to requests of up to 512 bytes more", "sizes", "not so much device memory", ["trim-live"]),
    "live_after_many": ("hands out live blocks again after 35,000 requests", "many-requests", "which is live", ["many-live", "uptime"]),
    "live_after_million": ("hands out live blocks again after a million requests", "many-requests", "which is live", []),
    "live_after_trims": ("hands out live blocks again after three trims", "trim-live", "which is live", ["threads"]),
    "double_when_deep": ("hands out live blocks again while more than 65,536 live", "many-live", "which is live", []),
    "null_when_deep": ("refuses while more than 16,384 blocks live", "many-live", "got NULL while 16385 blocks lived", []),
    "double_free": ("hands out twice what was freed twice", "double-free", "was freed twice", []),
    "foreign_free": ("hands out a foreign pointer that was freed", "foreign-free", "not its own", []),
    "truncates": ("keeps 32 bits of a size", "sizes", "not so much device memory", ["out-of-memory", "recovery", "oom-order"]),
    "spills": ("hands out managed memory when the device is full", "out-of-memory", "not so much device memory", ["recovery"]),
    "thread_cache": ("keeps what a thread freed for that thread, also when it has ended", "threads-end", "threads that freed all and ended", []),
    "denormals": ("makes denormal numbers count as 0 when it is loaded, as `-ffast-math` does", "settings", "denormal numbers", []),
    "signal": ("lets SIGTERM do nothing from when it is loaded", "settings", "what SIGTERM does", []),
    "folder": ("goes to another working folder", "settings", "the working folder", []),
    "environment": ("hides the second device from programs that the process starts", "settings", "CUDA_VISIBLE_DEVICES", []),
    "size_zero_leak": ("loses 2 MiB with every request of 0 bytes", "size-zero", "for good", []),
    "device_left": ("leaves another device the current one", "device-restored", "left device 1", []),
    "exit_crash": ("crashes when the process ends", "exit", "crashed when it ended", []),
    "exit_hang": ("does not let the process end", "exit", "did not end", []),
    "exit_at_once": ("ends the process with code 0 before the program's own end", "exit", "ended the process by itself", []),
    "events_leak": ("destroys no event", "objects", "more events live", []),
    "error_left": ("leaves the error of a call behind", "error-state", "cudaErrorInvalidResourceHandle", []),
    "blocks_on_event": ("waits for events instead of polling", "no-waits", "the host waited", []),
    "lock_hold": ("holds its lock for 5 ms of each 100, in a thread of its own", "stalls", "calls slept", []),
    "burns_core": ("spins in a thread of its own", "idle", "a thread of the plugin ran", []),
    "host_table": ("takes 1 GiB of the host's memory", "host-memory", "MiB more of the host's memory", []),
    "host_per_request": ("keeps 8 bytes of the host's memory a request", "host-growth", "8.0 bytes for each", []),
    "open_files": ("leaves a file open every 1,000 requests", "objects", "more open files", ["stalls"]),
    "uptime": ("takes longer the more requests there were", "uptime", "ns in the third", ["stalls"]),
    "stall": ("takes 3 ms in one request of 20,000", "stalls", "over 1 ms of processor time", []),
}
# Faults that keep all rules: what they do, the number that names them, how the gate says it.
NUMBERED = {"zeroes_blocks": ("fills every block with zeros", "driver_calls.cudaMemsetAsync", "cudaMemsetAsync calls 0 -> ")}
CELLS = ["--rounds", "2", "--", "--workload", "gpt2_train_ckpt", "--capacity", "unlimited", "--untimed", "fuzz_r1", "--min-effect", "300%", "--allow-debug"]
# What else they would take is time: 1 GiB is written in each rule's process, a process that does not end takes the limit.
ONLY_ITS_RULE = {"host_table": ["host-memory"], "burns_core": ["idle", "serves"], "exit_hang": ["exit", "serves"]}
FUNCTIONS = "pool_malloc,pool_free,record_stream:pool_record_stream,trim:pool_trim,init:pool_init"
MARK = "| fault of a pool | what it does | named by | found | command |"

failures = []


def check(holds, text):
    if not holds:
        failures.append(text)
        print("FAILED:", text, file=sys.stderr)


def plugin(folder, library, fault):
    path = Path(folder) / f"pool_{fault}.so"
    shutil.copy(library, path)
    return f"{path},{FUNCTIONS}"


def row_text(fault, text, by, found, command):
    """Of the table; the page says what $F is."""
    return f"| `{fault}` | {text} | {f'`{by}`' if by else 'nothing'} | {'yes' if found else 'no'} | `{command}` |"


def row_of(options, folder, fault):
    text, rule, said, effects = FAULTS[fault]
    words = [options.allocmark, "conformance", plugin(folder, options.library, fault), "--format", "json", "--timeout", "10"]
    if fault in ONLY_ITS_RULE:
        words += ["--rule", *ONLY_ITS_RULE[fault]]
    done = subprocess.run(words, capture_output=True, text=True)
    if not done.stdout:
        check(False, f"{fault}: {done.stderr}")
        return ""
    broken = {each["name"]: each["seen"] for each in json.loads(done.stdout)["rules"] if each["outcome"] == "fail"}
    print(f"{fault}: {broken}", flush=True)
    check(done.returncode == (1 if broken else 0), f"{fault}: exit code {done.returncode}")
    if rule:
        check(said in broken.get(rule, ""), f"{fault}: {rule} does not say '{said}': {broken}")
        check("a call hangs" not in " ".join(broken.values()), f"{fault}: no call hangs: {broken}")
    # What it is not must not be said.
    check(not set(broken) - {rule, *effects}, f"{fault}: misnamed by {sorted(set(broken) - {rule, *effects})}")
    return row_text(fault, text, rule, rule in broken or not rule, f"allocmark conformance pool_{fault}.so,$F")


def row_of_number(options, folder, fault):
    """By the comparison of a gate whose rules are all kept."""
    text, number, said = NUMBERED[fault]
    code, output, _ = gate(options, folder, fault, *CELLS)
    worse = [line for line in output.splitlines() if line.startswith("worse ")]
    found = code == 1 and any(said in line for line in worse)
    check(found, f"{fault}: exit code {code}, and nothing says '{said}': {output}")
    for wrong in ("FAIL ", "a call hangs", "better  "):
        check(wrong not in output, f"{fault}: '{wrong}' is said: {output}")
    return row_text(fault, text, number, found, f"gate.sh --functions $F pool_none.so pool_{fault}.so {' '.join(CELLS)}")


def gate(options, folder, fault, *more):
    """The script as its user calls it, without timed cells."""
    libraries = [plugin(folder, options.library, name).split(",")[0] for name in ("none", fault)]
    out = Path(folder) / f"out-{fault}-{len(more)}"
    done = subprocess.run([options.gate, "--functions", FUNCTIONS, "--out", str(out), *libraries, *more], capture_output=True, text=True,
                          env={**os.environ, "ALLOCMARK": options.allocmark})
    return done.returncode, done.stdout + done.stderr, out


# Faults that rules name, and the numbers of a comparison name as well: the number, the workload, rounds.
COMPARED = {"burns_core": ("other_threads_ns_per_s", "gpt2_train_ckpt", 3), "host_table": ("host_taken_bytes", "gpt2_train_ckpt", 3),
            "events_leak": ("live_objects.events", "fuzz_r1", 3), "stall": ("thread_cpu_ns", "gpt2_train_ckpt", 16)}


def ab(options, folder, fault, out, *more):
    words = [options.allocmark, "run", "--device", "sim:h200", "--allow-debug", "--format", "json", "--ab"]
    words += ["pluggable:" + plugin(folder, options.library, name) for name in ("none", fault)]
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run([*words, *more, "--out", str(out)], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"cells": [], "pairs": []}


def check_numbers(options, folder):
    """Also without rules; the same pool on both sides has none of these numbers worse. A time may be missed on a busy machine."""
    for fault, (name, workload, rounds) in COMPARED.items():
        cells = ["--workload", workload, "--capacity", "unlimited", "--rounds", str(rounds), "--rounds-max", str(rounds), "--no-html"]
        for attempt in range(3 if name == "thread_cpu_ns" else 1):  # noqa: B007 (told below)
            code, found = ab(options, folder, fault, Path(folder) / "ab", *cells)
            numbers = [number for cell in found["cells"] for number in cell["numbers"]]
            verdicts = {number["number"]: number["verdict"] for number in numbers}
            if verdicts.get(name) == "worse":
                break
        print(f"{fault}: {name} {verdicts.get(name)}, attempt {attempt + 1}", flush=True)
        check(verdicts.get(name) == "worse" and code == 1, f"{fault}: {name} is {verdicts.get(name)}, exit code {code}")
        check("better" not in verdicts.values(), f"{fault}: a fault is praised: {[each for each in numbers if each['verdict'] == 'better']}")
        code, found = ab(options, folder, "none", Path(folder) / "ab", *cells)
        verdicts = {number["number"]: number["verdict"] for cell in found["cells"] for number in cell["numbers"]}
        check(verdicts.get(name, "same") == "same", f"none: {name} is {verdicts.get(name)}")


def check_soak(options, folder):
    """What one side alone grows, on virtual time."""
    for fault, wanted in (("none", 0), ("host_per_request", 1)):
        code, found = ab(options, folder, fault, Path(folder) / "soak", "--workload", "churn:events=2000", "--for", "2h")
        worse = [growth["measure"] for pair in found["pairs"] for growth in pair["growth"] if growth["verdict"] == "worse"]
        check(code == wanted and worse == (["host memory of allocmark"] if wanted else []), f"soak of {fault}: exit code {code}, worse: {worse}")


def check_cell(options, folder):
    """A request that the pool refused by itself, and what no cell used, are said."""
    out = Path(folder) / "run"
    subprocess.run([options.allocmark, "run", "--device", "sim:h200", "--allow-debug", "--allocator",
                    "pluggable:" + plugin(folder, options.library, "null_when_deep"), "--workload", "comb:count=20000", "--passes", "1", "--no-html",
                    "--out", str(out)], capture_output=True, text=True)
    cell = json.loads((out / "results.jsonl").read_text().splitlines()[-1])
    check(cell["oom_count"] > 0 and cell["oom_count_refused"] == cell["oom_count"], f"null_when_deep: {cell['oom_first']}")
    check(any(text.startswith("record_stream was never called") for text in cell["warnings"]), f"null_when_deep: {cell['warnings']}")


def check_threads(options, folder):
    """Blocks that several threads hold at once; the same pool on both sides has none."""
    for fault, wanted in (("none", 0), ("live_after_many", 1)):
        sides = ["pluggable:" + plugin(folder, options.library, name) for name in ("none", fault)]
        done = subprocess.run([options.allocmark, "threads", "bert_varlen_infer", "--threads", "4", "--order", "turns", "--passes", "1", "--rounds",
                               "8", "--device", "sim:h200", "--format", "json", "--ab", *sides], capture_output=True, text=True)
        found = json.loads(done.stdout or "{}")
        check(done.returncode == wanted and len(found["overlaps"]) == wanted, f"threads of {fault}: {done.returncode}: {found}, {done.stderr}")
        check(not wanted or "which is live" in found["overlaps"][0], f"threads of {fault}: {found['overlaps']}")
        check("better" not in done.stdout, f"threads of {fault}: a fault is praised: {found}")


def check_gate(options, folder):
    """A fault ends the gate before anything is timed; a waiver with its reason, and a pool against itself, do not."""
    code, text, out = gate(options, folder, "double_free")
    check(code == 1 and "FAIL" in text and "double-free" in text and "freed twice" in text, f"gate: {code}: {text}")
    check("better" not in text, f"gate: a fault is praised: {text}")
    check('failures="1"' in (out / "junit.xml").read_text() and "freed twice" in (out / "junit.xml").read_text(), "gate: junit.xml")
    code, text, out = gate(options, folder, "double_free", "--waive", "double-free=our program never does", *CELLS)
    check(code == 0 and "waived: our program never does" in text, f"gate with a waiver: {code}: {text}")
    check('message="waived: our program never does"' in (out / "rules.xml").read_text(), "gate: rules.xml")
    code, text, out = gate(options, folder, "none", *CELLS)
    check(code == 0 and "passed" in text, f"gate: none: {code}: {text}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("allocmark", "library", "gate", "page"):
        parser.add_argument(name)
    parser.add_argument("--only", default="")
    parser.add_argument("--approve", action="store_true")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        faults = [fault for fault in FAULTS if not only or fault in only]
        # It takes the limit, and only waits: the others run meanwhile.
        waiting = {fault: pool.submit(row_of, options, folder, fault) for fault in faults if fault == "exit_hang"}
        rows = {fault: row_of(options, folder, fault) for fault in faults if fault not in waiting}
        rows |= {fault: row.result() for fault, row in waiting.items()}
        rows = [rows[fault] for fault in faults]
        rows += [row_of_number(options, folder, fault) for fault in NUMBERED if not only or fault in only]
        if not only:
            for part in (check_numbers, check_soak, check_cell, check_threads, check_gate):
                part(options, folder)
    table = "\n".join([MARK, "| :-- | :-- | :-- | :-- | :-- |", *rows]) + "\n"
    page = Path(options.page)
    text = page.read_text()
    begin = text.index(MARK)
    end = text.find("\n\n", begin)
    held = text[begin:] if end < 0 else text[begin:end + 1]
    if options.approve and not only:
        page.write_text(text.replace(held, table))
    elif not only:
        check(held == table, f"{page} holds another table; with --approve it is written anew:\n{table}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
