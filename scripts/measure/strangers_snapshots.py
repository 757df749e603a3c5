#!/usr/bin/env python3
"""Memory snapshots of PyTorch that strangers published, replayed: peaks and places beside those that the files have.

usage: strangers_snapshots.py fetch PAGE FOLDER [--address https://github.com/]    the files of PAGE/sources.csv, by commit and hash
       strangers_snapshots.py check ALLOCMARK PAGE FOLDER                          writes PAGE/rows.csv
       strangers_snapshots.py record PYTHON SIMCUDA PAGE FOLDER RECORDINGS         the programs of PAGE/programs.csv, without a GPU
       strangers_snapshots.py predict ALLOCMARK PAGE RECORDINGS                    writes PAGE/predictions.csv; reads no snapshot
       strangers_snapshots.py compare PAGE                                         the tables of PAGE/README.md

Needs git and, to record, PyTorch with CUDA 13, einops, einx and jaxtyping in PYTHON. Strangers' files are read by allocmark and by an
unpickler that knows no class; none of them is run. The course's model is: PAGE/programs.csv says where it comes from.
"""
import argparse
import csv
import hashlib
import json
import os
import pickle
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/record"), str(ROOT / "scripts/publish")]
import snapshot_pools  # noqa: E402
import text  # noqa: E402

RECORDER, STEPS = ROOT / "scripts/record/record_without_gpu.py", ROOT / "scripts/measure/course_steps.py"
COURSE = "stanford-cs336/assignment2-systems"
ROW_FIELDS = ("repository", "commit", "path", "device", "release_by_keys", "entries", "requests", "failed", "requested_bytes_peak",
              "requested_bytes_peak_ours", "reserved_bytes_peak", "reserved_bytes_peak_ours", "equal_places", "end_equal",
              "fresh_reserved_bytes_peak_ours", "reason")
