#!/usr/bin/env python3
"""Holds allocmark's answers to PyTorch itself: records jobs, asks for predictions, runs the jobs on the card, compares.

usage: endtoend.py --out FOLDER --allocmark PATH                         the built-in programs (--list names them)
       endtoend.py --out FOLDER --allocmark PATH --program train.py ARGS...  your own training script

Each job is recorded once. Then allocmark says, for every setting and limit, whether the job dies, in which step, and what a step
costs; and the job runs under that setting, in a process of its own, on the card with all memory taken but the limit. A limit
is a multiple of the job's own peak, or `card`: the whole card. A job runs once without limit before, so that its kernels
are loaded. Steps of a script end at its optimizer steps.

In FOLDER: NAME.ops.csv.gz, recorded.jsonl, predicted.jsonl and real.jsonl, a row each; rows that are there are not made
again. --record-only, --predict-only and --real-only do one part, so that a machine without a GPU can predict.
"""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import compare  # noqa: E402
import job_process  # noqa: E402
import predict  # noqa: E402

ASYNC = "backend:cudaMallocAsync"
SETTINGS = ("", "expandable_segments:True", "max_split_size_mb:128", "garbage_collection_threshold:0.8", "roundup_power2_divisions:4", ASYNC)
LIMITS = ("1.05x", "1.12x", "card")
PAGE_BYTES = 2 << 20


class Rows:
    """A file of rows, one a line; a row that is there is not made again."""

    def __init__(self, folder, kind):
        self.path = os.path.join(folder, f"{kind}.jsonl")
        self.rows = []
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.rows = [json.loads(line) for line in file if line.endswith("}\n")]

    def find(self, **wanted):
        return next((row for row in self.rows if "error" not in row and all(row.get(key) == value for key, value in wanted.items())), None)

    def add(self, row):
        self.rows.append(row)
        with open(self.path, "a+b") as file:
            # What a process that was killed has begun stays a line of its own.
            file.seek(max(0, file.tell() - 1))
            cut = file.read(1) not in (b"", b"\n")
            file.write((b"\n" if cut else b"") + (json.dumps(row) + "\n").encode())


