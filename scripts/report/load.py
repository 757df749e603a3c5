"""Reads a results folder: results.jsonl as results/DEFINITIONS.md defines it, and the optional timelines/. Files flow in; a Run
flows out, or a ReportError that says what, where and what to do next. What is computed from them comes from allocmark, see facts.py."""

import hashlib
import json
import re
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


class _Checker:
    """The part of JSON Schema that schema.json uses, so that a broken line is named instead of drawn."""

    TYPES = {
        "object": lambda value: isinstance(value, dict),
        "array": lambda value: isinstance(value, list),
        "string": lambda value: isinstance(value, str),
        "boolean": lambda value: isinstance(value, bool),
        "null": lambda value: value is None,
        "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
        "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    }

    def __init__(self, schema, newer_minor):
        self.definitions = schema["$defs"]
        self.newer_minor = newer_minor  # keys of a newer minor version are ignored

    def check(self, value, rule, where):
        if "$ref" in rule:
            rule = self.definitions[rule["$ref"].rsplit("/", 1)[1]]
        if "anyOf" in rule:
            return self._check_any(value, rule["anyOf"], where)
        types = rule.get("type")
        if types is not None:
            names = types if isinstance(types, list) else [types]
            if not any(self.TYPES[name](value) for name in names):
                raise ValueError(f"{where}: wanted {' or '.join(names)}, got {json.dumps(value)[:60]}")
        if "const" in rule and value != rule["const"]:
            raise ValueError(f"{where}: wanted {rule['const']!r}, got {json.dumps(value)[:60]}")
        if "enum" in rule and value not in rule["enum"]:
            raise ValueError(f"{where}: wanted one of {', '.join(rule['enum'])}, got {json.dumps(value)[:60]}")
        if "pattern" in rule and not re.search(rule["pattern"], value):
            raise ValueError(f"{where}: {json.dumps(value)[:60]} does not match {rule['pattern']}")
        if "minimum" in rule and value is not None and not rule["minimum"] <= value <= rule["maximum"]:
            raise ValueError(f"{where}: {value} is out of range")
        if isinstance(value, dict):
            self._check_object(value, rule, where)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self.check(item, rule.get("items", {}), f"{where}[{index}]")

    def _check_any(self, value, rules, where):
        if value is None and any(rule.get("type") == "null" for rule in rules):
            return
        self.check(value, rules[0], where)

    def _check_object(self, value, rule, where):
        missing = [name for name in rule.get("required", []) if name not in value]
        if missing:
            raise ValueError(f"{where}: {missing[0]} is missing")
        properties, others = rule.get("properties", {}), rule.get("additionalProperties", True)
        for name, item in value.items():
            if name in properties:
                self.check(item, properties[name], f"{where}.{name}" if where != "line" else name)
            elif isinstance(others, dict):
                self.check(item, others, f"{where}.{name}")
            elif others is False and not self.newer_minor:
                raise ValueError(f"{where}: unknown key {name!r}")


def _check_version(version, schema):
    ours = re.search(r"Schema (\d+)\.(\d+)", schema["description"])
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version or "")
    if match is None or int(match[1]) != int(ours[1]):
        raise ValueError(
            f"schema_version: this report reads {ours[1]}.x, got {version!r}; use the allocmark that wrote it, or run again"
        )
    return int(match[2]) > int(ours[2])


def _read_line(text, schema):
    try:
        line = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(line, dict):
        raise ValueError("not a JSON object")
    if line.get("kind") not in ("environment", "cell"):
        raise ValueError(f"kind: wanted environment or cell, got {json.dumps(line.get('kind'))[:60]}")
    newer_minor = _check_version(line.get("schema_version"), schema)
    _Checker(schema, newer_minor).check(line, {"$ref": "#/$defs/" + line["kind"]}, "line")
    return line


def read_run(folder):
    folder = Path(folder)
    path = folder / "results.jsonl"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror}; give a folder that 'allocmark run' wrote") from None
    schema = json.loads(results_file("schema.json").read_text())
    *lines, torn = data.split(b"\n")
    run = Run(folder=folder, environment={}, cells=[], results_sha256=hashlib.sha256(data).hexdigest())
    if torn:
        run.notes.append(
            "The last line of results.jsonl is incomplete and was left out: the run was broken off, or is still going on."
        )
    by_id, repeated = {}, 0
    for number, raw in enumerate(lines, 1):
        try:
            line = _read_line(raw.decode("utf-8"), schema)
            if (line["kind"] == "environment") != (number == 1):
                raise ValueError("the first line, and no other, must be the environment")
        except ValueError as error:
            raise ReportError(f"{path}:{number}: {error}; nothing was written") from None
        if number == 1:
            run.environment = line
            continue
        repeated += line["cell_id"] in by_id
        by_id.pop(line["cell_id"], None)
        by_id[line["cell_id"]] = line
    if not run.environment:
        raise ReportError(f"{path} has no complete line; run again with 'allocmark run --out {folder}'")
    run.environment["warnings"] = run.environment["warnings"] + find_conditions(folder)
    run.cells = list(by_id.values())
    if not run.cells:
        raise ReportError(f"{path} has no cells yet, so there is nothing to report; finish it with 'allocmark run --resume'")
    if repeated:
        run.notes.append(f"{repeated} cells were run again; only the last result of each counts.")
    run.timelines = find_timelines(folder, by_id)
    return run


def find_conditions(folder):
    """The warnings of conditions.json: what else went on during the run. None where the run has no such file."""
    path = folder / "conditions.json"
    if not path.exists():
        return []
    try:
        warnings = json.loads(path.read_text())["warnings"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{path} is no conditions.json of a run ({error}); delete it to go on without it") from None
    if not isinstance(warnings, list) or not all(isinstance(warning, str) for warning in warnings):
        raise ReportError(f"{path}: warnings: wanted a list of texts; delete it to go on without it")
    return warnings


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
