"""A run as the report has it: its cells, which the facts hold, and the optional timelines/ of its folder. Facts and files flow in; a Run
flows out, or a ReportError that says what, where and what to do next. What is computed of cells comes from allocmark, see facts.py."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# In a checkout results/ stands two folders up; an installed copy has the two files beside this one.
RESULTS_FOLDERS = (HERE.parent.parent / "results", HERE / "results")
SCHEMA_MAJOR = 1


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
        timeline = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
        check_timeline(timeline)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        notes.append(f"timelines/{path.name} cannot be used: {error!r}")
        return None
    return timeline


SERIES = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")


def check_timeline(timeline):
    if not isinstance(timeline, dict) or timeline.get("kind") != "timeline":
        raise ValueError("kind is not timeline")
    if not str(timeline.get("schema_version", "")).startswith(f"{SCHEMA_MAJOR}."):
        raise ValueError(f"schema_version {timeline.get('schema_version')!r} is not {SCHEMA_MAJOR}.x")
    count = len(timeline["event_index"])
    columns = [timeline["event_index"]] + [timeline[name] for name in SERIES if timeline.get(name) is not None]
    for column in columns:
        if len(column) != count or not set(map(type, column)) <= {int, type(None)}:
            raise ValueError("the columns are not whole numbers of the same count")
    for snapshot in timeline.get("snapshots", []):
        for segment in snapshot["segments"]:
            blocks = segment["blocks"]
            kinds = {type(number) for block in blocks for number in block} | {type(segment["address"])}
            if not kinds <= {int} or not {block[2] for block in blocks} <= {0, 1, 2} or {len(block) for block in blocks} - {3}:
                raise ValueError("a block of a snapshot is not [address, size_bytes, 0 or 1 or 2]")
