"""What allocmark computes of a run and this program only shows: derived numbers, which quantiles have enough samples, tail curves, and the
verdicts against other runs (results/facts/report_facts.h; scripts/report/FACTS.md defines it). Text flows in; cells with these numbers flow out.
Beside that, the few words for a cell's state that every table needs."""

import json

from load import SCHEMA_MAJOR, ReportError

CAUSE_WORDS = {
    "capacity": "capacity",
    "rounding": "rounding",
    "stranded": "kept for other streams",
    "fragmentation": "fragmentation",
    "unknown": "unknown",
    "pending": "waits for events",
    "limit": "limit of the process",
    "other_process": "another process's cache",
    "refused": "the allocator refused",
    "host_lost": "the host hangs",
}
CAUSES = tuple(CAUSE_WORDS)
PERCENTILES = ("p50", "p90", "p99", "p999")
# Latencies of requests to a server: the name in the tables, and in the cell's `requests`.
REQUEST_LATENCIES = (("request", "latency"), ("request_first_token", "first_token_latency"), ("request_delay", "delay"))
NULL_ALLOCATOR = "null"
BASELINE_ALLOCATOR = "caching"


def is_measured(cell):
    return cell["status"] in ("ok", "oom_stopped")


def has_enough_samples(cell, field):
    """Whether a quantile ("allocate_latency_ns_p99") rests on enough samples to be shown without a mark."""
    return cell["enough"][field]


def request_numbers(cell):
    """The numbers of requests to a server beside the cell's own, by the names that the tables use; None where there are none."""
    requests = cell.get("requests") or {}
    values = {}
    for name, stored in REQUEST_LATENCIES:
        values[name + "_latency_count"] = requests.get(stored + "_count")
        for percentile in PERCENTILES:
            values[f"{name}_latency_ns_{percentile}"] = requests.get(f"{stored}_ns_{percentile}")
    return values


def read_facts(text, where):
    try:
        facts = json.loads(text)
        if facts["kind"] != "report_facts" or int(facts["schema_version"].split(".")[0]) != SCHEMA_MAJOR:
            raise ValueError(f"{facts['kind']} of schema {facts['schema_version']}")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ReportError(f"{where} holds no facts of this version of allocmark ({error!r}); make reports with 'allocmark report'") from None
    return facts


def attach(run, facts):
    """Adds to every cell its derived numbers, `enough` and `tails`; the run gets the rest."""
    minimum = facts["sample_count_min"]
    for cell in run.cells:
        cell.update(facts["derived"][cell["cell_id"]])
        cell["outcome"], cell["failure"] = facts["answers"]["outcomes"][cell["cell_id"]]
        cell.update(request_numbers(cell))
        cell["tails"] = facts["tails"].get(cell["cell_id"], {})
        cell["enough"] = {
            f"{name}_latency_ns_{percentile}": (cell[f"{name}_latency_count"] or 0) >= minimum[percentile]
            for name in ("allocate", "deallocate", *(name for name, _ in REQUEST_LATENCIES))
            for percentile in PERCENTILES
        }
    run.sample_count_min = minimum
    run.comparisons = facts["comparisons"]
    run.answers = facts["answers"]
    run.columns = facts["columns"]
