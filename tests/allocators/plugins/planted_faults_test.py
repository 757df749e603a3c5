#!/usr/bin/env python3
"""Plants each fault of the table below into one plugin (planted_plugin.cc), runs it against the plugin without a fault (`run --ab`),
and checks that the comparison ends with the exit code and finds it by the number that the table names. Writes the table that
results/compare/PLANTED_FAULTS.md holds and compares the two.

Usage: planted_faults_test.py ALLOCMARK INCLUDE LIBRARY PAGE [--only NAME,...] [--approve]
  INCLUDE, LIBRARY  the folder of cuda_runtime_api.h, and libcudart.so itself
A timed fault may be missed once and is tried again, since the machine is shared; a fault that is exact may not.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

EXACT, TIMED = "exact", "timed"
TRAIN = ["--workload", "gpt2_train_ckpt", "--capacity", "unlimited"]
TIGHT = ["--workload", "gpt2_train_ckpt", "--capacity", "1.5x"]
VARYING = ["--workload", "bert_varlen_infer", "--capacity", "unlimited"]
STREAMS = ["--workload", "fuzz_r1", "--capacity", "unlimited"]
OWN = ["own_ns", "allocator_ns_per_step"]

# Fault, what it does, kind, cells, numbers of which one must be worse.
FAULTS = [
    ("none", "nothing: the same plugin", EXACT, TRAIN, []),
    ("oom_early", "refuses more than 150 live blocks", EXACT, TRAIN, ["oom_count"]),
    ("null_1_in_1000", "refuses every 1000th request", EXACT, TRAIN, ["oom_count"]),
    ("null_at_random", "refuses 1 request in 200, by chance", EXACT, TRAIN, ["oom_count"]),
    ("null_in_later_passes", "refuses requests from the second pass on", EXACT, TRAIN, ["oom_count"]),
    ("rounds_up", "takes 30 % more than it needs", EXACT, TIGHT, ["oom_count", "device_bytes_peak"]),
    ("exact_fit_only", "uses no block for another size", EXACT, VARYING, ["device_bytes_peak"]),
    ("never_reuses", "asks the driver for every block", EXACT, TRAIN, ["driver_calls.cudaMalloc"]),
    ("frees_at_once", "gives every block back to the driver", EXACT, TRAIN, ["driver_calls.cudaFree"]),
    ("leaks_per_pass", "keeps 250 MiB at the end", EXACT, TRAIN, ["residue_bytes"]),
    ("leaks_lost_blocks", "forgets every 50th freed block", EXACT, TRAIN, ["residue_bytes"]),
    ("loses_blocks", "uses every 50th freed block no more", EXACT, TIGHT, ["oom_count", "device_bytes_peak"]),
    ("double_handout", "hands out a live block again", EXACT, TRAIN, ["status"]),
    ("double_handout_later", "the same, after the second trim", EXACT, TRAIN, ["status"]),
    ("block_too_small", "hands out half a block", EXACT, TRAIN, ["status"]),
    ("shrinking_alignment", "aligns to 8 bytes from the 500th request on", EXACT, TRAIN, ["status"]),
    ("host_pointer", "hands out host memory", EXACT, TRAIN, ["status"]),
    ("wrong_device", "takes memory of another GPU", EXACT, TRAIN, ["status"]),
    ("scribbles", "writes into the block before", EXACT, TRAIN, ["status"]),
    ("ignores_streams", "gives a freed block to any stream", EXACT, STREAMS, ["unordered_reuse_count", "status"]),
    ("ignores_record", "does not wait for recorded streams", EXACT, STREAMS, ["unordered_reuse_count", "status"]),
    ("waits", "waits for the stream in 1 request of 100", EXACT, TRAIN, ["driver_calls.cudaStreamSynchronize"]),
    ("one_more_call", "one cudaMalloc and cudaFree more in 500", EXACT, TRAIN, ["driver_calls.cudaMalloc"]),
    ("crash", "aborts at request 1000", EXACT, TRAIN, ["status"]),
    ("exit", "ends the process", EXACT, TRAIN, ["status"]),
    ("throw", "throws a C++ exception", EXACT, TRAIN, ["status"]),
    ("hang", "sleeps for an hour", EXACT, TRAIN, ["status"]),
    ("fork", "leaves a child process behind for 3 s", EXACT, TRAIN, None),
    ("slow_p50", "5 % more work in every request", TIMED, TRAIN, OWN),
    ("slow_all_10", "10 % more work in every request", TIMED, TRAIN, OWN),
    ("slow_free", "20 % more work in every free", TIMED, TRAIN, ["deallocate_own_ns"]),
    ("slow_1_in_15", "150 ns more in 1 request of 15", TIMED, TRAIN, ["allocate_own_ns"]),
    ("slow_1_in_60", "150 ns more in 1 request of 60", TIMED, TRAIN, ["allocate_own_ns"]),
    ("slower_1_in_60", "700 ns more in 1 request of 60", TIMED, TRAIN, ["allocate_own_ns_p99"]),
    ("slow_free_1_in_60", "300 ns more in 1 free of 60", TIMED, TRAIN, ["deallocate_own_ns_p99"]),
    ("cold_start", "2 ms more in the first request", TIMED, TRAIN, ["cold_ns"]),
    ("drift", "slower with every request of a pass", TIMED, TRAIN, OWN),
    ("quadratic", "looks through all requests so far", TIMED, TRAIN, OWN),
    ("lost_wake", "waits 1 ms for a wake in 1 request of 1000", TIMED, TRAIN, ["allocator_ns_per_step"]),
]
MARK = "| fault | what it does | found as worse by | expected | found | command |"
# What a fault truly makes better beside its harm: memory that nobody keeps is less memory.
MERITS = {"frees_at_once": {"reserved_bytes_peak", "device_bytes_peak"}}
FUNCTIONS = "planted_malloc,planted_free,trim:planted_trim,record_stream:planted_record_stream"


def command(kind, sides, cells):
    """The words of a comparison after the program's name."""
    rounds = ["--rounds", "2", "--rounds-max", "2", "--passes", "3"] if kind == EXACT else []
    return ["run", "--device", "sim:h200", "--ab", *sides, *cells, *rounds]


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def plugin(self, fault):
        path = self.folder / f"{fault}.so"
        if not path.exists():
            source = Path(__file__).with_name("planted_plugin.cc")
            subprocess.run(["c++", "-std=c++20", "-O1", "-shared", "-fPIC", f'-DFAULT="{fault}"', f"-I{self.options.include}", str(source), "-o",
                            str(path), self.options.library], check=True)
        return f"pluggable:{path},{FUNCTIONS}"

    def compare(self, fault, kind, cells):
        out = self.folder / f"out-{fault}"
        words = command(kind, [self.plugin("none"), self.plugin(fault)], cells)
        done = subprocess.run([self.options.allocmark, *words, "--allow-debug", "--timeout", "10", "--format", "json", "--no-html",
                               "--out", str(out)],
                              capture_output=True, text=True, env={**os.environ, "SIMCUDA_DEVICES": "2"})
        shutil.rmtree(out, ignore_errors=True)
        if done.returncode not in (0, 1, 3) or not done.stdout:
            return None, done.returncode, done.stderr[-2000:]
        return json.loads(done.stdout), done.returncode, done.stdout


