#!/usr/bin/env python3
"""A fleet of simulated nodes, a few of them bad: `allocmark merge` names these, why, and no other.

Usage: many_nodes_test.py PROGRAM [NODES] [SEED]. Every node is qualified as it would be in its own job, as many at a time as
there are processors. Healthy nodes differ by up to 3 % in the time of their calls. With 200 nodes or more there are three bad
ones of each kind, else one."""
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# What is wrong, what is planted, what the table must say of such a node.
KINDS = [
    ("leaks", "0:leak_every=7", "gpu/recovery"),
    ("falls off the bus", "0:lost_at=3000;0:lost_file={file}", "gpu/capacity"),
    ("is slow", "0:slow_percent=160", "mean over all calls is 1.6"),
    ("flips a bit", "0:corrupt_view=6000", "gpu/integrity"),
    ("hangs", "0:hang_at=100", "did not end within"),
]
HANGS_FOR_S = 8


def plan(count, seed):
    """By name: what the node's GPU has, and what its row must say (empty: the node is healthy)."""
    generator = random.Random(seed)
    names = [f"node-{number:05}" for number in range(count)]
    nodes = {name: (f"0:slow_percent={97 + generator.randrange(7)}", "") for name in names}
    per_kind = 3 if count >= 200 else 1
    chosen = generator.sample(names, per_kind * len(KINDS))
    for number, name in enumerate(chosen):
        nodes[name] = KINDS[number % len(KINDS)][1:]
    return nodes


def qualify(program, work, name, faults):
    environment = {**os.environ, "SIMCUDA_NODE": name, "SIMCUDA_GPU_FAULTS": faults.format(file=work / f"{name}.lost")}
    words = [program, "qualify", "--device", "sim:h200", "--level", "quick", "--node", name, "--out", str(work / "nodes" / name)]
    if "hang_at" in faults:
        words += ["--time-limit", str(HANGS_FOR_S)]
    subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def problems_of(nodes, merged, fleet):
    bad = sorted(name for name, (_, reason) in nodes.items() if reason)
    rows = {name: next((line for line in (fleet / "fleet.txt").read_text().splitlines() if f"{name}:" in line), "") for name in bad}
    found = {kind: (fleet / f"{kind}.txt").read_text().split() for kind in ("drain", "retry")}
    problems = [f"{name}: wanted '{nodes[name][1]}' in its row, got '{rows[name]}'" for name in bad if nodes[name][1] not in rows[name]]
    problems += [f"{name} is bad and not in drain.txt" for name in bad if name not in found["drain"]]
    problems += [f"{name} is healthy and in drain.txt" for name in found["drain"] if name not in bad]
    problems += [f"{name} is in retry.txt" for name in found["retry"]]
    if merged.returncode != 1 or f"{len(nodes)} nodes: {len(bad)} drain, 0 look, 0 retry, 0 watch, {len(nodes) - len(bad)} use" not in merged.stdout:
        problems.append(f"merge: exit code {merged.returncode}, ends with\n{merged.stdout[-600:]}{merged.stderr[-600:]}")
    return bad, problems


def main(program, count=40, seed=1):
    nodes = plan(int(count), int(seed))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        work = Path(folder)
        (work / "names.txt").write_text("\n".join(nodes))
        # A hanging node only waits, so it begins first and gets a place of its own.
        hanging = [name for name, (faults, _) in nodes.items() if "hang_at" in faults]
        with ThreadPoolExecutor(len(hanging)) as waiting:
            jobs = [waiting.submit(qualify, program, work, name, nodes[name][0]) for name in hanging]
            jobs += [pool.submit(qualify, program, work, name, nodes[name][0]) for name in nodes if name not in hanging]
            for job in jobs:
                job.result()
        qualified_s = time.monotonic() - began
        merged = subprocess.run([program, "merge", str(work / "nodes"), "--expect", str(work / "names.txt"), "--out", str(work / "fleet")],
                                capture_output=True, text=True, check=False)
        bad, problems = problems_of(nodes, merged, work / "fleet")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(nodes)} nodes, {len(bad)} of them bad: qualified in {qualified_s:.0f} s, merged in {time.monotonic() - began - qualified_s:.1f} s, "
          f"{(used.ru_utime + used.ru_stime) / len(nodes):.2f} s of processor time a node, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    for problem in problems:
        print(f"many_nodes_test: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
