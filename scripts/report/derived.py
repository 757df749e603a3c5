"""The numbers that readers compute from a cell rather than read, as results/README.md defines them under "Derived numbers"
(results/statistics.cc computes the same; a test compares the two). A cell flows in; numbers, or None where undefined, flow out."""

import math

# The 97.5 % quantile of the normal distribution, for intervals at 95 %.
Z_95 = 1.959963984540054
SAMPLES_BEYOND_PERCENTILE = 10
FRAGMENTATION_FLOOR_BYTES = 16 * 1024 * 1024
BEYOND = {"p50": 2, "p90": 10, "p99": 100, "p999": 1000}  # one sample in so many lies beyond
CAUSES = ("capacity", "rounding", "stranded", "fragmentation", "unknown")
NULL_ALLOCATOR = "null"
BASELINE_ALLOCATOR = "caching"


def is_measured(cell):
    return cell["status"] in ("ok", "oom_stopped")


def is_baseline(cell):
    return cell["allocator"] == BASELINE_ALLOCATOR and cell["conf"] == ""


def had_oom(cell):
    return cell["status"] == "oom_stopped" or cell["oom_count"] > 0 or cell["trial_oom_count"] > 0


def has_enough_samples(percentile, sample_count):
    return sample_count >= SAMPLES_BEYOND_PERCENTILE * BEYOND[percentile]


def wilson_interval(hit_count, trial_count):
    """(estimate, low, high) of a share at 95 %, or None without trials."""
    if trial_count == 0 or hit_count > trial_count:
        return None
    share, n = hit_count / trial_count, trial_count
    scale = 1 + Z_95**2 / n
    centre = (share + Z_95**2 / (2 * n)) / scale
    half = Z_95 / scale * math.sqrt(share * (1 - share) / n + Z_95**2 / (4 * n * n))
    low = 0.0 if hit_count == 0 else max(0.0, centre - half)
    high = 1.0 if hit_count == trial_count else min(1.0, centre + half)
    return share, low, high


def unused_share(used, total):
    return None if used is None or not total or used > total else (total - used) / total


def overhead_ratio(memory, live):
    return None if memory is None or not live or memory < live else memory / live


def fragmentation(cell):
    """Every published definition by name; all None below the floor, see results/README.md."""
    reserved, reached = cell["reserved_bytes_peak"], cell["status"] == "ok" and cell["oom_count"] == 0
    requested, allocated = cell["requested_bytes_at_reserved_peak"], cell["allocated_bytes_at_reserved_peak"]
    first = cell["oom_first"] or {"free_largest_bytes": None, "free_bytes": None}
    values = {
        "waste_share": unused_share(cell["requested_bytes_peak"], cell["device_bytes_peak"]) if reached else None,
        "fragmentation_share_pytorch": unused_share(allocated, reserved),
        "fragmentation_share_gmlake": unused_share(cell["active_bytes_peak"], reserved),
        "fragmentation_share_stalloc": unused_share(cell["allocated_bytes_peak"], reserved),
        "fragmentation_ratio_johnstone_wilson_2": overhead_ratio(
            cell["reserved_bytes_at_requested_peak"], cell["requested_bytes_peak"]
        )
        if reached
        else None,
        "fragmentation_ratio_johnstone_wilson_3": overhead_ratio(reserved, requested),
        "fragmentation_ratio_johnstone_wilson_4": overhead_ratio(reserved, cell["requested_bytes_peak"]) if reached else None,
        "fragmentation_share_internal": unused_share(requested, allocated),
        "fragmentation_share_largest_free": unused_share(first["free_largest_bytes"], first["free_bytes"]),
    }
    above = is_measured(cell) and cell["requested_bytes_peak"] >= FRAGMENTATION_FLOOR_BYTES
    return values if above else dict.fromkeys(values)


def request_numbers(cell):
    """The numbers of requests to a server beside the cell's own, by the names that the tables use; None where there are none."""
    requests = cell.get("requests") or {}
    values = {}
    for name, stored in (("request", "latency"), ("request_first_token", "first_token_latency"), ("request_delay", "delay")):
        values[name + "_latency_count"] = requests.get(stored + "_count")
        for percentile in BEYOND:
            values[f"{name}_latency_ns_{percentile}"] = requests.get(f"{stored}_ns_{percentile}")
    return values


def derive(cell):
    """All derived numbers of a cell by their names in results.csv, and driver_calls, which the tables show."""
    measured = is_measured(cell)
    rate = cell["oom_count"] / cell["allocate_count"] if cell["status"] == "ok" and cell["allocate_count"] else None
    trial = wilson_interval(cell["trial_oom_count"], cell["trial_count"]) if measured else None
    values = {
        "oom_rate": rate,
        "trial_oom_rate": trial and trial[0],
        "trial_oom_rate_low": trial and trial[1],
        "trial_oom_rate_high": trial and trial[2],
    }
    values.update(fragmentation(cell))
    calls = cell["device_allocate_count"], cell["device_free_count"]
    values["driver_calls"] = sum(calls) if measured and None not in calls else None
    return values


def bucket_end_ns(index):
    """The upper edge of a stored latency bucket, as results/README.md defines them: 64 per power of two, in picoseconds."""
    octave, step = index // 64 - 1, index % 64
    return (index + 1 if index < 64 else (65 + step) * 2**octave) / 1000


def merge_histograms(histograms):
    """{bucket: count} over passes of [bucket, count, gap, count, ...]."""
    counts = {}
    for histogram in histograms:
        bucket = 0
        for gap, count in zip(histogram[::2], histogram[1::2]):
            bucket += gap
            counts[bucket] = counts.get(bucket, 0) + count
    return counts


def tail_curve(cell, operation, step=0.02):
    """[[latency ns, ...], [share of calls that take longer, ...]] over all passes, or None where the results have no histograms. Points
    that lie closer than `step` decades on both axes are left out, which no eye can tell."""
    name = operation + "_latency_histogram"
    counts = merge_histograms([one[name] for one in cell["passes"] if one.get(name)])
    total, above = sum(counts.values()), sum(counts.values())
    times, shares = [], []
    for bucket in sorted(counts):
        above -= counts[bucket]
        time, share = bucket_end_ns(bucket), above / total
        near = times and share > 0 and math.log10(time / times[-1]) < step and math.log10(shares[-1] / share) < step
        if not near:
            times.append(time)
            shares.append(share)
    return [times, shares] if times else None