class Server:
    """A process that has imported PyTorch with one backend and forks a process for each job."""

    def __init__(self, setting):
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
        if setting == ASYNC:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
        self.process = subprocess.Popen([sys.executable, job_process.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if not line:
            sys.exit("endtoend.py: the process that starts jobs ended; wanted PyTorch with CUDA and transformers for this Python")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Servers:
    def __init__(self):
        self.running = {}

    def ask(self, request):
        kind = request["setting"] if request["setting"] == ASYNC else ""
        if kind not in self.running:
            self.running[kind] = Server(kind)
        return self.running[kind].ask(request)

    def end(self):
        for server in self.running.values():
            server.end()


def request_of(options, program, setting="", **more):
    environment = {"CUDA_VISIBLE_DEVICES": options.gpu}
    if setting:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
    return {"program": program, "is_script": bool(options.program), "arguments": options.arguments, "steps": options.steps, "setting": setting,
            "environment": environment, "log": os.path.join(options.out, f"{job_process.name_of(program)}.log"),
            "seconds_max": options.seconds_max, "no_gc": options.no_gc, **more}


def capacity_of(limit, live_peak_bytes):
    """0 is the whole card."""
    return 0 if limit == "card" else int(live_peak_bytes * float(limit.rstrip("x"))) // PAGE_BYTES * PAGE_BYTES


def cells(options, names):
    """(program, limit, setting) in the order of what is wanted first: where a run is cut, all programs are in it."""
    def rank(limit, setting):
        if limit == "card":
            return 1 if setting in ("", "max_split_size_mb:128") else 3
        return 0 if limit == options.limits[0] else 2

    found = [(name, limit, setting) for name in names for limit in options.limits for setting in options.settings]
    return sorted(found, key=lambda cell: rank(*cell[1:]))  # stable


def record_all(options, servers, recorded, end):
    for program in options.names:
        name = job_process.name_of(program)
        if recorded.find(program=name, work=options.work) or time.monotonic() > end:
            continue
        begin = time.monotonic()
        suffix = "" if options.work == "kernels" else f".{options.work}"
        trace = os.path.join(options.out, f"{name}{suffix}.ops.csv.gz")
        row = servers.ask(request_of(options, program, action="record", work=options.work, trace=trace))
        recorded.add({"program": name, "work": options.work, "trace": os.path.basename(trace), **row, "took_s": round(time.monotonic() - begin, 1)})
        print(compare.line_of_recording(recorded.rows[-1]), flush=True)


def real_all(options, servers, recorded, real, end):
    for program, limit, setting in cells(options, options.names):
        name = job_process.name_of(program)
        found = recorded.find(program=name)
        if found is None or real.find(program=name, limit=limit, setting=setting):
            continue
        if time.monotonic() > end:
            print("endtoend.py: no time left; the same command goes on", flush=True)
            return
        begin, capacity_bytes = time.monotonic(), capacity_of(limit, found["live_peak_bytes"])
        row = servers.ask(request_of(options, program, setting, action="real", capacity_bytes=capacity_bytes))
        real.add({"program": name, "limit": limit, "setting": setting, "capacity_bytes": capacity_bytes, **row,
                  "took_s": round(time.monotonic() - begin, 1)})
        print(compare.line_of_run(real.rows[-1]), flush=True)


def predict_all(options, recorded, predicted):
    for program in options.names:
        name = job_process.name_of(program)
        found = recorded.find(program=name, work=options.work)
        if found is None:
            continue
        for limit in options.limits:
            settings = [one for one in options.settings if not predicted.find(program=name, limit=limit, setting=one)]
            if settings:
                for row in predict.ask(options, found, capacity_of(limit, found["live_peak_bytes"]) or found["card_bytes"], settings):
                    predicted.add({"program": name, "limit": limit, **row})


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="endtoend", help="folder for recordings and rows")
    parser.add_argument("--allocmark", help="the program that predicts")
    parser.add_argument("--device", default="sim:h100", help="the card that allocmark simulates [%(default)s]")
    parser.add_argument("--only", help="names of built-in programs, separated by commas")
    parser.add_argument("--part", help="K/N: every N-th of the programs, from the K-th (0 is the first), for several GPUs beside each other")
    parser.add_argument("--settings", type=lambda text: [one if one != "unset" else "" for one in text.split(";")], default=list(SETTINGS),
                        help="config strings, separated by ';'")
    parser.add_argument("--limits", type=lambda text: text.split(","), default=list(LIMITS), help="such as 1.05x,1.12x,card")
    parser.add_argument("--work", choices=("kernels", "marks"), default="kernels", help="what is recorded of the device [%(default)s]")
    parser.add_argument("--steps", type=int, default=8, help="steps of a built-in program [%(default)s]")
    parser.add_argument("--gpu", default="0", help="CUDA_VISIBLE_DEVICES of the jobs [%(default)s]")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after so many seconds")
    parser.add_argument("--seconds-max", type=float, default=120.0, help="of one run [%(default)s]")
    for part in ("record", "predict", "real"):
        parser.add_argument(f"--{part}-only", action="store_true")
    parser.add_argument("--no-gc", action="store_true", help="run jobs without Python's cyclic garbage collector, whose frees come at other requests "
                        "while a job is recorded")
    parser.add_argument("--list", action="store_true", help="name the built-in programs")
    parser.add_argument("--program", help="your own script; its arguments follow")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    known = job_process.programs()
    if options.list:
        for name, program in known.items():
            print(f"{name:18} {program.__doc__.splitlines()[0]}")
        sys.exit(0)
    options.names = [options.program] if options.program else options.only.split(",") if options.only else list(known)
    unknown = [name for name in options.names if not options.program and name not in known]
    if unknown:
        parser.error(f"no program {unknown[0]!r}: wanted some of {', '.join(known)}")
    gpu_count = len(options.gpu.split(","))
    for name in [] if options.program else [one for one in options.names if job_process.rank_count(one) > gpu_count]:
        print(f"endtoend.py: {name} is left out: it takes {job_process.rank_count(name)} GPUs; give them with --gpu 0,1", file=sys.stderr)
        options.names.remove(name)
    if options.program and not os.path.isfile(options.program):
        parser.error(f"{options.program}: no such script")
    if options.part:
        index, count = (int(text) for text in options.part.split("/"))
        options.names = options.names[index::count]
    if not options.allocmark and not (options.record_only or options.real_only):
        parser.error("give --allocmark PATH, or --record-only or --real-only")
    return options


def main(argv=None):
    options = parse(argv)
    os.makedirs(options.out, exist_ok=True)
    end = time.monotonic() + options.seconds
    every = not (options.record_only or options.predict_only or options.real_only)
    recorded, predicted, real = (Rows(options.out, kind) for kind in ("recorded", "predicted", "real"))
    servers = Servers()
    if every or options.record_only:
        record_all(options, servers, recorded, end)
    if every or options.predict_only:
        predict_all(options, recorded, predicted)
    if every or options.real_only:
        real_all(options, servers, recorded, real, end)
    servers.end()
    if predicted.rows and real.rows and not options.record_only:
        print(compare.table(predicted.rows, real.rows, [job_process.name_of(one) for one in options.names]))


if __name__ == "__main__":
    main()
