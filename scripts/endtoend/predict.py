"""Asks allocmark what a recorded job does under each setting, with so much memory."""
import bisect
import gzip
import json
import os
import subprocess
import sys
import tempfile


def steps_of(trace):
    """Places and labels of the marks; places count events from 0."""
    places, labels, place = [], [], 0
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        for line in file:
            if line.startswith(("#", "op,")):
                continue
            if line.startswith("mark,"):
                places.append(place)
                labels.append(line.split(",")[1])
            place += 1
    return places, labels


def step_of(label):
    """step3 is 3; what comes before the first step is -1, as in a row of a real run."""
    return int(label[4:]) if label.startswith("step") and label[4:].isdigit() else -1


def ms(value_ns):
    return None if value_ns is None else round(value_ns / 1e6, 3)


def row_of(cell, places, labels):
    first = cell["oom_first"]
    return {"setting": cell["conf"], "status": cell["status"], "reason": cell["reason"],
            "oom_step": None if first is None else step_of(labels[bisect.bisect_right(places, first["event_index"]) - 1]),
            "oom_count": cell["oom_count"], "idle_oom_count": cell["idle_oom_count"], "retries": cell["retry_count"],
            "device_allocs": cell["device_allocate_count"], "device_frees": cell["device_free_count"],
            "peak_reserved_bytes": cell["reserved_bytes_peak"], "step_ms": ms(cell["step_ns_mean"]), "ideal_step_ms": ms(cell["step_ideal_ns_mean"]),
            "allocator_ms": ms(cell["allocator_ns_per_step"])}


def ask(options, recorded, room_bytes, settings):
    """A row for each setting."""
    trace = os.path.join(options.out, recorded["trace"])
    release = ".".join(recorded["torch"].split(".")[:2])
    places, labels = steps_of(trace)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        command = [options.allocmark, "run", "--workload", f"file:{trace}", "--allocator", f"caching@{release}", "--device", options.device,
                   "--capacity", f"{room_bytes}B", "--passes", "1", "--no-html", "-q", "--out", out]
        for setting in settings:
            command += ["--conf", setting or "unset"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        path = os.path.join(out, "results.jsonl")
        if not os.path.exists(path):
            sys.exit(f"endtoend.py: allocmark gave no answer for {trace}: {result.stderr.strip()[-600:]}")
        with open(path, encoding="utf-8") as file:
            cells = [cell for cell in map(json.loads, file) if cell["kind"] == "cell"]
    return [{"room_bytes": room_bytes, **row_of(cell, places, labels)} for cell in cells]
