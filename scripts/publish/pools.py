#!/usr/bin/env python3
"""Report: what CUDA graphs and private pools cost PyTorch. Rows of `measure/pools_card.py` flow in, Markdown flows out.

usage: pools.py FOLDER        (a folder of results/published, with raw/programs.jsonl and predicted.json)
"""
import json
import sys
from pathlib import Path

from text import table

MIB = 1 << 20


def mib(size):
    return f"{size / MIB:,.0f}"


def of_pools(row, kind):
    return sum(pool[kind] for pool in row["pools"].values())


class Programs:
    def __init__(self, folder):
        lines = (folder / "raw" / "programs.jsonl").read_text().splitlines()
        self.programs = {(entry["program"], entry["conf"]): entry for entry in map(json.loads, lines)}

    def confs(self, name):
        return sorted(conf for program, conf in self.programs if program == name)

    def marks(self, name, conf):
        """{mark: row}."""
        return {row["mark"]: row for row in self.programs[name, conf]["rows"]}


def vllm_estimate(added):
    """The rule of vLLM's profile: what the first graph added, and for each further one what the second did, at least 1 MiB."""
    return added[0][1] + max(added[1][1], MIB) * (len(added) - 1)


def server(programs, predicted):
    rows = []
    for entry in predicted:
        conf = {"unset": "", "expandable": "expandable_segments:True"}[entry["conf"]]
        captured = programs.marks(entry["program"], conf)["captured"]
        added = captured["added"]
        outside = sum(one[1] - one[2] for one in added)
        nodes = sum(one[3] for one in added)
        rows.append([f"`{entry['program']}`", f"`{conf or 'unset'}`", len(added), mib(entry["private_pools_reserved_bytes"]),
                     mib(of_pools(captured, "reserved")), mib(sum(one[1] for one in added)), mib(vllm_estimate(added)),
                     f"{outside / nodes / 1024:.1f} KiB"])
    return table(["program", "config string", "graphs", "pools, predicted", "pools, real", "device, whole capture", "vLLM's rule",
                  "outside the allocator, per node"], rows)


def decoder(programs):
    rows = []
    for name in ("graphs_shared_descending", "graphs_shared_ascending", "graphs_own_pools"):
        for conf in programs.confs(name):
            marks = programs.marks(name, conf)
            captured, deleted = marks["captured"], marks["graphs_deleted"]
            rows.append([f"`{name}`", f"`{conf or 'unset'}`", len(captured["pools"]), mib(of_pools(captured, "reserved")), mib(of_pools(captured, "live")),
                         mib(of_pools(captured, "stranded")), mib(of_pools(deleted, "reserved"))])
    return table(["program", "config string", "pools", "reserved", "live", "stranded", "reserved when all graphs are deleted"], rows)


def sleep(programs):
    rows = []
    for name in ("sleep_plain", "sleep_pools", "sleep_pools_graphs"):
        for conf in programs.confs(name):
            marks = programs.marks(name, conf)
            rows.append([f"`{name}`", f"`{conf or 'unset'}`", *(mib(marks[mark]["reserved"]) for mark in ("awake", "slept_1", "woken_1", "slept_3", "woken_3")),
                         mib(marks["slept_1"]["allocated"])])
    return table(["program", "config string", "awake", "asleep", "woken", "asleep, third time", "woken, third time", "live while asleep"], rows)


def load(programs):
    rows = []
    for name in ("load_plain", "load_into_pool"):
        for conf in programs.confs(name):
            marks = programs.marks(name, conf)
            rows.append([f"`{name}`", f"`{conf or 'unset'}`", mib(marks["loaded"]["allocated"]), mib(marks["loaded"]["reserved"]),
                         mib(marks["trimmed"]["reserved"]), mib(of_pools(marks["served"], "stranded")), mib(marks["served"]["reserved"])])
    return table(["program", "config string", "live", "reserved, loaded", "after empty_cache()", "stranded in the pool while serving", "reserved, serving"],
                 rows)


def streams(programs):
    rows = []
    for conf in programs.confs("streams_in_capture"):
        captured = programs.marks("streams_in_capture", conf)["captured"]
        rows.append([f"`{conf or 'unset'}`", *(mib(of_pools(captured, kind)) for kind in ("reserved", "live", "stranded"))])
    return table(["config string", "reserved", "live", "stranded"], rows)


def on_oom(programs):
    rows = []
    for conf in programs.confs("use_on_oom"):
        marks = programs.programs["use_on_oom", conf]["rows"][1:]
        served = [row["mark"].removeprefix("asked_").replace("_", " ") for row in marks if not row["failure"]]
        failed = [row["mark"].removeprefix("asked_").replace("_", " ") for row in marks if row["failure"]]
        rows.append([f"`{conf or 'unset'}`", ", ".join(served), ", ".join(failed), mib(of_pools(marks[-1], "live"))])
    return table(["config string", "served", "failed", "served by the pool, in all"], rows)


def trim(programs):
    rows = []
    for conf in programs.confs("trim_within_pool"):
        marks = programs.marks("trim_within_pool", conf)
        rows.append([f"`{conf or 'unset'}`", *(mib(marks[mark]["reserved"]) for mark in ("cached", "trimmed_inside", "trimmed_outside"))])
    return table(["config string", "reserved", "after empty_cache() within use_mem_pool", "after empty_cache() outside"], rows)


def rollouts(programs):
    rows = []
    for conf in programs.confs("rollouts"):
        marks = programs.marks("rollouts", conf)
        for turn in (1, 2, 3):
            rows.append([f"`{conf or 'unset'}`", turn, *(mib(marks[f"{mark}_{turn}"]["reserved"]) for mark in ("trained", "generated", "put_away")),
                         mib(of_pools(marks[f"put_away_{turn}"], "stranded"))])
    return table(["config string", "turn", "trained", "generated", "put away", "stranded, put away"], rows)


def page(folder):
    programs = Programs(folder)
    predicted = json.loads((folder / "predicted.json").read_text())
    first = next(iter(programs.programs.values()))
    parts = [("A server's decode graphs: predicted and real", server(programs, predicted)), ("Graphs of a small decoder", decoder(programs)),
             ("Sleep and wake", sleep(programs)), ("Weights loaded into a pool", load(programs)), ("Streams within a capture", streams(programs)),
             ("A pool with use_on_oom under a limit of 1,434 MiB", on_oom(programs)), ("empty_cache() within a pool", trim(programs)),
             ("Train, generate with graphs, train", rollouts(programs))]
    lines = ["# Graphs and private pools, in tables", "", f"{first['device']}, PyTorch {first['torch']}. All sizes in MiB. `scripts/publish/pools.py` made",
             "this page of `raw/programs.jsonl` and `predicted.json`; [README](README.md) says what it means."]
    for title, text in parts:
        lines += ["", f"## {title}", "", text.rstrip("\n")]
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    print(page(Path(sys.argv[1])), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
