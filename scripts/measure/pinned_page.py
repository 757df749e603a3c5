#!/usr/bin/env python3
"""Makes the page of pinned memory from what was measured on a card, and from what each release is said to pin.

scripts/measure/pinned_page.py FOLDER > FOLDER/README.md
scripts/measure/pinned_page.py FOLDER --ask build/release/bin/allocmark   writes FOLDER/raw/pinned.jsonl anew

FOLDER/raw holds pinned_card.jsonl (pinned_card.py), small_blocks.jsonl (its lines `rounding`) and pinned.jsonl, the answers of
`allocmark pinned --workload W --format json`.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pin_middle
import pinned_card

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "publish"))
from text import table

GIB, MIB = 1 << 30, 1 << 20


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def ask(folder, program):
    with open(folder / "raw/pinned.jsonl", "w", encoding="utf-8") as file:
        for name, workload in pinned_card.WORKLOADS.items():
            told = subprocess.run([program, "pinned", "--workload", workload, "--format", "json"], check=True, capture_output=True, text=True)
            file.write(json.dumps({"name": name, "workload": workload, **json.loads(told.stdout)}) + "\n")


def numbers_table(head, rows):
    """A table whose columns but the first are numbers."""
    return table([head[0], *(f"{name}:" for name in head[1:])], rows).rstrip("\n")


def gib(size):
    return f"{size / GIB:.2f}"


def releases_table(answers):
    """What each workload pins: its rows without settings by release, the keys that stop the rounding, and exact pinning."""
    def setting(row):
        names = row["releases"]
        return (names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", row["conf"])

    settings = []
    for row in (row for answer in answers for row in answer["rows"]):
        if setting(row) not in settings:
            settings.append(setting(row))
    rows = []
    for answer in answers:
        pinned = {setting(row): row["pinned_bytes"] for row in answer["rows"]}
        cells = ["" if pinned.get(one) is None else gib(pinned[one]) for one in settings]
        rows.append([answer["name"], gib(answer["asked_bytes"]), *cells, gib(answer["exact"][0]["pinned_bytes"])])
    return numbers_table(["workload", "asked", *(f"{releases}, {'`' + conf + '`' if conf else 'unset'}" for releases, conf in settings), "exact"], rows)


def compare_table(lines):
    rows, found = [], {}
    for line in lines:
        if "compare" in line:
            found.setdefault((line["compare"], line["conf"]), {})[line["what"]] = (line["predicted"], line["measured"])
    for (name, conf), numbers in found.items():
        said, held = numbers["pinned_bytes"]
        said_ns, took_ns = numbers["pinning_ns"]
        rows.append([name + (", registered" if conf else ""), gib(said), gib(held), f"{100 * (said - held) / held:+.1f} %",
                     "{} / {}".format(*numbers["pin_count"]), f"{said_ns / took_ns:.2f}"])
    return numbers_table(["workload", "predicted GiB", "PyTorch 2.11 held", "off", "blocks, said / made", "time in pinning, said / taken"], rows)


def costs_table(lines):
    costs = {}
    for line in lines:
        if "cost" in line and line["node"] is None:
            costs.setdefault(line["cost"], {})[line["mib"]] = statistics.median(line["ns"]) / line["mib"] / 1000
    sizes = sorted({size for of in costs.values() for size in of})
    return numbers_table(["us per MiB, median", *(f"{size} MiB" for size in sizes)],
                 [[call, *(f"{of[size]:.0f}" for size in sizes)] for call, of in costs.items()])


def charged_table():
    return numbers_table(["call", "host of", *(f"{size} MiB" for size in pin_middle.SIZES_MIB)], pin_middle.ratios(pin_middle.hosts()))


def slab_table(slabs):
    rows = [[line["slab"], "yes" if line["company"] else "no", *(f"{statistics.median(line[key]) / 1000:.1f}" for key in ("alloc_ns", "free_ns"))]
            for line in slabs if "slab" in line]
    return numbers_table(["bytes asked", "another small block lives", "cudaMallocHost, us", "cudaFreeHost, us"], rows)


def rss_words(slabs):
    """What the process had before, with 64 MiB of blocks, and after their end, by the size of a block."""
    return "; ".join("{} of {} bytes: {}".format(line["count"], line["slabs_filled"], ", ".join(f"{kib / 1024:.0f}" for kib in line["rss_kib"]))
                     for line in slabs if "slabs_filled" in line)


def slower_words(slabs, costs):
    """How much longer 1 MiB took alone a minute later."""
    alone = next(line for line in slabs if line.get("slab") == MIB and not line["company"])
    later = next(line for line in costs if line["cost"] == "cudaMallocHost" and line["mib"] == 1)
    return f"{statistics.median(later['ns']) / statistics.median(alone['alloc_ns']):.1f}"


def rounding_table(lines):
    rows = [[line["asked"], line["count"], f"{line['vm_rss_kib'] * 1024 / line['count']:.0f}"] for line in lines if line["rounding"] == "cudaMallocHost"]
    return numbers_table(["bytes asked", "blocks", "bytes of the process, each"], rows)


def page(folder):
    lines, answers = read_lines(folder / "raw/pinned_card.jsonl"), read_lines(folder / "raw/pinned.jsonl")
    small = read_lines(folder / "raw/small_blocks.jsonl")
    slabs, h100 = read_lines(folder / "raw/slabs_h100.jsonl"), read_lines(folder / "raw/pool_costs_h100.jsonl")
    machine = next(line for line in lines if "machine" in line)
    skipped = sum("skipped" in line for line in lines)
    return f"""# Pinned memory: what PyTorch takes for a job, by release, and on a card

