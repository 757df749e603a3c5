"""Report: all backends and config strings on training, checkpointing and inference. Raw results flow in; Markdown flows out, whose tables are those of
`allocmark report`."""

from raw import PublishError, is_measured, reported
from text import conf, share, short, table, time

WORKLOADS = ("gpt2_train_amp", "gpt2_train_ckpt", "bert_varlen_infer", "llama_lora_varlen_accum")


def allocmark_tables(binary, environment, cells):
    # One level down: the page has a title of its own. How to run it again is in commands.txt.
    text = reported(binary, environment, cells, "markdown").split("## Run it again")[0]
    return "".join(("#" + line if line.startswith("#") else line) + "\n" for line in text.splitlines())


def busy_rows(idle, busy):
    """Cells with a kernel after every request beside the same ones with an idle device."""
    by_key = {(cell["workload"], cell["allocator"], cell["conf"]): cell for cell in idle if cell["capacity"] == "unlimited"}
    rows = []
    for cell in busy:
        workload = cell["workload"].split("+kernels:")[0]
        before = by_key.get((workload, cell["allocator"], cell["conf"]))
        if not is_measured(cell) or not is_measured(before):
            continue
        stall = None if not cell["program_ideal_ns"] or not cell["program_ns"] else max(0, cell["program_ns"] - cell["program_ideal_ns"])
        rows.append([short(workload), f"`{cell['allocator']}`", conf(cell["conf"])]
                    + [f"{time(before[field])} -> {time(cell[field])}" for field in ("allocate_latency_ns_p50", "allocate_latency_ns_p99",
                                                                                "deallocate_latency_ns_p50", "deallocate_latency_ns_p99")]
                    + [time(cell["step_ns_p50"]), time(cell["program_ns"]), time(stall),
                       "-" if stall is None else share(stall, cell["program_ideal_ns"])])
    return rows


def report(raw, binary):
    names = ["real", "real_calls", *[name for name in raw.names("backends_") if name != "backends_busy"]]
    cells = [cell for cell in raw.cells(*names) if cell["workload"] in WORKLOADS]
    if not cells:
        raise PublishError("no cells of the recorded workloads; measure the steps 'simulated' and 'backends'")
    order = {name: index for index, name in enumerate(WORKLOADS)}
    cells.sort(key=lambda cell: (order[cell["workload"]], cell["capacity"] != "unlimited"))
    environment = next(raw.environment(name) for name in names if raw.has(name))
    out = "# Backends and config strings\n\n"
    out += "Recorded programs on every backend that runs here, with plenty of memory and with 5 % more than the program's own peak.\n\n"
    out += allocmark_tables(binary, environment, cells)
    rows = busy_rows(cells, raw.cells("backends_busy"))
    if rows:
        out += "\n## The device at work\n\n"
        out += ("A kernel of 20 us follows every request on its block's stream, so that the host runs ahead of the device. Latencies: idle "
                "device -> busy device. Step, program and stall are of the busy one: the stall is how much longer the device takes to be "
                "done than with an allocator that costs nothing.\n\n")
        out += table(["workload", "allocator", "config string", "allocate P50:", "allocate P99:", "free P50:", "free P99:", "step P50:",
                      "program:", "stall:", "of the ideal:"], rows)
    return out
