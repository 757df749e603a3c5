#!/usr/bin/env python3
"""What `allocmark qualify` writes keeps harness/tools/qualify/schema.json, and what breaks it is seen. Skipped where Python has no
jsonschema. Usage: qualify_schema_test.py PATH_OF_ALLOCMARK"""
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import test_packages

jsonschema = test_packages.need("jsonschema", "jsonschema")

SCHEMA = Path(__file__).resolve().parents[3] / "harness" / "tools" / "qualify" / "schema.json"


def report(program, faults):
    words = [program, "qualify", "--device", "sim:h200", "--gpus", "2", "--format", "json"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, env={**os.environ, "SIMCUDA_GPU_FAULTS": faults}).stdout)


def main(program):
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    failures = []
    for faults in ("", "0:leak_every=7", "0:nvml_error=9", "1:foreign_bytes=8589934592"):
        for error in validator.iter_errors(report(program, faults)):
            failures.append(f"'{faults}': {error.json_path}: {error.message[:200]}")
    broken = report(program, "")
    broken["gpus"][0]["verdict"] = "GOOD"
    del broken["node"]
    broken["more"] = 1
    if len(list(validator.iter_errors(broken))) != 3:
        failures.append("three planted mistakes were not all seen")
    for failure in failures:
        print(f"qualify_schema_test: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
