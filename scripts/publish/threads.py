"""Report: threads that share one allocator. What `allocmark threads` answered flows in, Markdown flows out.

`raw/threads.json` has the program's answer by allocator: {"caching": {"rows": [...]}, ...}.
"""

import json

from raw import PublishError
from text import ratio, size, table, time


def read(raw):
    """{allocator: [row per number of threads]}."""
    path = raw.folder / "raw" / "threads.json"
    try:
        return {name: answer["rows"] for name, answer in json.loads(path.read_text()).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PublishError(f"{path}: wanted the answer of `allocmark threads --format json` by allocator, got {error!r}") from None


def throughput(answers, counts):
    rows = []
    for name, answer in answers.items():
        by_count = {row["thread_count"]: row["calls_per_s"] for row in answer}
        alone = by_count.get(1)
        rows.append([f"`{name}`"] + [f"{by_count[count] / 1e6:.2f} ({ratio(by_count[count] / alone) if alone else '-'})" if count in by_count else "-"
                                     for count in counts])
    return table(["allocator"] + [f"{count} threads:" if count > 1 else "1 thread:" for count in counts], rows)


def latencies(answers):
    rows = []
    for name, answer in answers.items():
        for row in answer:
            allocate, free = row["allocate_latency"], row["deallocate_latency"]
            low, high = row["reserved_bytes_end_low"], row["reserved_bytes_end_high"]
            rows.append([f"`{name}`", row["thread_count"], time(allocate["p50_ns"]), time(allocate["p99_ns"]), time(allocate["max_ns"]), time(free["p50_ns"]),
                         time(free["p99_ns"]), f"{100 * row['off_cpu_share']:.0f} %", f"{row['slowest_over_fastest']:.2f}",
                         size(low) if low == high else f"{size(low)} to {size(high)}"])
    return table(["allocator", "threads:", "allocate P50:", "allocate P99:", "allocate max:", "free P50:", "free P99:", "off the processor:",
                  "slowest / fastest:", "reserved at the end:"], rows)


def report(raw, _binary):
    answers = read(raw)
    counts = sorted({row["thread_count"] for answer in answers.values() for row in answer})
    out = "# Threads that share one allocator\n\nEach thread replays `bert_varlen_infer` on streams of its own; all of them ask one allocator. "
    out += "Waits for its lock and for the driver's are in the latencies.\n\n"
    out += "## Calls a second, in millions, and over one thread's\n\n1.00 means that more threads get no more done; below it they get less done.\n\n"
    out += throughput(answers, counts)
    out += "\n## Latency, waits, fairness, memory\n\n" + latencies(answers)
    return out + "\nColumns are defined in `harness/tools/threads/README.md`.\n"
