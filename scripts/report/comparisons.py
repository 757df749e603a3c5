"""The comparison of this run with others, laid out for people: allocmark's verdicts (results/compare/compare.h), never computed here. The JSON of
`allocmark compare` flows in; rows, texts and what the page's scripts need flow out."""

import math

from anchors import anchor_of
from columns import TIME_UNITS, format_bytes

VERDICTS = ("worse", "not comparable", "better", "changed", "undecided", "same")
# Numbers by the words of the page's tables; others keep their stored name.
NAMES = {
    "allocate_latency_ns_p50": "allocate P50",
    "allocate_latency_ns_p99": "allocate P99",
    "deallocate_latency_ns_p50": "free P50",
    "deallocate_latency_ns_p99": "free P99",
    "allocate_own_ns_p50": "allocate own P50",
    "allocate_own_ns_p95": "allocate own P95",
    "allocate_own_ns_p99": "allocate own P99",
    "allocate_own_ns_mean": "allocate own mean",
    "deallocate_own_ns_p50": "free own P50",
    "deallocate_own_ns_p95": "free own P95",
    "deallocate_own_ns_p99": "free own P99",
    "deallocate_own_ns_mean": "free own mean",
    "allocator_ns_per_step": "time per step",
    "step_ns_mean": "wall time per step",
    "cold_ns": "first 256 calls",
    "allocate_own_ns_p999": "allocate own P99.9",
    "deallocate_own_ns_p999": "free own P99.9",
    "allocate_own_ns_max": "longest allocate",
    "deallocate_own_ns_max": "longest free",
    "thread_cpu_ns": "processor time",
    "host_taken_bytes": "host memory",
    "other_threads_ns_per_s": "other threads",
    "residue_bytes": "left behind",
    "unordered_reuse_count": "reused too early",
    "oom_count": "failed requests",
    "placement_hash": "placements",
    "reserved_bytes_peak": "reserved peak",
    "allocated_bytes_peak": "allocated peak",
    "active_bytes_peak": "active peak",
    "device_bytes_peak": "device peak",
    "device_allocate_count": "device allocs",
    "device_free_count": "device frees",
}
# What stands beside a cell's main number; the rest is counted there and listed in its dialog.
OTHERS_SHOWN = 3


def name_of(number):
    return NAMES.get(number, number.removeprefix("counters.").removeprefix("driver_calls.").replace("live_objects.", "live "))


def definition_of(number):
    if "_own_ns_" in number:
        return anchor_of(number.split("_own_ns_")[0] + "_own_latency_histogram")
    if number.startswith("live_objects."):
        return anchor_of("driver_calls")
    return anchor_of(number.split(".")[0] if number.startswith(("counters.", "driver_calls.")) else number)


def value_text(number, value):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value or "-"
    if "_ns_" in number or number.endswith("_ns"):
        scale, unit = next(((scale, unit) for scale, unit in TIME_UNITS if value >= scale), TIME_UNITS[-1])
        return f"{value / scale:.4g} {unit}"
    if "_bytes" in number and value >= 0:
        return format_bytes(int(value))
    return f"{value:,.0f}"


def share_text(share):
    """Three figures, a real minus, and a factor instead of thousands of per cent."""
    if share >= 9:
        return f"×{share + 1:.3g}"
    if abs(share) < 5e-5:
        return "0 %"
    return f"{share * 100:+.3g} %".replace("-", "−")


def change_text(number):
    before, after = number["base"], number["new"]
    if number["change"] is None and before == 0 and isinstance(after, (int, float)):
        return f"+{value_text(number['number'], after)}"
    if number["change"] is None:
        return "" if before == after else "changed"
    return share_text(number["change"])


def interval_text(number):
    low, high = number.get("change_low"), number.get("change_high")
    return "" if low is None or high is None else f"{share_text(low)} … {share_text(high)}"


def _weight(number):
    return math.inf if number["change"] is None else abs(number["change"])


