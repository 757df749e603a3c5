"""Report: PyTorch's releases on recorded programs. Raw results flow in, Markdown flows out.

`releases.jsonl.xz` has every release as a cell of the same plan, for what is exact; `releases_simulated.jsonl.xz` has the same cells on the simulated GPU,
where calls of the runtime are counted, too. `turns_OLD_NEW.jsonl.xz` has rounds in which two
releases took turns, for what is timed. `perf_VERSION.txt` is perf's report of where a release spends its time, where it was taken.
"""

import itertools
import math
import re
import statistics

from raw import is_measured
from text import short, table

MIB = 1 << 20
# 97.5 % quantiles of Student's distribution by degrees of freedom; above, the one of 15.
STUDENT = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201, 12: 2.179, 15: 2.131}
TIMED = (("allocate P50", "allocate_host_latency_ns_p50"), ("allocate P99", "allocate_host_latency_ns_p99"), ("free P50", "deallocate_host_latency_ns_p50"))


def release_of(cell):
    return cell["allocator"].partition("@")[2]


def order(release):
    return tuple(int(number) for number in release.split("."))


def experiments(cells):
    """{(workload, conf, capacity): {release: cell}}, in the order of the plan."""
    found = {}
    for cell in cells:
        if release_of(cell):
            found.setdefault((cell["workload"], cell["conf"], cell["capacity"]), {})[release_of(cell)] = cell
    return found


def classes(by_release):
    """{release: letter}: releases with one letter place every block alike."""
    letters = {}
    for release in sorted(by_release, key=order):
        cell = by_release[release]
        if is_measured(cell):
            letters.setdefault(cell["placement_hash"], "abcdefghi"[len(letters)])
    return {release: letters.get(cell["placement_hash"]) for release, cell in by_release.items() if is_measured(cell)}


def figure(cell, letter):
    if cell is None or not is_measured(cell):
        return "no such value" if cell is None else cell["status"]
    failed = f", {cell['oom_count']} failed" if cell["oom_count"] else ""
    return f"{cell['reserved_bytes_peak'] / MIB:,.0f}{failed} {letter}"


def exact_section(cells):
    found = experiments(cells)
    releases = sorted({release for by_release in found.values() for release in by_release}, key=order)
    out = "## Reserved memory, failed requests, placements\n\nPeak of reserved memory in MiB. Releases with one letter in a row place every block alike.\n"
    for workload in dict.fromkeys(key[0] for key in found):
        rows = []
        for key, by_release in found.items():
            if key[0] != workload:
                continue
            letters = classes(by_release)
            rows.append([f"`{key[1]}`" if key[1] else "unset", key[2]] + [figure(by_release.get(one), letters.get(one)) for one in releases])
        out += f"\n{short(workload)}:\n\n" + table(["setting", "capacity"] + [one + ":" for one in releases], rows)
    return out, found, releases


def groups_section(found, releases):
    """How often two neighbouring releases agree."""
    rows = []
    for old, new in itertools.pairwise(releases):
        both = [by_release for by_release in found.values() if all(is_measured(by_release.get(one)) for one in (old, new))]
        alike = sum(1 for one in both if one[new]["placement_hash"] == one[old]["placement_hash"])
        worse = sum(1 for one in both if one[new]["reserved_bytes_peak"] > one[old]["reserved_bytes_peak"])
        better = sum(1 for one in both if one[new]["reserved_bytes_peak"] < one[old]["reserved_bytes_peak"])
        fails = [sum(one[side]["oom_count"] for one in both) for side in (old, new)]
        rows.append([f"{old} to {new}", len(both), alike, f"{worse} / {better}", f"{fails[0]} to {fails[1]}"])
    headings = ["releases", "experiments:", "placements alike in:", "reserved more / less:", "failed requests:"]
    return "## From release to release\n\n" + table(headings, rows)


EXACT = (("failed requests", "oom_count"), ("peak of reserved memory", "reserved_bytes_peak"), ("peak of the device's memory", "device_bytes_peak"),
         ("place of every block", "placement_hash"))


