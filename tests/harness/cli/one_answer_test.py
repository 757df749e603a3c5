#!/usr/bin/env python3
"""No answer contradicts another command's on the same job: run, advise, fit and why are asked about shipped recordings at six capacities.

They are asked as a user asks: without a release of PyTorch. All must simulate the same one.
Where they count the same thing (failed requests of a config string), the numbers must be equal. Where a setting is said to serve, it must serve in a cell.
`why` is asked about the snapshot that `export` makes of the job. It must have every request where the cell had it, fail where the cell failed, and
see the same memory then. It replays failed requests as asked and given back at once: of its other settings only "fails" or "serves" can be compared.

    one_answer_test.py PROGRAM              each recording at one of the capacities, in turn
    one_answer_test.py PROGRAM --all        each at all six: an hour of one processor
    one_answer_test.py PROGRAM NAME ...     these recordings, at all six
    one_answer_test.py PROGRAM --part 2/8   every eighth of these jobs, from the second on
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

CAPACITIES = ("0.9x", "0.98x", "1.0x", "1.02x", "1.05x", "1.2x")
# Asked in cells of their own. What advise recommends is asked besides.
CONFS = ("", "expandable_segments:True", "backend:cudaMallocAsync")
RECORDED = pathlib.Path(__file__).parents[3] / "workloads" / "recorded"


def ask(program, folder, *words):
    """What a command prints, where it ends as it should: 0, or 1 and 3 where cells say so."""
    done = subprocess.run([program, *words, "-q"], cwd=folder, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def words_of(conf):
    return conf or "unset"


def run_cells(program, folder, name, capacity, confs):
    """Cells by config string, the answer line, and where `unset` put each request: the size of its segment, the place in it."""
    text = ask(program, folder, "run", "-w", name, "-a", "caching", *(word for conf in confs for word in ("-c", words_of(conf))), "--capacity", capacity,
               "--passes", "1", "--verify", "off", "-d", "sim:h200", "--no-html", "-o", "run", "--record-placements", "places")
    cells = [json.loads(line) for line in (pathlib.Path(folder) / "run" / "results.jsonl").read_text().splitlines()]
    cells = {cell["conf"]: cell for cell in cells if cell["kind"] == "cell"}
    answer = " ".join(text[text.rfind("answer:"):].split()) if "answer:" in text else ""
    (path,) = (pathlib.Path(folder) / "places").glob(f"*_unset_*_{cells['']['cell_id']}.txt")
    segments, places = {}, []
    for line in path.read_text().splitlines():
        kind, *words = line.split()
        if kind == "g":
            segments[words[0]] = int(words[2])
        elif kind == "a":
            places.append("failed" if words == ["oom"] else (segments[words[0]], int(words[1], 16)))
    return cells, answer, places


def compare_releases(advised, fitted, cells, found):
    release = advised["release"]["name"]
    if fitted["release"] != advised["release"]:
        found(f"advise answers for PyTorch {release}, fit for {fitted['release']['name']}")
    for cell in cells.values():
        # Without a release it is the newest, which is what is taken where nothing is known of the job.
        family, _, of_cell = cell["allocator"].partition("@")
        newest = not of_cell and advised["release"]["basis"].startswith("the newest")
        if family != "caching" or (of_cell != release and not newest):
            found(f"advise answers for PyTorch {release}, run for {cell['allocator']}")


def compare_run(searched, cells, answer, found):
    for conf, cell in cells.items():
        if cell["status"] not in ("ok", "oom_stopped"):
            found(f"run: {words_of(conf)} is {cell['status']}: {cell['reason']}")
        elif conf in searched and searched[conf]["oom_count"] != cell["oom_count"]:
            found(f"{words_of(conf)}: advise counts {searched[conf]['oom_count']} failed requests, run {cell['oom_count']}")
    served = [conf for conf, cell in cells.items() if cell["oom_count"] == 0]
    if "serves every request" in answer and not any(words_of(conf) in answer for conf in served):
        found(f"run says that something serves, and its cells do not: {answer}")
    if "no setting can help" in answer and served:
        found(f"run says that no setting can help, and {words_of(served[0])} serves")


def compare_advise(advised, cells, answer, found):
    if advised["impossible"] and any(cell["oom_count"] == 0 for cell in cells.values()):
        found("advise says that no setting can serve, and one does")
    if advised["impossible"] != ("no setting can help" in answer):
        found(f"advise says that {'no setting can help' if advised['impossible'] else 'a setting may help'}, run: {answer}")
    conf = conf_of(advised)
    if conf is not None and cells.get(conf, {"oom_count": 0})["oom_count"]:
        found(f"advise says to set {words_of(conf)}, which fails in a cell")
    if conf is None and cells[""]["oom_count"] and any(cells[each]["oom_count"] == 0 for each in cells):
        found("advise names no setting, and one serves in a cell")


def conf_of(advised):
    """The config string of the line to paste; None where there is none."""
    paste = (advised.get("answers") or {}).get("paste") or ""
    return paste.split("=", 1)[1].strip("'\"") if "=" in paste else None


def compare_fit(fitted, searched, capacity_bytes, found):
    """fit settles more amounts than advise, so its least can only be the larger one. Less than it may serve by luck; advise must not call that enough."""
    for setting in fitted["settings"]:
        conf, least = setting["conf"], setting["least_bytes"]
        if not least or conf not in searched:
            continue
        advised = searched[conf]
        if capacity_bytes >= least and advised["oom_count"] and not setting["unsettled_bytes"]:
            found(f"{words_of(conf)}: fit says that it needs {least}, where advise counts failures at {capacity_bytes}")
        if advised["unsettled_bytes"] or setting["unsettled_bytes"] or not advised["least_bytes"]:
            continue
        if advised["least_bytes"] != least:
            found(f"{words_of(conf)}: fit says that it needs {least}, advise {advised['least_bytes']}")


class History:
    """What a snapshot says of each request: its place, or that it failed; and the first failure."""

    def __init__(self, path):
        with open(path, "rb") as file:
            entries = pickle.load(file)["device_traces"][0]
        self.places, self.first_failure = [], None
        segments, live = {}, {}
        for entry in entries:
            action, address = entry["action"], entry.get("addr")
            if action == "segment_alloc":
                segments[address] = entry["size"]
            elif action == "segment_free":
                del segments[address]
            elif action == "alloc":
                live[address] = entry["size"]
                self.places.append(next((size, address - base) for base, size in segments.items() if base <= address < base + size))
            elif action == "free_requested":
                del live[address]
            elif action == "oom":
                self.places.append("failed")
                self.first_failure = self.first_failure or (entry["size"], sum(live.values()))


def compare_history(history, cell, places, found):
    if len(history.places) != len(places):
        found(f"export has {len(history.places)} requests, run {len(places)}")
        return
    index = next((at for at, pair in enumerate(zip(history.places, places)) if pair[0] != pair[1]), None)
    if index is not None:
        found(f"request {index}: export has it at {history.places[index]}, run at {places[index]}")
        return
    first = cell["oom_first"]
    asked = (first["size_bytes"] + 511) // 512 * 512
    if history.first_failure != (asked, first["live_bytes"]):
        found(f"the first failure: export has {history.first_failure}, run {(asked, first['live_bytes'])}")


def cause_of(oom, capacity_bytes):
    """As results/FAILURES.md has the causes; None where rounding decides, of which `why` says nothing."""
    left = capacity_bytes - oom["live_bytes"]
    if oom["size_bytes"] > left:
        return None
    if oom["retry_serves"]:
        return "pending"
    kept = oom["other_stream_bytes"] + oom["waiting_bytes"]
    return "stranded" if oom["size_bytes"] > left - kept else "fragmentation"


def compare_failure(why, cell, found):
    """`why` tells of the last failure, a cell of the first; with one failure it is the same."""
    oom = why["oom"]
    cause = cause_of(oom, cell["capacity_bytes"])
    if cause and not cell[f"oom_count_{cause}"]:
        found(f"the last failure is {cause} by what why says, and run counts none of these")
    if cell["oom_count"] != 1:
        return
    first = cell["oom_first"]
    others = oom["other_stream_bytes"] + oom["other_class_bytes"]
    if oom["usable_bytes"] + others != first["free_bytes"]:
        found(f"at the only failure why has {oom['usable_bytes']} + {others} B free, run {first['free_bytes']}")
    # A cell's largest block is of all that is free.
    if oom["usable_largest_bytes"] > first["free_largest_bytes"] or (not others and oom["usable_largest_bytes"] < first["free_largest_bytes"]):
        found(f"at the only failure why has {oom['usable_largest_bytes']} B in one piece, run {first['free_largest_bytes']}")


def compare_why(why, advised, cells, found):
    # The worst of five answers is what `why` advises by. Where only the simulated H200, which the others ask, serves, it says so.
    settings = {setting["conf"]: setting["failed_count"] and setting["simulated_failed_count"] for setting in why["settings"]}
    settings |= {other["name"]: other["failed_count"] for other in why["other_allocators"] if other["is_setting_of_pytorch"]}
    if why["pytorch"] != advised["release"]["name"]:
        found(f"advise answers for PyTorch {advised['release']['name']}, why for {why['pytorch']}")
    if why["placement_equal_count"] != why["placement_count"]:
        found(f"why puts {why['placement_equal_count']} of {why['placement_count']} blocks where they were")
    if why["oom_count"] != cells[""]["oom_count"]:
        found(f"why counts {why['oom_count']} failed requests, run {cells['']['oom_count']}")
    else:
        compare_failure(why, cells[""], found)
    for conf in set(settings) & set(cells):
        # The failed requests were given back at once in what `why` replays: it may serve where the whole job fails, never the reverse.
        if settings[conf] and not cells[conf]["oom_count"]:
            found(f"{words_of(conf)}: why says that it fails, run that it serves")
    conf = why.get("advised_conf")
    if conf and cells.get(conf, {"oom_count": 0})["oom_count"] and settings.get(conf):
        found(f"why advises {conf}, which fails")


def differences(program, name, capacity):
    with tempfile.TemporaryDirectory() as folder:
        found = []

        def note(text):
            found.append(f"{name} at {capacity}: {text}")
        try:
            advised = json.loads(ask(program, folder, "advise", name, "--capacity", capacity, "-d", "sim:h200", "--format", "json"))
            searched = {setting["conf"]: setting for setting in advised["settings"]}
            confs = list(CONFS)
            if conf_of(advised) not in (None, *confs):
                confs.append(conf_of(advised))
            cells, answer, places = run_cells(program, folder, name, capacity, confs)
            compare_run(searched, cells, answer, note)
            compare_advise(advised, cells, answer, note)
            fitted = json.loads(ask(program, folder, "fit", name, "-d", "sim:h200", "--format", "json"))
            compare_fit(fitted, searched, advised["capacity_bytes"], note)
            compare_releases(advised, fitted, cells, note)
            if cells[""]["oom_count"]:
                ask(program, folder, "export", name, "oom.pickle", "--memory", f"{advised['capacity_bytes']}B")
                compare_history(History(os.path.join(folder, "oom.pickle")), cells[""], places, note)
                compare_why(json.loads(ask(program, folder, "why", "oom.pickle", "--format", "json")), advised, cells, note)
        except (RuntimeError, KeyError, ValueError, StopIteration, subprocess.TimeoutExpired) as error:
            note(f"{type(error).__name__}: {error}")
        return found


def main():
    parser = argparse.ArgumentParser(description="Asks run, advise, fit and why about the same jobs.")
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--part", default="1/1")
    options = parser.parse_args()
    recorded = sorted(path.name.removesuffix(".ops.csv.gz") for path in RECORDED.glob("*.ops.csv.gz"))
    if options.all or options.names:
        cases = [(name, capacity) for name in options.names or recorded for capacity in CAPACITIES]
    else:
        cases = [(name, CAPACITIES[index % len(CAPACITIES)]) for index, name in enumerate(recorded)]
    part, count = map(int, options.part.split("/"))
    cases = cases[part - 1::count]
    found_count = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for texts in pool.map(lambda case: differences(options.program, *case), cases):
            found_count += len(texts)
            print("".join(text + "\n" for text in texts), end="", flush=True)
    print(f"{len(cases)} jobs, {found_count} contradictions")
    return 1 if found_count or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
