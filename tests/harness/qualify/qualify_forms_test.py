#!/usr/bin/env python3
"""Every form in which `allocmark qualify` hands over what it found, read by its own reader. Usage: qualify_forms_test.py PATH_OF_ALLOCMARK"""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path


def qualify(program, *words, faults=""):
    run = subprocess.run(
        [program, "qualify", "--device", "sim:h200", "--gpus", "2", "--node", 'n"1', *words],
        capture_output=True,
        text=True,
        env={**os.environ, "SIMCUDA_GPU_FAULTS": faults},
    )
    return run.returncode, run.stdout


def check_lines(program, check):
    """What is printed for schedulers, and what hides who the node is."""
    code, line = qualify(program, "--one-line", faults="0:ecc_corrected=50")
    check("one line, WARN is still fit", code == 0 and line.startswith("WARN gpu/preconditions on") and line.count("\n") == 1)
    check("the first 80 bytes say what and where", "0000:06:00.0" in line[:80] and "corrected" in line[:80])
    code, line = qualify(program, "--one-line", "--fail-on", "warn", faults="0:ecc_corrected=50")
    check("one line, 1: not fit", code == 1)
    code, line = qualify(program, "--one-line", faults="0:foreign_bytes=8589934592")
    check("one line, 2: nobody can tell", code == 2 and line.startswith("UNKNOWN"))
    code, text = qualify(program, "--format", "json", "--anonymous")
    report = json.loads(text)
    check("anonymous", report["anonymous"] and not report["node"]["name"] and not any(g["uuid"] + g["serial"] + g["pci_bus_id"] for g in report["gpus"]))
    check("anonymous GPUs can still be told apart", len({g["uuid_hash"] for g in report["gpus"]}) == 2)


def main(program):
    failures = []

    def check(name, holds):
        if not holds:
            failures.append(name)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # GPU 0 leaks, GPU 1 is hot: FAIL and WARN.
        code, table = qualify(program, "--out", name, faults="0:leak_every=7;1:celsius=80")
        check("exit code 1", code == 1)
        report = json.loads((folder / "qualify.json").read_text())
        gpu = report["gpus"][0]
        check("node", report["node"]["name"] == 'n"1' and report["node"]["driver_version"])
        check("GPU", gpu["uuid"].startswith("GPU-") and gpu["pci_bus_id"] == "0000:06:00.0" and gpu["serial"].startswith("SIM"))
        check("the table says who the GPU is", gpu["uuid"] in table and gpu["serial"] in table)
        check("stable ids", {"gpu/leaks", "gpu/health"} <= {test["id"] for test in gpu["tests"]})
        times = [f["measured_ns"] for test in gpu["tests"] if test["test"] == "latency" for f in test["figures"] if f["threshold"] not in ("", "latency.drift")]
        check("latencies are stored as times", times and all(ns and ns > 0 for ns in times))

        junit = xml.parse(folder / "qualify.xml").getroot()
        kinds = {(case.get("name"), child.tag) for case in junit.iter("testcase") for child in case if child.tag != "system-out"}
        check("JUnit: FAIL is a failure", ("gpu/leaks", "failure") in kinds)
        check("JUnit: WARN is seen", any(skipped.get("message").startswith("WARN: temperature") for skipped in junit.iter("skipped")))

        events = [json.loads(line) for line in (folder / "nvsentinel.jsonl").read_text().splitlines()]
        bad = [event for event in events if not event["isHealthy"]]
        check("NVSentinel: one event a test", len(events) == sum(len(g["tests"]) for g in report["gpus"]) + len(report["node_tests"]))
        check("NVSentinel: leaks are fatal", [e["isFatal"] for e in bad if e["checkName"] == "gpu/leaks"] == [True])
        check("NVSentinel: heat is not", [e["isFatal"] for e in bad if e["checkName"] == "gpu/preconditions"] == [False])
        check("NVSentinel: entities", {"entityType": "GPU_UUID", "entityValue": gpu["uuid"]} in bad[0]["entitiesImpacted"])

        lines = (folder / "superbench.jsonl").read_text().splitlines()
        metrics = json.loads(lines[0])
        check("SuperBench: one line of numbers", len(lines) == 1 and all(isinstance(v, (int, float)) for k, v in metrics.items() if k != "node"))
        check("SuperBench: node and code", metrics["node"] == 'n"1' and metrics["allocmark-qualify/return_code"] == 1)

        dcgm = json.loads((folder / "dcgm.json").read_text())["DCGM Diagnostic"]["test_categories"][0]["tests"]
        leaks = next(test for test in dcgm if test["name"] == "gpu/leaks")
        check("DCGM: results by GPU", [result["status"] for result in leaks["results"]] == ["Fail", "Pass"])
        check("DCGM: the worst is the summary", leaks["test_summary"]["status"] == "Fail")

        prom = (folder / "allocmark_qualify.prom").read_text()
        check("Prometheus: quotes are escaped", 'node="n\\"1"' in prom)
        check("Prometheus: ends with a newline", prom.endswith("\n") and "\n\n" not in prom)

    check_lines(program, check)
    for failure in failures:
        print(f"qualify_forms_test: {failure}: does not hold", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