PREDICTION_FIELDS = ("repository", "path", "live_bytes", "reserved_bytes", "live_bytes_after", "reserved_bytes_after")
# First release that writes the key, as tests/workloads/import/releases_test.py has it; 2.X is X.
TOP_KEYS = {"allocator_settings": 1, "external_annotations": 6}
ENTRY_KEYS = {"time_us": 2, "compile_context": 8, "user_metadata": 10, "pool_id": 12}


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_rows(path, fields, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def place_of(folder, source):
    name = "_".join((source["repository"], source["commit"][:10], source["path"]))
    return folder / re.sub(r"[^A-Za-z0-9._-]+", "_", name)


def git(folder, *words, **options):
    return subprocess.run(["git", "-C", str(folder), *words], check=True, stdout=subprocess.PIPE, **options).stdout


def fetch_commit(address, repository, commit, folder):
    """A repository with that commit; files come when they are asked for."""
    into = folder / "git" / repository.replace("/", "_")
    if not into.exists():
        into.mkdir(parents=True)
        git(into, "init", "-q", "--bare")
        git(into, "remote", "add", "origin", f"{address}{repository}")
        git(into, "config", "remote.origin.promisor", "true")
        git(into, "config", "remote.origin.partialclonefilter", "blob:none")
    git(into, "fetch", "-q", "--depth", "1", "--filter=blob:none", "origin", commit)
    return into


def fetch(page, folder, address):
    for source in read_rows(page / "sources.csv"):
        place = place_of(folder, source)
        if not place.exists():
            repository = fetch_commit(address, source["repository"], source["commit"], folder)
            content = git(repository, "show", f"{source['commit']}:{source['path']}")
            if hashlib.sha256(content).hexdigest() != source["sha256"]:
                raise SystemExit(f"{source['repository']} {source['path']}: the content is not that of sources.csv")
            place.write_bytes(content)
    for commit in sorted({program["course_commit"] for program in read_rows(page / "programs.csv")}):
        repository = fetch_commit(address, COURSE, commit, folder)
        into = folder / f"course_{commit[:10]}"
        into.mkdir(exist_ok=True)
        subprocess.run(["tar", "-x", "-C", str(into)], input=git(repository, "archive", commit, "cs336-basics/cs336_basics"), check=True)


def release_by_keys(snapshot):
    """Which releases write these keys, as "2.6 to 2.7"."""
    entries = [entry for trace in snapshot["device_traces"] for entry in trace]
    has = {first: key in snapshot for key, first in TOP_KEYS.items()}
    has |= {first: any(key in entry for entry in entries) for key, first in ENTRY_KEYS.items()}
    low = max((first for first, is_there in has.items() if is_there), default=0)
    high = min((first for first, is_there in has.items() if not is_there and first > low), default=None)
    if high is None:
        return f"2.{low} or later"
    return f"2.{low} to 2.{high - 1}" if high - 1 > low else f"2.{low}"


def one_device(snapshot, device):
    """The same with that device's history and segments alone."""
    return {**snapshot, "device_traces": [trace if at == device else [] for at, trace in enumerate(snapshot["device_traces"])],
            "segments": [segment for segment in snapshot["segments"] if segment["device"] == device]}


def recorded_peaks(snapshot, device):
    """(requested, reserved, reserved at the start) of the file alone: the state at its end, and its entries backwards. A request that
    failed counts to the first."""
    segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
    reserved = sum(segment["total_size"] for segment in segments)
    live = sum(block["requested_size"] for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated")
    live_peak, reserved_peak = live, reserved
    for entry in reversed(snapshot["device_traces"][device]):
        action, size = entry["action"], entry["size"]
        if action == "oom":
            live_peak = max(live_peak, live + size)
        live += {"alloc": -size, "free_requested": size}.get(action, 0)
        reserved += {"segment_alloc": -size, "segment_map": -size, "segment_free": size, "segment_unmap": size}.get(action, 0)
        live_peak, reserved_peak = max(live_peak, live), max(reserved_peak, reserved)
    return live_peak, reserved_peak, reserved


def ask(allocmark, *words):
    return json.loads(subprocess.run([allocmark, *words, "--format", "json", "-q"], check=True, stdout=subprocess.PIPE).stdout)


def fresh_peak(allocmark, path, release, conf):
    """Reserved bytes where the simulated H200 chooses the addresses, and the heap begins empty as the recorded one."""
    with tempfile.TemporaryDirectory() as out:
        cells = ask(allocmark, "run", "--workload", f"file:{path}", "--allocator", f"caching@{release}", "--conf", conf or "unset",
                    "--device", "sim:h200", "--capacity", "unlimited", "--passes", "1", "-o", os.path.join(out, "run"))["cells"]
    return cells[0]["reserved_bytes_peak"]


def check_device(allocmark, source, snapshot, device, path):
    why = ask(allocmark, "why", path)
    requested, reserved, start = recorded_peaks(snapshot, device)
    requests = sum(entry["action"] == "alloc" for entry in snapshot["device_traces"][device])
    row = {key: source[key] for key in ("repository", "commit", "path")}
    row |= {"device": device, "release_by_keys": release_by_keys(snapshot), "entries": len(snapshot["device_traces"][device]),
            "requests": requests, "failed": why["oom_count"], "requested_bytes_peak": requested,
            "requested_bytes_peak_ours": why["live_bytes_peak"], "reserved_bytes_peak": reserved,
            "reserved_bytes_peak_ours": why["reserved_bytes_peak"], "equal_places": why["placement_equal_count"],
            "end_equal": "yes" if why["self_check_complete"] else "no", "reason": why["first_difference"]}
    # Where a request failed, a fresh heap on a larger card would serve it.
    if start == 0 and requests > 0 and why["oom_count"] == 0:
        conf = (snapshot.get("allocator_settings") or {}).get("PYTORCH_CUDA_ALLOC_CONF", "")
        row["fresh_reserved_bytes_peak_ours"] = fresh_peak(allocmark, path, why["pytorch"], conf)
    return row


def check(allocmark, page, folder):
    rows = []
    for source in read_rows(page / "sources.csv"):
        place = place_of(folder, source)
        snapshot = snapshot_pools.read(str(place))
        devices = [device for device, trace in enumerate(snapshot["device_traces"]) if trace]
        with tempfile.TemporaryDirectory() as cut:
            for device in devices:
                path = str(place)
                if len(devices) > 1:
                    path = os.path.join(cut, f"device{device}.pickle")
                    with open(path, "wb") as file:
                        pickle.dump(one_device(snapshot, device), file, protocol=4)
                rows.append(check_device(allocmark, source, snapshot, device, path))
    write_rows(page / "rows.csv", ROW_FIELDS, rows)


def recording_of(recordings, program, words):
    """Programs with the same words, model and card share a recording."""
    name = "_".join((program["device"], program["course_commit"][:10], words))
    return recordings / (re.sub(r"[^A-Za-z0-9._-]+", "_", name) + ".ops.csv.gz")


def record(python, simcuda, page, folder, recordings):
    recordings.mkdir(parents=True, exist_ok=True)
    asked = [(program, words) for program in read_rows(page / "programs.csv") for words in (program["program"], program["after"]) if words]
    for program, said in asked:
        path = recording_of(recordings, program, said)
        if path.exists():
            continue
        course = folder.resolve() / f"course_{program['course_commit'][:10]}" / "cs336-basics"
        card = re.sub(r"^sim:(a100|h100).*$", r"\1", program["device"])
        words = [python, RECORDER, "--simcuda", simcuda, "--card", card, "--out", path, STEPS, *shlex.split(said)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(course), os.environ.get("PYTHONPATH", "")])}
        subprocess.run(list(map(str, words)), env=environment, check=True)