`scripts/measure/pinned_page.py` makes this page from `raw/`.

## What each release and setting pins

GiB at most, by `allocmark pinned --workload W`. The workloads are those of `scripts/measure/pinned_card.py`. PyTorch rounds a block
up to a power of two. From 2.13 on `pinned_max_round_threshold_mb` says from where on not. *Exact* is each request by itself, as
the driver takes it (below).

{releases_table(answers)}

## Predicted, then measured

{machine['machine']}, PyTorch {machine['torch']}, {machine['cores']} cores, 2026-11-27. The predictions were committed before
(`scripts/measure/pinned_workloads/predictions.json`). `registered` is `pinned_use_cuda_host_register` with eight threads. {skipped} runs
of settings were left out for want of time.

{compare_table(lines)}

A cache may use a block again once the copies from it have ended. Where the prediction is off, the card ended one copy later than was
said, or earlier, and one block more or less was pinned. Of `fsdp` that block has 1 GiB.

## What pinning costs

The host's time for one call on the same machine. *Touched* memory had been written before.

{costs_table(lines)}

## What simcuda charges

The P50 that simcuda charges for one call, over a host's P50. Five hosts of H200s were measured: two by `pin_costs.py`, three by `allocmark
profile`, at 32 MiB alone. Hosts differ by up to 1.5 times there. simcuda takes the middle of the slowest and the fastest, by ratio, which
keeps the largest ratio least (`scripts/measure/pin_middle.py`). Of a pool each chunk is meant. The smaller the request, the less the
first chunk took. Pools were measured on one host.

{charged_table()}

## What an exact block takes

Resident memory of the process by block of `cudaMallocHost`; `cudaHostAlloc` is equal but for its first block. Blocks of up to 2 MiB are
cut from slabs of 2 MiB in steps of 512 bytes, as cudaMalloc cuts them. So a block just above 1 MiB takes 2 MiB, and one above 512 KiB a
third of a slab. Longer ones take whole pages of 4 KiB. `raw/small_blocks.jsonl` was measured in a call of its own.

{rounding_table(small)}

## A slab goes with its last block

Median of 21 calls on the host of an H100 (driver 580.159.04, 2026-11-27, `scripts/measure/pin_slabs.py`). A small block without company
pins a slab and unpins it again. simcuda charges 600 and 238 us for that, and 2.6 and 1.7 us beside another block.

{slab_table(slabs)}

Resident MiB of the process before, with 64 MiB of blocks, and after their end: {rss_words(slabs)}.

`pin_costs.py` ran on the same host a minute later (`raw/pool_costs_h100.jsonl`). 1 MiB took {slower_words(slabs, h100)} times as long then, and all
calls 1.1 to 2.6 times what simcuda charges. What slowed the host is not known. The table above leaves that run out: no value can be within 15 %
of such a host at both times.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ask", metavar="PROGRAM", help="ask this allocmark what each release pins, before the page is made")
    options = parser.parse_args()
    if options.ask:
        ask(options.folder, options.ask)
    else:
        sys.stdout.write(page(options.folder))


if __name__ == "__main__":
    main()
