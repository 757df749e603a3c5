"""Report: simulated against real, cell by cell. Raw results flow in, Markdown flows out."""

import statistics

from raw import is_measured, key_of
from text import conf, number, ratio, share, short, size, table, time

# What is compared: name, field, the ratio within which the model is to be.
TIMES = (
    ("allocate P50", "allocate_latency_ns_p50", 1.15),
    ("allocate P99", "allocate_latency_ns_p99", 1.30),
    ("free P50", "deallocate_latency_ns_p50", 1.15),
    ("free P99", "deallocate_latency_ns_p99", 1.30),
)
# Allocators whose usual call makes no CUDA call.
HOST_ONLY = ("caching", "thrust_pool")
EXACT = (
    ("failed requests", "oom_count"),
    ("reserved bytes at the peak", "reserved_bytes_peak"),
    ("bytes taken from the device at the peak", "device_bytes_peak"),
    ("place of every allocation", "placement_hash"),
)


def pairs(left, right):
    by_key = {key_of(cell): cell for cell in right}
    return [(cell, by_key[key_of(cell)]) for cell in left if is_measured(cell) and is_measured(by_key.get(key_of(cell)))]


def bucket_ns(index):
    """The middle of a stored latency bucket, as results/FORMAT.md defines them: 64 per power of two, in picoseconds."""
    octave, step = index // 64 - 1, index % 64
    return (index if index < 64 else (64.5 + step) * 2**octave) / 1000


def quantile_of(histogram, share):
    """Nearest rank of [bucket, count, gap, count, ...]; None without samples."""
    total = sum(histogram[1::2])
    bucket, seen = 0, 0
    for gap, count in zip(histogram[::2], histogram[1::2]):
        bucket, seen = bucket + gap, seen + count
        if seen >= share * total:
            return bucket_ns(bucket)
    return None


def quiet(cell, field):
    """The number in that pass of the cell in which it is lowest: others of the host make a pass slower, nothing makes it faster.
    Of a cell that was simulated on another host: the number scaled to the profile's host without load. P99 of the GPU's cell beside it: of all passes."""
    operation, percentile = field.split("_latency_ns_p")
    if cell.get("on_another_host"):
        return cell[f"{operation}_scaled_latency_ns_p{percentile}"]
    if cell.get("beside_another_host") and percentile == "99":
        return cell[field]
    share = {"50": 0.5, "99": 0.99}[percentile]
    passes = [one for one in cell.get("passes", []) if one.get(f"{operation}_latency_histogram")]
    values = [quantile_of(one[f"{operation}_latency_histogram"], share) for one in passes]
    if cell.get("beside_another_host") and cell["allocator"] in HOST_ONLY and values and not cell["references_differ"]:
        alone = cell["beside_another_host"]["host_reference_ns"]
        return statistics.median(value * alone / one["host_reference_ns"] for value, one in zip(values, passes))
    return min((value for value in values if value is not None), default=cell[field])


def time_ratio(real, other, field):
    before, after = quiet(real, field), quiet(other, field)
    return None if not before or after is None else after / before


def within(value, limit):
    return 1 / limit <= value <= limit


