#!/usr/bin/env python3
"""No answer contradicts another command's on the same job: run, advise, fit and why are asked about shipped recordings at six capacities.

Where they count the same thing (failed requests of a config string), the numbers must be equal. Where a setting is said to serve, it must serve in a cell.
`why` has a recording that failed: its failed requests are asked and given back at once. So of its settings only "fails" or "serves" can be compared.

All are asked about one release of PyTorch: `advise` and `fit` would else take the one that recorded the program, `run` the newest.

    one_answer_test.py PROGRAM              each recording at one of the capacities, in turn
    one_answer_test.py PROGRAM --all        each at all six: an hour of one processor
    one_answer_test.py PROGRAM NAME ...     these recordings, at all six
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CAPACITIES = ("0.9x", "0.98x", "1.0x", "1.02x", "1.05x", "1.2x")
# Asked in cells of their own. What advise recommends is asked besides.
CONFS = ("", "expandable_segments:True", "backend:cudaMallocAsync")
RELEASE = "2.15"
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
    """Failed requests by config string, the first failure's cause, and the answer line."""
    text = ask(program, folder, "run", "-w", name, "-a", f"caching@{RELEASE}", *(word for conf in confs for word in ("-c", words_of(conf))), "--capacity", capacity,
               "--passes", "1", "--verify", "off", "-d", "sim:h200", "--no-html", "-o", "run")
    cells = [json.loads(line) for line in (pathlib.Path(folder) / "run" / "results.jsonl").read_text().splitlines()]
    cells = [cell for cell in cells if cell["kind"] == "cell"]
    answer = " ".join(text[text.rfind("answer:"):].split()) if "answer:" in text else ""
    return {cell["conf"]: cell for cell in cells}, answer


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
    """fit tried single capacities: a setting that it says to serve from here on must not fail here."""
    for setting in fitted["settings"]:
        conf, least = setting["conf"], setting["least_bytes"]
        if not least or conf not in searched:
            continue
        fails = searched[conf]["oom_count"] > 0
        if capacity_bytes == least and fails:
            found(f"{words_of(conf)}: fit says that it needs {least}, where advise counts failures")
        below = setting.get("serves_below_bytes")
        if not fails and capacity_bytes < least and not below and not setting.get("unsettled_bytes"):
            found(f"{words_of(conf)}: fit says that it needs {least}, advise that {capacity_bytes} are enough")


def compare_why(why, advised, cells, found):
    settings = {setting["conf"]: setting["failed_count"] for setting in why["settings"]}
    settings |= {other["name"]: other["failed_count"] for other in why["other_allocators"] if other["is_setting_of_pytorch"]}
    if why["placement_equal_count"] != why["placement_count"]:
        found(f"why puts {why['placement_equal_count']} of {why['placement_count']} blocks where they were")
    # A block that another stream still used came back later in the history than in the program.
    if advised["stream_count"] == 1 and why["oom_count"] != cells[""]["oom_count"]:
        found(f"why counts {why['oom_count']} failed requests, run {cells['']['oom_count']}")
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
            advised = json.loads(ask(program, folder, "advise", name, "--capacity", capacity, "--pytorch", RELEASE, "-d", "sim:h200", "--format", "json"))
            searched = {setting["conf"]: setting for setting in advised["settings"]}
            confs = list(CONFS)
            if conf_of(advised) not in (None, *confs):
                confs.append(conf_of(advised))
            cells, answer = run_cells(program, folder, name, capacity, confs)
            compare_run(searched, cells, answer, note)
            compare_advise(advised, cells, answer, note)
            fitted = json.loads(ask(program, folder, "fit", name, "--pytorch", RELEASE, "-d", "sim:h200", "--format", "json"))
            compare_fit(fitted, searched, advised["capacity_bytes"], note)
            if cells[""]["oom_count"]:
                ask(program, folder, "export", name, "oom.pickle", "--memory", f"{advised['capacity_bytes']}B")
                compare_why(json.loads(ask(program, folder, "why", "oom.pickle", "--format", "json")), advised, cells, note)
        except (RuntimeError, KeyError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            note(f"{type(error).__name__}: {error}")
        return found


def main():
    program, names = os.path.abspath(sys.argv[1]), [word for word in sys.argv[2:] if not word.startswith("--")]
    recorded = sorted(path.name.removesuffix(".ops.csv.gz") for path in RECORDED.glob("*.ops.csv.gz"))
    if "--all" in sys.argv or names:
        cases = [(name, capacity) for name in names or recorded for capacity in CAPACITIES]
    else:
        cases = [(name, CAPACITIES[index % len(CAPACITIES)]) for index, name in enumerate(recorded)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for texts in pool.map(lambda case: differences(program, *case), cases) for text in texts]
    print("\n".join(found))
    print(f"{len(cases)} jobs, {len(found)} contradictions")
    return 1 if found or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