def _shown(number):
    return {
        "name": name_of(number["number"]),
        "anchor": definition_of(number["number"]),
        "verdict": number["verdict"],
        "before": value_text(number["number"], number["base"]),
        "after": value_text(number["number"], number["new"]),
        "change": change_text(number),
        "interval": interval_text(number),
        "reason": number["reason"],
        "gated": number["gated"],
    }


def now_of(cell):
    """The key of NEW's cell; another one than BASE's where two settings were measured in turn."""
    return cell.get("new_cell", cell)


def _row(cell):
    """A cell with the number that its verdict comes from first; within a verdict the largest change."""
    numbers = sorted((one for one in cell["numbers"] if one["verdict"] != "same"), key=lambda one: (VERDICTS.index(one["verdict"]), -_weight(one)))
    # A cell where all is the same shows its first timed number, else nothing.
    main = numbers[:1] or [one for one in cell["numbers"] if "_ns_p" in one["number"]][:1]
    others = numbers[1:]
    return {
        "key": cell,
        "now": now_of(cell),
        "verdict": cell["verdict"],
        "reason": cell["reason"],
        "flags": cell["flags"],
        "main": _shown(main[0]) if main else None,
        "others": [_shown(one) for one in others[:OTHERS_SHOWN]],
        "more_count": max(0, len(others) - OTHERS_SHOWN),
    }


def decision_of(comparison):
    """The sentence that a reader came for, and whether it is good news."""
    counts = comparison["verdict_counts"]
    if comparison["passed"]:
        word = f"{counts['better']} of them better" if counts["better"] else "nothing is worse"
        unknown = f", {counts['undecided']} undecided" if counts["undecided"] else ""
        return f"Passes the policy: {len(comparison['cells'])} cells compared, {word}{unknown}"
    if comparison["exit_code"] == 1:
        return f"Fails the policy: {counts['worse']} of {len(comparison['cells'])} cells are worse" if counts["worse"] else "Fails the policy"
    return "Cannot be decided: " + ("nothing was compared" if not comparison["cells"] else "results are missing or cannot be compared")


def environment_changes(base, now):
    """(field, before, after) of what differs between the two environments; what differs always is left out."""
    skipped = ("kind", "argv", "started_utc", "warnings")
    return [(name, base.get(name), now.get(name)) for name in now if name not in skipped and base.get(name) != now.get(name)]


def prepare_comparisons(run):
    return [
        {
            "id": f"comparison-{index}",
            "path": one["path"],
            "decision": decision_of(one["comparison"]),
            "rows": [_row(cell) for cell in one["comparison"]["cells"]],
            "environment": environment_changes(one["comparison"]["base"], one["comparison"]["new"]),
            **{name: one["comparison"][name] for name in ("passed", "failures", "notes", "calibrated", "interleaved", "verdict_counts",
                                                          "incomplete", "skipped_count")},
        }
        for index, one in enumerate(run.comparisons, 1)
    ]


NUMBER_FIELDS = ("number", "verdict", "base", "new", "change", "change_low", "change_high", "p_value_adjusted", "reason", "gated")


def _number_data(number):
    """Every timed number, and exact ones that are not the same, with six digits."""
    values = [number.get(name) for name in NUMBER_FIELDS]
    return [float(f"{value:.6g}") if isinstance(value, float) else value for value in values]


def comparison_data(run):
    """What the script lists."""
    data = []
    for one in run.comparisons:
        cells = []
        for cell in one["comparison"]["cells"]:
            kept = [number for number in cell["numbers"] if number["verdict"] != "same" or "change_low" in number]
            cells.append(
                {
                    "id": cell["cell_id"],
                    "now": now_of(cell)["cell_id"],
                    "name": f"{now_of(cell)['allocator']} {now_of(cell)['conf'] or 'unset'}",
                    "where": f"{cell['workload']} · {cell['capacity']}",
                    "verdict": cell["verdict"],
                    "reason": cell["reason"],
                    "flags": cell["flags"],
                    "numbers": [_number_data(number) for number in kept],
                    "same": len(cell["numbers"]) - len(kept),
                }
            )
        data.append({"fields": NUMBER_FIELDS, "cells": cells})
    return data