def agreement(found, title):
    """Per number: median ratio and the share of cells within the limit."""
    rows = []
    for allocator in [None, *sorted({real["allocator"] for real, _ in found})]:
        cells = [pair for pair in found if allocator in (None, pair[0]["allocator"])]
        row = ["**all**" if allocator is None else f"`{allocator}`", len(cells)]
        for _, field, limit in TIMES:
            ratios = sorted(value for value in (time_ratio(*pair, field) for pair in cells) if value is not None)
            if not ratios:
                row += ["-", "-"]
                continue
            row += [ratio(ratios[len(ratios) // 2]), share(sum(within(value, limit) for value in ratios), len(ratios))]
        rows.append(row)
    headings = ["allocator", "cells:"]
    for name, _, limit in TIMES:
        headings += [f"{name}, median ratio:", f"within {round(100 * (limit - 1))} %:"]
    return f"### {title}\n\n" + table(headings, rows)


def in_interval(pairs_of_cells, title):
    """Per number: cells that state an interval for a repeat, the share of them whose other number lies in it, and its median width."""
    rows = []
    for name, field, _ in TIMES:
        inside, widths = 0, []
        for first, second in pairs_of_cells:
            low, high = first.get(field + "_repeat_low"), first.get(field + "_repeat_high")
            if low is None or high is None or second[field] is None:
                continue
            inside += low <= second[field] <= high
            widths.append((high - low) / first[field])
        width = f"{100 * sorted(widths)[len(widths) // 2]:.0f} %" if widths else "not stated"
        rows.append([name, len(widths), share(inside, len(widths)), width])
    return f"### {title}\n\n" + table(["number", "cells:", "within the stated interval:", "its median width:"], rows)


def exact_rows(found):
    rows = []
    for name, field in EXACT:
        known = [(real, other) for real, other in found if real[field] is not None and other[field] is not None]
        equal = sum(real[field] == other[field] for real, other in known)
        rows.append([name, f"{equal} of {len(known)}"])
    return rows


def differing(found):
    lines = []
    for real, other in found:
        for name, field in EXACT:
            if real[field] is not None and other[field] is not None and real[field] != other[field]:
                lines.append(f"- {short(real['workload'])}, {real['capacity']}, `{real['allocator']}` {conf(real['conf'])}: {name} "
                             f"{number(real[field])} on the "
                             f"GPU, {number(other[field])} simulated")
    return "\n".join(lines) + "\n" if lines else "None.\n"


def cell_rows(found):
    rows = []
    for real, other in found:
        row = [short(real["workload"]), real["capacity"], f"`{real['allocator']}`", conf(real["conf"]), f"{real['oom_count']} / {other['oom_count']}",
               f"{size(real['reserved_bytes_peak'])} / {size(other['reserved_bytes_peak'])}"]
        for _, field, limit in TIMES:
            value = time_ratio(real, other, field)
            text = "-" if value is None else f"{time(quiet(real, field))} / {time(quiet(other, field))} = {ratio(value)}"
            row.append(text if value is None or within(value, limit) else f"**{text}**")
        rows.append(row)
    return rows


def references_differ(raw):
    """Whether the two sides' references are of two kinds: those before schema 1.10 knew one program only, by heart or not."""
    versions = [tuple(map(int, raw.environment(name).get("schema_version", "1.0").split(".")[:2])) for name in ("real", "simulated")]
    return (versions[0] < (1, 10)) != (versions[1] < (1, 10))


def host_text(raw):
    """What was done about a simulation that ran on another host."""
    here, there = (raw.environment("simulated")[name] for name in ("host_reference_ns", "profile_host_reference_ns"))
    if references_differ(raw):
        return ("The simulation ran on another host, where the reference for host time takes "
                f"{here:.0f} ns beside {there:.0f} ns on the GPU's. Its numbers are the scaled ones "
                "(`results/TIMES.md`, \"Host time on another host\"). On the GPU's side P50 is that of the lowest pass: its references are of "
                "an earlier kind, by which passes cannot be scaled. P99, which is mostly the driver's, is of all passes.\n\n")
    return ("The simulation ran on another host, where the reference for host time takes "
            f"{here:.0f} ns beside {there:.0f} ns on the GPU's. Its numbers are the scaled ones: the host's part for the GPU's host without load "
            "(`results/TIMES.md`, \"Host time on another host\"). On the GPU's side, P50 of `caching` and `thrust_pool`, whose "
            "usual call is host time alone, is scaled the same way, pass by pass; their median counts. P50 of others is that of the lowest pass, since a "
            "neighbour of the virtual machine makes passes slower. P99, which is mostly the driver's, is of all passes.\n\n")


def report(raw, _binary):
    real, simulated = raw.cells("real", "real_calls"), raw.cells("simulated")
    found = [pair for pair in pairs(real, simulated) if pair[0]["allocator"] != "null"]
    hosts = {(raw.environment(name) or {}).get("hostname_hash") for name in ("real", "simulated")}
    for cell in simulated:
        cell["on_another_host"] = len(hosts) == 2
    again = raw.cells("real_again")
    for cell in [*real, *again]:
        cell["beside_another_host"] = raw.environment("real") if len(hosts) == 2 else None
        cell["references_differ"] = len(hosts) == 2 and references_differ(raw)
    out = "# Simulated against real\n\n"
    out += ("The default suite on the GPU and on a simulated device whose profile was measured on the same machine minutes before "
            "(`raw/profile.json`). Ratios are simulated over measured. ")
    out += host_text(raw) if len(hosts) == 2 else (
        "Of each cell's passes the one with the lowest value is taken, on both "
        "sides: a neighbour of the virtual machine makes passes slower. The host's own part of a latency is measured on both sides.\n\n")
    out += "## What must be equal\n\n" + table(["number", "equal:"], exact_rows(found)) + "\nDifferent:\n\n" + differing(found) + "\n"
    out += "## Latency\n\n" + agreement(found, "Simulated over measured") + "\n"
    out += in_interval(found, "Simulated cells within the interval that the GPU's cell states for a repeat") + "\n"
    if again:
        noise = [pair for pair in pairs(real, again) if pair[0]["allocator"] != "null"]
        out += agreement(noise, "The same GPU cells measured again, over the first time")
        out += "\n" + in_interval(noise, "The same GPU cells measured again, within the interval that the first time states")
        out += ("\nHere numbers of all passes are compared, as they are stored. The interval is defined in `results/TIMES.md`, \"Measured again\".\n")
        out += "\nNo model can agree better with one measurement than a second measurement does.\n\n"
    out += "## Every cell\n\nGPU / simulated = ratio; **bold** beyond 15 % (P50) or 30 % (P99).\n\n"
    headings = ["workload", "capacity", "allocator", "config string", "OOMs:", "reserved peak:"] + [name + ":" for name, _, _ in TIMES]
    return out + table(headings, cell_rows(found))
