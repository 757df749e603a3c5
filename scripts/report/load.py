"""A run as the report has it: its cells, which the facts hold, and the optional timelines/ of its folder. Facts and files flow in; a Run
flows out, or a ReportError that says what, where and what to do next. What is computed of cells comes from allocmark, see facts.py."""

import hashlib
import itertools
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# In a checkout results/ stands two folders up; an installed copy has the two files beside this one.
RESULTS_FOLDERS = (HERE.parent.parent / "results", HERE / "results")
SCHEMA_MAJOR = 1
# A timeline of allocmark has at most a few MB: moments and maps are thinned when it is written.
TIMELINE_BYTES_MAX = 64 << 20
NUMBER_MAX = 1 << 53
NOTE_CHARACTERS_MAX = 300


class ReportError(Exception):
    """A problem of the input, worded for the person who asked for the report."""


@dataclass
class Run:
    folder: Path
    environment: dict
    cells: list
    notes: list = field(default_factory=list)  # what a reader must know about the file itself
    timelines: dict = field(default_factory=dict)  # cell_id -> path of its timeline
    results_sha256: str = ""
    sample_count_min: dict = field(default_factory=dict)  # "p99" -> samples that it needs; this and the next three from facts.py
    comparisons: list = field(default_factory=list)  # with other runs, as allocmark judged them
    answers: dict = field(default_factory=dict)  # which settings serve every request, at what cost
    columns: dict = field(default_factory=dict)  # of the tables: headings and values


def results_file(name):
    for folder in RESULTS_FOLDERS:
        if (folder / name).is_file():
            return folder / name
    raise ReportError(f"{name} is missing; looked in {', '.join(str(folder) for folder in RESULTS_FOLDERS)}")


def _no_constant(text):
    raise ValueError(f"{text} is not a number that results may contain")


def read_run(folder, facts):
    """The run of the facts, which hold its cells as well: allocmark has read and checked results.jsonl, whose hash the page names."""
    folder = Path(folder)
    if not facts["cells"]:
        raise ReportError(f"{folder / 'results.jsonl'} has no cells yet, so there is nothing to report; finish it with 'allocmark run --resume'")
    run = Run(folder=folder, environment=facts["environment"], cells=facts["cells"], results_sha256=_hash_of(folder / "results.jsonl"))
    run.notes = facts["notes"]
    run.timelines = find_timelines(folder, {cell["cell_id"] for cell in run.cells})
    return run


def _hash_of(path):
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror}; give a folder that 'allocmark run' wrote") from None
    return digest.hexdigest()


def find_timelines(folder, by_id):
    """{cell_id: path}; what is not of a cell of this run is left alone."""
    paths = {path.stem: path for path in sorted((folder / "timelines").glob("*.json"))}
    return {cell_id: path for cell_id, path in paths.items() if cell_id in by_id}


def read_timeline(path, notes):
    """The timeline, or None and a note: a broken one costs its chart, not the report."""
    try:
        timeline = json.loads(_text_of(path), parse_constant=_no_constant)
        check_timeline(timeline)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        notes.append(f"timelines/{path.name} cannot be used: {repr(error)[:NOTE_CHARACTERS_MAX]}")
        return None
    return timeline


def _text_of(path):
    """Of a regular file of an honest size: a link may lead to a device that never ends, and a pipe may have nobody who writes."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if found.st_size > TIMELINE_BYTES_MAX:
            raise ValueError(f"it has {found.st_size} bytes, and {TIMELINE_BYTES_MAX} is the most")
        return file.read(TIMELINE_BYTES_MAX).decode()


def _check_numbers(name, numbers, ascending=False, optional=False):
    """Whole numbers that a double holds exactly: beyond them a chart's arithmetic ends."""
    if not isinstance(numbers, list) or not set(map(type, numbers)) <= ({int, type(None)} if optional else {int}):
        raise ValueError(f"{name} is not a list of whole numbers")
    if any(number is not None and abs(number) > NUMBER_MAX for number in numbers):
        raise ValueError(f"{name} has a number beyond 2^53")
    if ascending and any(after < before for before, after in itertools.pairwise(numbers)):
        raise ValueError(f"{name} does not ascend")


SERIES = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")


def _check_pools(pools):
    if not isinstance(pools, dict):
        raise ValueError("private_pools is no object")
    _check_numbers("event_index of private_pools", pools["event_index"], ascending=True)
    for name in ("reserved_bytes", "live_bytes"):
        _check_numbers(name, pools[name])
        if len(pools[name]) != len(pools["event_index"]):
            raise ValueError(f"{name} of private_pools has another count of numbers than event_index")
    if not isinstance(pools["captures"], list):
        raise ValueError("captures is no list")
    for capture in pools["captures"]:
        _check_numbers("a capture", capture)
        if len(capture) != 3 or capture[0] > capture[1]:
            raise ValueError("a capture is not [first event, last event, 0 or 1]")


def check_timeline(timeline):
    if not isinstance(timeline, dict) or timeline.get("kind") != "timeline":
        raise ValueError("kind is not timeline")
    if not str(timeline.get("schema_version", "")).startswith(f"{SCHEMA_MAJOR}."):
        raise ValueError(f"schema_version {timeline.get('schema_version')!r} is not {SCHEMA_MAJOR}.x")
    _check_numbers("event_index", timeline["event_index"], ascending=True)
    for name in ("mark_event_index", "oom_event_index"):
        _check_numbers(name, timeline.get(name) or [], ascending=True)
    for name in SERIES:
        if timeline.get(name) is None:
            continue
        _check_numbers(name, timeline[name], optional=True)
        if len(timeline[name]) != len(timeline["event_index"]):
            raise ValueError(f"{name} has another count of numbers than event_index")
    if "private_pools" in timeline:
        _check_pools(timeline["private_pools"])
    for snapshot in timeline.get("snapshots", []):
        _check_numbers("event_index of a snapshot", [snapshot["event_index"]])
        for segment in snapshot["segments"]:
            blocks = segment["blocks"]
            _check_numbers("a segment", [segment["address"], *(number for block in blocks for number in block)])
            if not {block[2] for block in blocks} <= {0, 1, 2} or {len(block) for block in blocks} - {3}:
                raise ValueError("a block of a snapshot is not [address, size_bytes, 0 or 1 or 2]")
