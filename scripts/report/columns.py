"""The columns of the page's tables: which field each shows, where it is defined, and how its values become text. A column has one unit
throughout the page, chosen from all its values. Cells with their derived numbers flow in; headings and text flow out."""

from dataclasses import dataclass

from anchors import anchor_of
from facts import has_enough_samples, is_measured

TIME_UNITS = ((1e6, "ms"), (1e3, "us"), (1.0, "ns"))
MIB = 1024 * 1024


@dataclass(frozen=True)
class Column:
    group: str
    name: str
    field: str
    kind: str  # time, quantile, bytes, share, count or trial
    definition: str = ""  # the name that defines it where that is not the field's


COLUMNS = (
    Column("Out of memory", "failed", "oom_count", "count"),
    Column("Out of memory", "rate", "oom_rate", "share"),
    Column("Out of memory", "passes", "trial_oom_rate", "trial"),
    Column("Allocate latency", "P50", "allocate_latency_ns_p50", "quantile"),
    Column("Allocate latency", "P90", "allocate_latency_ns_p90", "quantile"),
    Column("Allocate latency", "P99", "allocate_latency_ns_p99", "quantile"),
    Column("Allocate latency", "P99.9", "allocate_latency_ns_p999", "quantile"),
    Column("Free latency", "P50", "deallocate_latency_ns_p50", "quantile"),
    Column("Free latency", "P99", "deallocate_latency_ns_p99", "quantile"),
    Column("Peak memory", "requested", "requested_bytes_peak", "bytes"),
    Column("Peak memory", "allocated", "allocated_bytes_peak", "bytes"),
    Column("Peak memory", "active", "active_bytes_peak", "bytes"),
    Column("Peak memory", "reserved", "reserved_bytes_peak", "bytes"),
    Column("Peak memory", "waste", "waste_share", "share"),
    Column("Slow path", "device allocs", "device_allocate_count", "count"),
    Column("Slow path", "device frees", "device_free_count", "count"),
    Column("Slow path", "retries", "retry_count", "count"),
    Column("Slow path", "sync all", "synchronize_all_count", "count"),
    Column("Slow path", "per step", "allocator_ns_per_step", "time"),
)

# Shown where some cell's trace tells of requests to a server.
REQUEST_COLUMNS = (
    Column("Requests to the server", "answered", "request_latency_count", "count", "latency_count"),
    Column("Requests to the server", "answer P50", "request_latency_ns_p50", "quantile", "latency_ns_p50"),
    Column("Requests to the server", "P99", "request_latency_ns_p99", "quantile", "latency_ns_p99"),
    Column("Requests to the server", "P99.9", "request_latency_ns_p999", "quantile", "latency_ns_p999"),
    Column(
        "Requests to the server", "first token P99", "request_first_token_latency_ns_p99", "quantile", "first_token_latency_ns_p99"
    ),
    Column("Requests to the server", "delay P50", "request_delay_latency_ns_p50", "quantile", "delay_ns_p50"),
    Column("Requests to the server", "delay P99", "request_delay_latency_ns_p99", "quantile", "delay_ns_p99"),
)


def _time_unit(cells, column):
    values = [cell[column.field] for cell in cells if is_measured(cell) and cell[column.field]]
    smallest = min(values, default=1.0)
    return next(((scale, unit) for scale, unit in TIME_UNITS if smallest >= scale), TIME_UNITS[-1])


def make_headings(cells):
    """Per column its group, name, unit, scale and the anchor of its definition."""
    headings = []
    has_requests = any(is_measured(cell) and cell.get("requests") for cell in cells)
    for column in COLUMNS + (REQUEST_COLUMNS if has_requests else ()):
        scale, unit = {"bytes": (MIB, "MiB"), "share": (0.01, "%"), "trial": (0.01, "%"), "count": (1, "n")}.get(
            column.kind
        ) or _time_unit(cells, column)
        headings.append({"column": column, "unit": unit, "scale": scale, "anchor": anchor_of(column.definition or column.field)})
    return headings


def group_spans(headings):
    """The first line of the heading: (group, count of its columns)."""
    spans = []
    for heading in headings:
        group = heading["column"].group
        if spans and spans[-1][0] == group:
            spans[-1][1] += 1
        else:
            spans.append([group, 1])
    return spans


def _number(value, digits):
    return f"{value:,.{digits}f}"


def cell_text(cell, heading):
    """(text, sort key or None): '-' is not defined or not known, never zero."""
    column = heading["column"]
    value = cell[column.field] if is_measured(cell) else None
    if value is None:
        return "-", None
    scaled = value / heading["scale"]
    if column.kind == "count":
        return f"{value:,}", value
    if column.kind == "bytes":
        return _number(scaled, 1 if scaled < 10000 else 0), value
    if column.kind == "share":
        return _number(scaled, 2 if scaled < 1 and scaled > 0 else 1), value
    if column.kind == "trial":
        low, high = cell["trial_oom_rate_low"] * 100, cell["trial_oom_rate_high"] * 100
        return f"{scaled:.0f} [{low:.0f}, {high:.0f}]", value
    text = _number(scaled, 0 if scaled >= 10 or heading["unit"] == "ns" else 2)
    return text if column.kind != "quantile" or has_enough_samples(cell, column.field) else "~" + text, value


def cell_title(cell, heading):
    """Where a second measurement of this number is expected; empty where the cell does not state it."""
    field = heading["column"].field
    low, high = cell.get(field + "_repeat_low"), cell.get(field + "_repeat_high")
    if not is_measured(cell) or low is None or high is None:
        return ""
    digits = 0 if low >= 10 * heading["scale"] else 2
    return f"measured again: {_number(low / heading['scale'], digits)} to {_number(high / heading['scale'], digits)} {heading['unit']} expected (95 %)"


def format_bytes(value):
    for scale, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= scale:
            return f"{value / scale:,.{2 if value < 100 * scale else 1}f} {unit}"
    return f"{value:,} B"


def format_ratio(ratio):
    """Three significant figures, as the terminal's answer has them."""
    return f"{ratio:.{2 if ratio < 10 else 1 if ratio < 100 else 0}f}x"
