#!/usr/bin/env python3
"""Fragmentation of set-ups as STAlloc's and GMLake's papers describe them, on a simulated H200: the table of allocators/planned/CLAIMS.md.
No GPU is needed, and the figures are the same on every machine.

scripts/measure/paper_claims.py ALLOCMARK            writes the table
scripts/measure/paper_claims.py --check ALLOCMARK    changes nothing; exit code 1 where a figure is not what the table says
    --only N                                         the first N set-ups
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "allocators/planned/CLAIMS.md"
BEGIN = "<!-- made by scripts/measure/paper_claims.py -->"
END = "<!-- end -->"

# What is said of a set-up, its workload, and whose kind it is.
MEGATRON = "implementation=megatron,tp=2,pp=4,batch=1,micro_batches=8,seq=4096,steps=5"
ZERO = "precision=bf16,dp=8,zero=3,batch=2,seq=2048,steps=5"
SETUPS = (
    ("STAlloc", "Llama 2 7B, pipeline", f"train:llama-2-7b,{MEGATRON}"),
    ("STAlloc", "the same, recomputed", f"train:llama-2-7b,{MEGATRON},checkpoint=full"),
    ("STAlloc", "the same, virtual pipeline", f"train:llama-2-7b,{MEGATRON},virtual=2"),
    ("STAlloc", "the same, both", f"train:llama-2-7b,{MEGATRON},virtual=2,checkpoint=full"),
    ("STAlloc", "GPT-2 774M, recomputed", "train:gpt2-774m,batch=8,seq=1024,steps=5,checkpoint=full"),
    ("STAlloc", "Mixtral 8x7B, grouped experts", "train:mixtral-8x7b,dp=8,fsdp=2,layers=4,batch=1,seq=2048,steps=5"),
    ("GMLake", "Llama 2 13B, ZeRO-3", f"train:llama-2-13b,{ZERO}"),
    ("GMLake", "the same, recomputed", f"train:llama-2-13b,{ZERO},checkpoint=full"),
    ("GMLake", "Llama 2 13B, ZeRO-3, LoRA", f"train:llama-2-13b,{ZERO},lora=16"),
    ("GMLake", "the same, LoRA, recomputed", f"train:llama-2-13b,{ZERO},lora=16,checkpoint=full"),
    ("GMLake", "GPT-2 1.5B, recomputed, offload", "train:gpt2-1.5b,batch=4,seq=1024,steps=5,checkpoint=full,offload=states"),
)
SIDES = (("caching", ""), ("caching", "expandable_segments:True"), ("vmm_stitch", ""), ("planned", ""))


def cells_of(program, workloads, allocators, conf, folder):
    subprocess.run([program, "run", "--workload", *workloads, "--allocator", *allocators, "--conf", conf, "--device", "sim:h200",
                    "--passes", "1", "--no-html", "--no-verify", "--allow-debug", "--out", str(folder)], check=True, capture_output=True)
    lines = (folder / "results.jsonl").read_text().splitlines()
    return [cell for cell in map(json.loads, lines) if cell["kind"] == "cell"]


def share(cell):
    """STAlloc's metric, with requests rounded to 512 B as what is allocated: an allocator that rounds more wastes more. Of a plan it
    counts from the plan on."""
    if cell is None or cell["status"] != "ok" or cell["oom_count"] > 0:
        return None
    reserved = cell["reserved_bytes_peak"]
    if cell["allocator"] == "planned" and cell["counters"]["plan_requests"] > 0:
        reserved = cell["counters"]["planned_reserved_bytes_peak"]
    return 1 - min(cell["rounded_bytes_peak"] / reserved, 1)


def percent(value):
    return "-" if value is None else f"{100 * value:.1f} %"


def cells_of_all(program, setups):
    with tempfile.TemporaryDirectory() as folder:
        words = [workload for _, _, workload in setups]
        cells = cells_of(program, words, ["caching", "vmm_stitch", "planned"], "unset", Path(folder) / "unset")
        cells += cells_of(program, words, ["caching"], "expandable_segments:True", Path(folder) / "expandable")
    return cells


def rows_of(cells, setups):
    found = {(cell["workload"], cell["allocator"], cell["conf"]): cell for cell in cells}
    rows = []
    for paper, name, workload in setups:
        shares = [share(found.get((workload, *side))) for side in SIDES]
        less = [None if one is None or not shares[0] else 1 - one / shares[0] for one in shares[1:]]
        peak = found[workload, "caching", ""]["requested_bytes_peak"] / 2**30
        rows.append((paper, name, peak, shares, less))
    return rows


def table_of(rows):
    text = "| paper | set-up | asked, GiB | `caching` | expandable | `vmm_stitch` | `planned` |\n| :-- | :-- | --: | --: | --: | --: | --: |\n"
    for paper, name, peak, shares, _ in rows:
        text += f"| {paper} | {name} | {peak:.2f} | " + " | ".join(map(percent, shares)) + " |\n"
    text += "\n| less fragmentation than `caching`, mean | expandable | `vmm_stitch` | `planned` |\n| :-- | --: | --: | --: |\n"
    for paper in ("STAlloc", "GMLake"):
        means = []
        for side in range(3):
            known = [less[side] for one, _, _, _, less in rows if one == paper and less[side] is not None]
            means.append(percent(sum(known) / len(known)) if known else "-")
        text += f"| set-ups as {paper}'s | " + " | ".join(means) + " |\n"
    text += "\n| set-up | workload |\n| :-- | :-- |\n"
    for _, name, workload in SETUPS[: len(rows)]:
        text += f"| {name} | `{workload}` |\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", type=int, default=len(SETUPS))
    parser.add_argument("program")
    arguments = parser.parse_args()
    setups = SETUPS[: arguments.only]
    table = table_of(rows_of(cells_of_all(arguments.program, setups), setups))
    head, rest = PAGE.read_text().split(BEGIN)
    old, tail = rest.split(END)
    if not arguments.check:
        PAGE.write_text(f"{head}{BEGIN}\n{table}{END}{tail}")
        return 0
    missing = [row for row in table.splitlines() if row.startswith(("| STAlloc", "| GMLake")) and row not in old.splitlines()]
    for row in missing:
        print(f"{PAGE.relative_to(ROOT)} does not say: {row}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
