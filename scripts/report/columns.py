"""The columns of the page's tables: headings, units and values as allocmark's other formats have them (results/columns/columns.h), and where each is
defined. Facts flow in; headings with anchors flow out. Beside that, how bytes are written."""

from anchors import anchor_of

TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))

# By the heading's group and name, the field whose definition the heading links to.
FIELDS = {
    ("", "status"): "status",
    ("OOM", "n"): "oom_count",
    ("OOM", "rate"): "oom_rate",
    ("allocate", "P50"): "allocate_latency_ns_p50",
    ("allocate", "P99"): "allocate_latency_ns_p99",
    ("allocate", "P99.9"): "allocate_latency_ns_p999",
    ("allocate", "P50 at card"): "allocate_scaled_latency_ns_p50",
    ("free", "P50"): "deallocate_latency_ns_p50",
    ("free", "P99"): "deallocate_latency_ns_p99",
    ("free", "P50 at card"): "deallocate_scaled_latency_ns_p50",
    ("peak", "requested"): "requested_bytes_peak",
    ("peak", "reserved"): "reserved_bytes_peak",
    ("", "waste"): "waste_share",
    ("", "regret"): "regret_share",
    ("driver", "calls"): "device_allocate_count",
    ("requests", "done"): "latency_count",
    ("request", "P50"): "latency_ns_p50",
    ("request", "P99"): "latency_ns_p99",
    ("request", "P99.9"): "latency_ns_p999",
    ("1st token", "P50"): "first_token_latency_ns_p50",
    ("1st token", "P99"): "first_token_latency_ns_p99",
    ("delay", "P50"): "delay_ns_p50",
    ("delay", "P99"): "delay_ns_p99",
}


def field_of(heading):
    """The field behind a heading; time per step has several wordings."""
    named = FIELDS.get((heading["group"], heading["name"]))
    if named:
        return named
    return "allocator_ns_per_step" if "step" in f"{heading['group']} {heading['name']}" else ""


def make_headings(columns, anchors):
    """Per column group, name, unit, and the anchor of its definition where the page has it."""
    headings = []
    for heading in columns["headings"]:
        anchor = anchor_of(field_of(heading))
        headings.append({**heading, "anchor": anchor if anchor in anchors else ""})
    return headings


def group_spans(headings):
    """The first line of the heading: (group, count of its columns)."""
    spans = []
    for heading in headings:
        if spans and spans[-1][0] == heading["group"]:
            spans[-1][1] += 1
        else:
            spans.append([heading["group"], 1])
    return spans


def sort_key(text):
    """The number in a value, without its mark; None where it has none."""
    try:
        return float(text.lstrip("~"))
    except ValueError:
        return None


def cell_title(cell, field):
    """Where a second measurement of this number is expected; empty where the cell does not state it."""
    low, high = cell.get(field + "_repeat_low"), cell.get(field + "_repeat_high")
    if low is None or high is None:
        return ""
    scale, unit = next(((scale, unit) for scale, unit in TIME_UNITS if low >= scale), TIME_UNITS[-1])
    return f"measured again: {low / scale:.3g} to {high / scale:.3g} {unit} expected (95 %)"


def format_bytes(value):
    """As base/bytes.h writes them."""
    for scale, unit in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= scale:
            shown = value / scale
            return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {unit}"
    return f"{value} B"
