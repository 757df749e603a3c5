#!/usr/bin/env python3
"""Plugins as they are named on the command line: optional functions, names that do not depend on the path, one file as both
sides, a file that is replaced while cells run, what simcuda counts for a plugin that tells nothing.

Usage: plugins_test.py ALLOCMARK FAULTY_PLUGIN.so
"""
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ALLOCMARK, LIBRARY = sys.argv[1:3]
FUNCTIONS = "my_malloc,my_free,record_stream:my_record_stream,trim=my_trim,init:my_init"
CELL = ["--workload", "bert_varlen_infer", "--device", "sim:h200", "--passes", "2"]
failures = []


def check(holds, text):
    if not holds:
        failures.append(text)
        print("FAILED:", text, file=sys.stderr)


def allocmark(*words):
    return subprocess.run([ALLOCMARK, *map(str, words)], capture_output=True, text=True)


def cells(folder):
    lines = (Path(folder) / "results.jsonl").read_text().splitlines()
    return [cell for cell in map(json.loads, lines) if cell["kind"] == "cell"]


def copy(folder, place, name="none"):
    path = Path(folder) / place / f"faulty_{name}.so"
    path.parent.mkdir(exist_ok=True)
    shutil.copy(LIBRARY, path)
    return path


def names_join(folder):
    ids = []
    for place in ("old", "new"):
        path = copy(folder, place)
        done = allocmark("run", *CELL, "--allocator", f"pluggable:{path},{FUNCTIONS},as:mine", "--out", f"{folder}/{place}.run")
        check(done.returncode == 0, f"run: {done.stderr}")
        (cell,) = cells(f"{folder}/{place}.run")
        check(cell["conf"] == "as:mine" and str(path) in cell["conf_definition"], f"names: {cell['conf']}")
        check("trim:my_trim" in cell["conf_definition"], f"keys: {cell['conf_definition']}")
        # What the library does not tell, the simulated device does.
        check(cell["reserved_bytes_peak"] and cell["reserved_bytes_peak"] >= cell["requested_bytes_peak"], "reserved bytes")
        check(cell["unimplemented_call_count"] == 0 and cell["unordered_reuse_count"] == 0, "counts")
        # These workloads have one stream, which is said of a plugin that has record_stream.
        others = [text for text in cell["warnings"] if not text.startswith("record_stream was never called")]
        check(cell["residue_bytes"] == 0 and not others, f"warnings: {others}")
        ids.append(cell["cell_id"])
    check(ids[0] == ids[1], f"two paths, two cells: {ids}")
    done = allocmark("compare", f"{folder}/old.run", f"{folder}/new.run", "--only", "exact")
    check(done.returncode == 0 and "1 cells compared" in done.stdout.replace("1 cell compared", "1 cells compared"), f"compare: {done.stdout}")
    done = allocmark("compare", f"{folder}/old.run", f"{folder}/new.run", "--only", "exact", "--format", "junit")
    check(folder not in done.stdout, "a path in JUnit's names")


def missing_trim_is_said(folder):
    done = allocmark("run", *CELL, "--allocator", f"pluggable:{copy(folder, 'old')},as:mine", "--out", f"{folder}/untrimmed")
    check(done.returncode == 0, f"without trim: {done.stderr}")
    check("add trim:FUNCTION" in " ".join(cells(f"{folder}/untrimmed")[0]["warnings"]), "no word of trim")


def slips_are_said(folder):
    one, two = copy(folder, "old"), copy(folder, "new")
    both = [f"pluggable:{path},as:mine" for path in (one, two)]
    done = allocmark("run", *CELL, "--allocator", *both, "--out", f"{folder}/both")
    check(done.returncode == 2 and "one name" in done.stderr, f"two plugins, one name: {done.stderr}")
    done = allocmark("run", *CELL, "--allocator", f"pluggable:{one},as:a/b", "--out", f"{folder}/odd")
    check(done.returncode == 2 and "letters, digits" in done.stderr, f"an odd name: {done.stderr}")
    done = allocmark("run", *CELL, "--ab", *both, "--rounds", "2", "--min-effect", "900%", "--out", f"{folder}/ab")
    check("load the same file" in " ".join(done.stderr.split()), f"one file twice: {done.returncode} {done.stderr}")


def replacement_is_said(folder):
    path = copy(folder, "old", "slow_all")
    stop = threading.Event()

    def replace():
        while not (Path(folder) / "replaced" / "plan.json").exists() and not stop.is_set():
            time.sleep(0.01)
        other = Path(folder) / "other"
        shutil.copy(LIBRARY, other)
        with open(other, "ab") as file:
            file.write(b"x")
        other.replace(path)

    thread = threading.Thread(target=replace)
    thread.start()
    # The numbers do not say it themselves, so --quiet does not hide it; and it hides all else.
    done = allocmark("run", "-q", *CELL, "--seeds", "1", "--allocator", f"pluggable:{path},as:mine", "--out", f"{folder}/replaced")
    stop.set()
    thread.join()
    check(done.returncode == 3 and done.stderr.startswith(str(path)) and "was replaced while" in " ".join(done.stderr.split()),
          f"replaced: {done.returncode} {done.stderr}")


with tempfile.TemporaryDirectory() as work:
    names_join(work)
    missing_trim_is_said(work)
    slips_are_said(work)
    replacement_is_said(work)
sys.exit(1 if failures else 0)
