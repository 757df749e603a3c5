#!/usr/bin/env python3
"""The Kubernetes manifests keep Kubernetes' schemas, and their commands do what they say. Skipped where Python has no
kubernetes_validate or yaml (PyPI: kubernetes-validate). Usage: manifests_test.py PATH_OF_ALLOCMARK"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

sys.path.insert(0, str(ROOT / "tests" / "support"))
import test_packages  # noqa: E402

kubernetes_validate, yaml = test_packages.need("kubernetes-validate", "kubernetes_validate", "yaml")

FOLDER = ROOT / "scripts" / "fleet" / "kubernetes"
VERSIONS = ("1.28", "1.34")
failures = []


def check(name, holds):
    if not holds:
        failures.append(name)


def complaint(manifest, version):
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{error.message}"[:200]
    return ""


def run(name, program, work, **environment):
    """Runs a manifest's command as its container would, with the volumes in `work`."""
    manifest = yaml.safe_load((FOLDER / name).read_text())
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    values = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    values = {key: str(work) + value if value.startswith("/") else value for key, value in values.items()}
    binaries = work / "bin"
    binaries.mkdir(exist_ok=True)
    if not (binaries / "allocmark").exists():
        wrapper = f'#!/bin/bash\nif [ "$1" = qualify ]; then shift; set -- qualify --device sim:h200 "$@"; fi\nexec "{program}" "$@"\n'
        (binaries / "allocmark").write_text(wrapper)
        (binaries / "allocmark").chmod(0o755)
    for folder in ("results", "textfiles", "dev"):
        (work / folder).mkdir(exist_ok=True)
    settings = {**os.environ, **values, **environment, "PATH": f"{binaries}:{os.environ['PATH']}"}
    return subprocess.run([*container["command"], *container["args"]], env=settings, capture_output=True, text=True, timeout=300)


def main(program):
    names = sorted(path.name for path in FOLDER.glob("*.yaml"))
    check("four manifests", len(names) == 4)
    for name in names:
        manifest = yaml.safe_load((FOLDER / name).read_text())
        for version in VERSIONS:
            problem = complaint(manifest, version)
            check(f"{name} against Kubernetes {version}: {problem}", not problem)
        manifest["spec"]["template"]["spec"]["containers"][0]["comand"] = ["x"]
        check(f"{name}: a planted mistake is seen", complaint(manifest, VERSIONS[-1]))

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        first = run("qualify-job.yaml", program, work, NODE_NAME="k1", SIMCUDA_NODE="k1")
        check(f"a healthy node: {first.returncode} {first.stderr[-200:]}", first.returncode == 0)
        bad = run("qualify-job.yaml", program, work, NODE_NAME="k2", SIMCUDA_NODE="k2", SIMCUDA_GPU_FAULTS="0:leak_every=7")
        check("an unfit node", bad.returncode == 1)
        check("its termination message", (work / "dev/termination-log").read_text().startswith("FAIL gpu/"))
        merged = run("qualify-merge-job.yaml", program, work)
        check(f"merge: {merged.returncode} {merged.stderr[-200:]}", merged.returncode == 1)
        check("the list to drain", (work / "results/fleet/drain.txt").read_text() == "k2\n")
        run("qualify-daemonset.yaml", program, work, NODE_NAME="k3", SIMCUDA_NODE="k3", PERIOD_S="0")
        check("the textfile", 'node="k3"' in (work / "textfiles/allocmark_qualify.prom").read_text())
        options = "--workload comb:count=4 --allocator caching native --seeds 2 --passes 1 --device sim:h200 --allow-debug"
        for index in ("0", "1", "1"):
            shard = run("suite-job.yaml", program, work, JOB_COMPLETION_INDEX=index, SHARD_COUNT="2", RUN_OPTIONS=options)
            check(f"shard {index}: {shard.stderr[-300:]}", shard.returncode == 0)
        whole = subprocess.run([program, "merge", work / "results/shards", "--out", work / "whole"], capture_output=True, text=True)
        check(f"shards merge: {whole.stdout}{whole.stderr}", whole.returncode == 0 and "4 of 4 cells, from 2 shards" in whole.stdout)
    for failure in failures:
        print(f"manifests_test: {failure}: does not hold", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