def numbers_that_are(verdict, comparison):
    return [number["number"] for cell in comparison["cells"] for number in cell["numbers"] if number["verdict"] == verdict]


def is_found(fault, kind, wanted, comparison, code):
    """As the table wants it: by one of its numbers, with exit code 1; nothing worse where nothing is planted; and no fault is praised."""
    if comparison is None:
        return False, "nothing"
    better = sorted(set(numbers_that_are("better", comparison)) - MERITS.get(fault, set()))
    if better:
        return False, f"praise of {', '.join(better)}"
    worse = numbers_that_are("worse", comparison)
    if not wanted:
        gated = [name for name in worse if wanted is None or kind == EXACT]
        exact = [name for name in gated if "own_ns" not in name and "latency" not in name and name not in ("allocator_ns_per_step", "cold_ns")]
        return not exact, exact[0] if exact else "nothing"
    hit = [name for name in worse if any(name.startswith(w) or w in name for w in wanted)]
    return bool(hit) and code == 1, hit[0] if hit else (worse[0] if worse else "nothing")


def main():
    parser = argparse.ArgumentParser()
    for name in ("allocmark", "include", "library", "page"):
        parser.add_argument(name)
    parser.add_argument("--only", default="")
    parser.add_argument("--kind", default="", choices=["", EXACT, TIMED])
    parser.add_argument("--approve", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="planted"))
    only = [name for name in options.only.split(",") if name]
    rows, failures = [], []
    try:
        bench = Bench(options, folder)
        for fault, text, kind, cells, wanted in FAULTS:
            if (only and fault not in only) or (options.kind and kind != options.kind):
                continue
            for attempt in range(1 if kind == EXACT else 3):  # noqa: B007 (told below)
                comparison, code, output = bench.compare(fault, kind, cells)
                found, name = is_found(fault, kind, wanted, comparison, code)
                if found:
                    break
            print(f"{'ok' if found else 'MISSED'}: {fault}: exit code {code}, by {name}, attempt {attempt + 1}", flush=True)
            if not found:
                failures.append(fault)
                print(numbers_that_are("worse", comparison) if comparison else output, file=sys.stderr)
            numbers = "nothing" if not wanted else " or ".join(f"`{w}`" if w.count("_") > 1 or "." in w or w == "status" else f"`*{w}*`" for w in wanted)
            rows.append(f"| `{fault}` | {text} | {numbers} | {'worse' if wanted else 'passes'} | {'yes' if found else 'no'} "
                        f"| `allocmark {' '.join(command(kind, [f'pluggable:{name}.so,$F' for name in ('none', fault)], cells))}` |")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    table = "\n".join([MARK, "| :-- | :-- | :-- | :-- | :-- | :-- |", *rows]) + "\n"
    page = Path(options.page)
    if options.kind and not only:
        failures += [row for row in rows if row not in page.read_text()]
    elif not only:
        text = page.read_text()
        begin = text.index(MARK)
        end = text.find("\n\n", begin)
        held = text[begin:] if end < 0 else text[begin:end + 1]
        if options.approve:
            page.write_text(text.replace(held, table))
        elif held != table:
            print(f"{page} holds another table; with --approve it is written anew:\n{table}", file=sys.stderr)
            return 1
    print(f"{len(rows) - len(failures)} of {len(rows)} as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
