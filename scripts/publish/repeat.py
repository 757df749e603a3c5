"""Where a second measurement of a cell is expected: as the cell states it, or, in lines of schema before 1.3, by the same rule from its passes
(results/compare/repeat.cc; results/DEFINITIONS.md, "Measured again"). A cell's line flows in; an interval in ns flows out."""

import math

# Two runs' difference at 95 % where no calibration says it, and the 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom.
BETWEEN_RUNS = {"p50": 0.13, "p99": 0.22}
NORMAL = 1.959964
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
           2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
SAMPLES = {"p50": 20, "p99": 1000}


def edges_ns(index):
    """A stored latency bucket, as results/DEFINITIONS.md defines them: 64 per power of two, in picoseconds."""
    octave, step = index // 64 - 1, index % 64
    return (index / 1000, (index + 1) / 1000) if index < 64 else ((64 + step) * 2**octave / 1000, (65 + step) * 2**octave / 1000)


def quantile_ns(histogram, share):
    """The samples of a bucket spread evenly over it."""
    wanted = share * sum(histogram[1::2])
    bucket, seen = 0, 0
    for gap, count in zip(histogram[::2], histogram[1::2]):
        bucket += gap
        if seen + count >= wanted:
            low, high = edges_ns(bucket)
            return low + (high - low) * (wanted - seen) / count
        seen += count
    return None


def half_width(logs, between):
    n = len(logs)
    mean = sum(logs) / n
    passes = 2 * sum((value - mean) ** 2 for value in logs) / (n - 1) / n
    runs = (math.log1p(between) / NORMAL) ** 2
    student = STUDENT[n - 2] if n - 2 < len(STUDENT) else NORMAL + 2.4 / (n - 1)
    return (passes * student + runs * NORMAL) / (passes + runs) * math.sqrt(passes + runs)


def interval(cell, field, clock_step_ns):
    """(low, high) of "allocate_latency_ns_p50" and the like; None where it is not stated and its rule does not apply."""
    if field + "_repeat_low" in cell:
        low, high = cell[field + "_repeat_low"], cell[field + "_repeat_high"]
        return None if low is None or high is None else (low, high)
    operation, quantile = field.split("_latency_ns_")
    histograms = [one.get(f"{operation}_latency_histogram") for one in cell.get("passes", [])]
    # A clock of wider steps needs the samples spread over them, which is left to the program.
    if cell["status"] != "ok" or len(histograms) < 2 or not all(histograms) or not cell[field] or not 0 < (clock_step_ns or 0) <= 1:
        return None
    if cell.get(f"{operation}_latency_count", 0) < SAMPLES[quantile]:
        return None
    half = half_width([math.log(quantile_ns(one, {"p50": 0.5, "p99": 0.99}[quantile])) for one in histograms], BETWEEN_RUNS[quantile])
    resolution = clock_step_ns / 2 + cell[field] / 128
    return max(cell[field] * math.exp(-half) - resolution, 1e-3), cell[field] * math.exp(half) + resolution