def simulated_section(real, simulated):
    """The same cells on a GPU and on the simulated one."""
    both = [(one, simulated[key][release]) for key, by_release in real.items() for release, one in by_release.items()
            if is_measured(one) and is_measured(simulated.get(key, {}).get(release))]
    if not both:
        return ""
    rows = [[name, f"{sum(one[field] == other[field] for one, other in both)} of {len(both)}"] for name, field in EXACT]
    out = "## The GPU against its simulation\n\n" + table(["equal in", "cells:"], rows)
    moved = [[short(one["workload"]), f"`{one['conf']}`" if one["conf"] else "unset", one["capacity"], release_of(one)] for one, other in both
             if one["placement_hash"] != other["placement_hash"]]
    out += "\nPlaces are relative to the first block's. A segment that the driver puts elsewhere changes them, too.\n"
    return out + ("\nThey differ in:\n\n" + table(["program", "setting", "capacity", "release"], moved) if moved else "")


def calls_section(found, releases):
    """Calls of the CUDA runtime by name, all experiments that every release has."""
    whole = [one for one in found.values() if all(is_measured(one.get(release)) for release in releases)]
    totals = {}
    for by_release in whole:
        for release in releases:
            for name, count in by_release[release]["driver_calls"].items():
                totals.setdefault(name, dict.fromkeys(releases, 0))[release] += count
    rows = [[f"`{name}`"] + [f"{counts[one]:,}" for one in releases] for name, counts in sorted(totals.items()) if len(set(counts.values())) > 1]
    return (f"## Calls that differ\n\nSums over the {len(whole)} experiments that all releases run, on a simulated GPU. Calls that are "
            "equally many everywhere are left out.\n\n"
            + table(["call"] + [one + ":" for one in releases], rows))


def ratio_interval(old, new):
    """Mean ratio of paired rounds and its 95 % interval, of the logarithms."""
    logs = [math.log(b / a) for a, b in zip(old, new)]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), None
    half = STUDENT.get(len(logs) - 1, STUDENT[15]) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))


def turns_section(raw):
    rows = []
    for name in sorted(raw.names("turns_"), key=lambda name: [order(one) for one in name.split("_")[1:]]):
        old, new = name.split("_")[1:]
        by_workload = {}
        for line in raw.rounds(name):
            if is_measured(line["cell"]):
                by_workload.setdefault(line["cell"]["workload"], {}).setdefault(line["round"], {})[line["side"]] = line["cell"]
        for workload, rounds in by_workload.items():
            pairs = [sides for sides in rounds.values() if len(sides) == 2]
            row = [f"{old} to {new}", short(workload), len(pairs)]
            for _, field in TIMED:
                before, after = [pair[0][field] for pair in pairs], [pair[1][field] for pair in pairs]
                mean, interval = ratio_interval(before, after)
                spread = f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
                row.append(f"{statistics.median(before):.0f} to {statistics.median(after):.0f} ns: **{mean:.2f}**{spread}")
            rows.append(row)
    if not rows:
        return ""
    return ("## Cost of a request\n\nHost time; on a GPU with the driver's calls in it, which a cache hit does not make. Both releases take "
            "turns pass by pass. Medians of "
            "the rounds, the mean ratio of a round, and its 95 % interval.\n\n" + table(["releases", "program", "rounds:"] + [name for name, _ in TIMED], rows))


def perf_section(folder):
    out = ""
    for path in sorted((folder / "raw").glob("perf_*.txt"), key=lambda path: order(path.stem.partition("_")[2])):
        rows = []
        for line in path.read_text().splitlines():
            found = re.match(r"([\d.]+)% \[\.\] (.*)", line)
            if found and len(rows) < 8:
                name = re.sub(r"c10::cuda::CUDACachingAllocator::(Native::)?|\(anonymous namespace\)::", "", found[2])
                tree = re.match(r"std::_Rb_tree<.*>\s*::(erase|_M_insert_unique|_M_erase|find|lower_bound)", name)
                by = re.search(r"BlockComparator\w+", name)
                if tree:
                    name = f"std::_Rb_tree::{tree[1]}, by {by[0] if by else 'a function'}"
                rows.append([f"`{name}`", f"{found[1]} %"])
        out += f"\nPyTorch {path.stem.partition('_')[2]}:\n\n" + table(["function of libc10_cuda", "share:"], rows)
    return "## Where the time goes\n\nSamples of the processor's clock inside libc10_cuda, replaying `gpt2_train_amp`.\n" + out if out else ""


def report(raw, _binary):
    exact, found, releases = exact_section(raw.cells("releases"))
    # A GPU counts no calls, so those of its simulation are shown.
    counted = experiments(raw.cells("releases_simulated")) or found
    parts = [groups_section(found, releases), exact, simulated_section(found, counted) if counted is not found else "",
             calls_section(counted, releases), turns_section(raw), perf_section(raw.folder)]
    return "# PyTorch's releases on recorded programs\n\n" + "\n".join(part for part in parts if part)
