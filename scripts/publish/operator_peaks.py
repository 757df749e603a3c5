#!/usr/bin/env python3
"""Holds generator operator to the memory rows of Liger-Kernel's benchmark: writes PAGE/rows.csv, and prints a table of it.

usage: operator_peaks.py ALLOCMARK BENCHMARK.csv PAGE
       operator_peaks.py PAGE                          the table of rows that are there

BENCHMARK.csv: benchmark/data/all_benchmark_data.csv of https://github.com/linkedin/Liger-Kernel. A row is measured as
max_memory_allocated() of a repetition, so blocks count as PyTorch rounds them, to 512 bytes. Rows whose operator or provider no
generator has are counted, not kept.
"""
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

COLUMNS = ("operator", "provider", "mode", "x", "gpu", "liger", "workload", "measured_mib", "predicted_mib")
A100_WORKSPACE_KIB = 8320  # of cuBLAS, on every card here but an H100
BY = {"liger": "liger", "huggingface": "torch", "torch": "torch"}
NO_LIGER = ("layer_norm", "softmax", "relu_squared", "cross_entropy")  # Liger's own kernels of these are in no generator
MLPS = ("swiglu", "geglu", "tiled_swiglu", "tiled_geglu")


def text_of(name, by, x, config):
    """The keys that say what ran, or None where no generator has it."""
    precision = "fp32" if "float32" in config.get("dtype", "float32") else "bf16"
    if by is None or (by == "liger" and name in NO_LIGER):
        return None
    if name == "rms_norm":
        keys = f"rms_norm,rows={config['M']},hidden={x},by={by}"
    elif name == "layer_norm":
        keys = f"layer_norm,rows={config['M']},hidden={x}"
    elif name in ("softmax", "relu_squared"):
        keys = f"{name},rows=1,hidden={x}"  # one row, whatever the configuration says
    elif name == "cross_entropy":
        keys = f"cross_entropy,rows={config['B'] * config['T']},hidden={x}"
    elif name == "fused_linear_cross_entropy":
        keys = f"linear_cross_entropy,rows={x},hidden={config['H']},vocabulary={config['V']},by={by}"
    elif name == "rope":
        rows, hidden = config.get("seq_len", x), config.get("hidden_size", x)
        keys = f"rotation,rows={rows},hidden={hidden},heads={config['num_q_heads']},kv_heads={config['num_kv_heads']},by={by}"
    elif name in MLPS:
        rows = x * (config["B"] if "B" in config else config["bsz"])
        keys = f"gated_mlp,rows={rows},hidden={config['hidden_size']},ffn={config['intermediate_size']},by={by}"
    else:
        return None
    return f"operator:{keys},precision={precision}"


def predicted_mib(allocmark, workload):
    """The last step's peak, in blocks of PyTorch's."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.csv")
        subprocess.run([allocmark, "trace", "generate", workload, path, "-q"], check=True, stdout=subprocess.DEVNULL)
        now, peaks, live = 0, [0], {}
        with open(path, encoding="utf-8") as file:
            for line in file:
                fields = line.split(",")
                if fields[0] == "mark":
                    peaks.append(now)
                elif fields[0] == "alloc":
                    live[fields[1]] = -(-int(fields[2]) // 512) * 512
                    now += live[fields[1]]
                elif fields[0] == "free":
                    now -= live.pop(fields[1], 0)
                peaks[-1] = max(peaks[-1], now)
    return peaks[-2] / 2**20


def beside_mib(name, workload):
    """The head of the other implementation, which lies beside the one that runs."""
    if name != "fused_linear_cross_entropy":
        return 0
    keys = dict(key.split("=") for key in workload.split(",")[1:])
    return int(keys["vocabulary"]) * int(keys["hidden"]) * 2 / 2**20


def write_rows(allocmark, benchmark, page):
    """Returns how many memory rows no generator has."""
    rows, left_count = [], 0
    with open(benchmark, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["metric_name"] != "memory":
                continue
            workload = text_of(row["kernel_name"], BY.get(row["kernel_provider"]), int(float(row["x_value"])),
                               json.loads(row["extra_benchmark_config_str"]))
            if workload is None:
                left_count += 1
                continue
            workload += f",mode={row['kernel_operation_mode']}"
            if "H100" not in row["gpu_name"]:
                workload += f",workspace_kib={A100_WORKSPACE_KIB}"
            predicted = predicted_mib(allocmark, workload) + beside_mib(row["kernel_name"], workload)
            rows.append((row["kernel_name"], row["kernel_provider"], row["kernel_operation_mode"], row["x_value"], row["gpu_name"],
                         row["liger_version"], workload, row["y_value_50"], f"{predicted:.6f}"))
    with open(os.path.join(page, "rows.csv"), "w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([COLUMNS, *rows])
    return left_count


def table(page):
    groups = {}
    with open(os.path.join(page, "rows.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            error = float(row["predicted_mib"]) / float(row["measured_mib"]) - 1
            groups.setdefault((row["operator"], row["provider"], row["mode"], row["liger"]), []).append(error)
    lines = ["| operator | by | pass | release of Liger | rows | within 0.1 % | median error | largest |",
             "| :-- | :-- | :-- | :-- | --: | --: | --: | --: |"]
    for key, errors in groups.items():
        near = sum(abs(error) < 0.001 for error in errors)
        lines.append(f"| {' | '.join(key)} | {len(errors)} | {near} | {statistics.median(errors):+.1%} | "
                     f"{max(errors, key=abs):+.1%} |".replace("%", " %"))
    return "\n".join(lines)


def main():
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    page = sys.argv[-1]
    if len(sys.argv) == 4:
        print(write_rows(sys.argv[1], sys.argv[2], page), "rows are in no generator")
    print(table(page))


if __name__ == "__main__":
    main()