def predict(allocmark, page, recordings):
    rows = []
    for program in read_rows(page / "programs.csv"):
        row = {"repository": program["repository"], "path": program["path"]}
        for words, end in ((program["program"], ""), (program["after"], "_after")):
            if words:
                estimate = ask(allocmark, "estimate", str(recording_of(recordings, program, words)), "-d", program["device"], "-c", "unset",
                               "--pytorch", program["pytorch"])
                row |= {f"live_bytes{end}": estimate["live_bytes"], f"reserved_bytes{end}": estimate["settings"][0]["reserved_bytes"]}
        rows.append(row)
    write_rows(page / "predictions.csv", PREDICTION_FIELDS, rows)


def is_equal(row):
    pairs = (("requested_bytes_peak", "requested_bytes_peak_ours"), ("reserved_bytes_peak", "reserved_bytes_peak_ours"), ("requests", "equal_places"))
    return all(row[theirs] == row[ours] for theirs, ours in pairs) and row["end_equal"] == "yes"


def replay_table(rows, sources):
    lines = []
    for row in rows:
        source = next(one for one in sources if (one["repository"], one["commit"], one["path"]) == (row["repository"], row["commit"], row["path"]))
        name = row["path"] + (f", device {row['device']}" if row["device"] != "0" else "")
        fresh = row["fresh_reserved_bytes_peak_ours"]
        lines.append([row["repository"], name, source["pytorch"] or row["release_by_keys"], int(row["requested_bytes_peak"]),
                      int(row["reserved_bytes_peak"]), f"{row['equal_places']} of {row['requests']}",
                      "equal" if is_equal(row) else row["reason"] or "see above",
                      ("equal" if fresh == row["reserved_bytes_peak"] else fresh) if fresh else ""])
    return text.table(["repository", "file", "PyTorch", "peak requested, bytes:", "peak reserved, bytes:", "places:", "all of it", "fresh heap"], lines)


def replay_summary(rows):
    asked = [row for row in rows if int(row["requests"]) > 0]
    fresh = [row for row in asked if row["fresh_reserved_bytes_peak_ours"]]

    def both(some):
        return (f"{len(some)} histories of {len({(row['repository'], row['commit'], row['path']) for row in some})} files in "
                f"{len({row['repository'] for row in some})} repositories")

    return (f"With requests: {both(asked)}. Both peaks, every place and the state at the end are equal in {sum(map(is_equal, asked))} of them; "
            f"{sum(int(row['equal_places']) for row in asked):,} of {sum(int(row['requests']) for row in asked):,} requests lie where PyTorch put "
            f"them. Without a request: {len(rows) - len(asked)} histories, equal in {sum(is_equal(row) for row in rows if row not in asked)}. "
            f"Of {len(fresh)} that begin with an empty heap, the simulated H200 reserves the same at most in "
            f"{sum(row['fresh_reserved_bytes_peak_ours'] == row['reserved_bytes_peak'] for row in fresh)}.\n")


def compared(page):
    measured = {(row["repository"], row["path"]): row for row in read_rows(page / "rows.csv")}
    for program, found in zip(read_rows(page / "programs.csv"), read_rows(page / "predictions.csv")):
        row = measured[program["repository"], program["path"]]
        errors = [int(found[ours + end]) / int(row[theirs]) - 1 if found[ours + end] else None for end in ("", "_after")
                  for ours, theirs in (("live_bytes", "requested_bytes_peak"), ("reserved_bytes", "reserved_bytes_peak"))]
        yield program, row, errors


def percent(error):
    return "" if error is None else f"{100 * error:+.2f} %"


def course_tables(page):
    lines, by_model = [], {}
    for program, row, (live, reserved, live_after, reserved_after) in compared(page):
        sizes = [f"{int(row[key]) / 1e9:.3f}" for key in ("requested_bytes_peak", "reserved_bytes_peak")]
        lines.append([program["repository"].split("/")[0], program["path"], program["model"], sizes[0], percent(live), sizes[1], percent(reserved),
                      percent(live_after), percent(reserved_after), program["guessed"], program["reason"]])
        by_model.setdefault(program["model"], []).append((abs(live), abs(reserved)))
    sums = []
    for model, errors in by_model.items():
        parts = [[error[at] for error in errors] for at in (0, 1)]
        sums.append([model, len(errors), *(f"{100 * value:.2f} %" for part in parts for value in (statistics.median(part), max(part))),
                     *(sum(error <= 0.01 for error in part) for part in parts)])
    return (text.table(["model", "files:", "peak requested, median size of error:", "largest:", "peak reserved, median:", "largest:",
                        "requested within 1 %:", "reserved within 1 %:"], sums),
            text.table(["repository of", "file", "model", "peak requested, GB:", "error:", "peak reserved, GB:", "error:", "after the look, requested:",
                        "reserved:", "what was guessed", "why it is off"], lines))


def fill(page_text, name, made):
    head, end = f"<!-- made by scripts/measure/strangers_snapshots.py: {name} -->\n", "<!-- end -->"
    if head not in page_text:
        raise SystemExit(f"README.md has no part '{head.strip()}'")
    before, rest = page_text.split(head, 1)
    return before + head + made + end + rest.split(end, 1)[1]


def page_of(page):
    made = (page / "README.md").read_text(encoding="utf-8")
    rows, sources = read_rows(page / "rows.csv"), read_rows(page / "sources.csv")
    made = fill(fill(made, "summary", replay_summary(rows)), "files", replay_table(rows, sources))
    course = course_tables(page)
    return fill(fill(made, "course", course[0]), "predictions", course[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, *arguments in (("fetch", "page", "folder"), ("check", "allocmark", "page", "folder"), ("compare", "page"),
                             ("record", "python", "simcuda", "page", "folder", "recordings"), ("predict", "allocmark", "page", "recordings")):
        command = commands.add_parser(name)
        for argument in arguments:
            command.add_argument(argument, type=Path if argument in ("page", "folder", "recordings") else str)
    commands.choices["fetch"].add_argument("--address", default="https://github.com/")
    asked = vars(parser.parse_args())
    command = asked.pop("command")
    if command == "compare":
        (asked["page"] / "README.md").write_text(page_of(asked["page"]), encoding="utf-8")
    else:
        {"fetch": fetch, "check": check, "record": record, "predict": predict}[command](**asked)


if __name__ == "__main__":
    main()
