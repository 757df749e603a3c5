#!/usr/bin/env python3
"""Inputs of every kind, changed at random, given to the commands that read them.

Usage: fuzz_test.py PATH_OF_ALLOCMARK [--count N] [--seed N] [--jobs N] [--keep DIR] [--table FILE]

No input may crash a command, keep its processor for 10 s, take 512 MiB, get an exit code that is not documented for a bad input, or
print a control character. Each pair of a kind and a command gets the same processor time, so the quick ones are tried most. The same
seed gives the same inputs to a pair: a try has the name SEED/KIND/COMMAND/NUMBER, which --only repeats. As a test it tries 300;
scripts/check/fuzz.sh tries 120,000.
"""
import argparse
import gzip
import heapq
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from outside import ForkServer, Tally

NUMBERS = [b"0", b"-1", b"1e999", b"18446744073709551615", b"18446744073709551616", b"0.0000001", b"NaN", b"null", b'"x"', b"[]", b"{}", b"1" * 400]
TOKENS = [b"\x00", b"\x1b[31m", b"\xff", b"\xe2\x80\xae", b"\r", b"\n", b",", b'"', b"[" * 200, b"{" * 200, b"..", b"/", b"\\u0000",
          b"%s%n", b"file:/etc/passwd"]
# What is changed, how it is packed, and the commands that read it: {F} the file, {D} its folder, {W} that of all, {R} the run's. Other
# marks are copies of a folder that have the file, as COPIES says.
READERS = {
    "trace.csv": ["trace summary {F}", "trace validate {F}", "parity {F} {W}/churn.txt", "export {F} {D}/out.json", "export {F} {D}/out.pickle",
                  "run -w file:{F} -a null -d sim:h200 --allow-debug --passes 1 --no-html --timeout 15 --out {D}/out", "fit {F} --conf unset",
                  "ranks file:{F} file:{W}/trace.csv -d sim:h200", "threads file:{F} --threads 1,2 --passes 1 -d sim:h200",
                  "fidelity {F} -w comb:count=8 --conf unset", "simcheck --on sim:h200 --against sim:h200 --seeds 0 --allocator native file:{F}"],
    "trace.csv.gz": ["trace validate {F}"],
    "trace.csv.zst": ["trace validate {F}"],
    "golden.txt": ["parity comb:count=8 {F}"],
    "job.ops.csv": ["capture --finish --out {D}"],
    "goldens.tar.gz": ["parity comb:count=8 {F}"],
    "snapshot.pickle": ["why {F}", "trace summary {F}", "why {F} --out {D}/page.html --conf unset", "advise {F} --search-only --conf unset"],
    "snapshot.pickle.gz": ["why {F}"],
    "rmm.csv": ["trace summary {F}"],
    "stalloc.txt": ["trace summary {F}"],
    "minimalloc.csv": ["trace summary {F}", "bound {F}"],
    "nsight.csv": ["trace summary {F}"],
    "nsight.sqlite": ["trace summary {F}"],
    "scenario.toml": ["list scenarios", "trace summary fuzzed"],
    "profile.json": ["run -w comb:count=5 -a null -d sim:{F} --allow-debug --passes 1 --no-html --out {D}/out",
                     "qualify -d sim:h200 --seconds 1 --baseline {F}"],
    "interleaved.json": ["compare {A}", "report {A} --no-html", "bundle {A}/B --baseline {A} --out {D}/out.tar"],
    "rounds.jsonl": ["compare {A}", "report {A} --no-html", "bundle {A}/B --baseline {A} --out {D}/out.tar"],
    "placements.json": ["compare {A}", "report {A}"],
    "soak.jsonl": ["run --for 2s --resume --no-html --out {S}"],
    "timeline.json": ["report {T}", "bundle {T} --out {D}/out.tar"],
    "qualify.json": ["merge {N}", "merge {N} {W}/node --out {D}/out", "merge {N} --baseline {D}/ours.json"],
    "tests.jsonl": ["merge {M}"],
    "spread.json": ["qualify -d sim:h200 --seconds 1 --baseline {F}"],
    "cards.tsv": ["list cards", "trace summary comb:count=8", "fit comb:count=8 --conf unset -d sim:rtx-4090"],
    "ranks.txt": ["ranks file:{W}/trace.csv file:{W}/trace.csv -d sim:h200"],
    "threads.txt": ["threads file:{W}/trace.csv -d sim:h200"],
    "conf.txt": ["explain", "run --dry-run -w comb:count=8 -a caching -d sim:h200 -c"],
    "workload.txt": ["run --dry-run -a caching -d sim:h200 -w"],
    "names.txt": ["merge {W}/node --expect {F}"],
    "results.jsonl": ["report {C} --no-html", "compare {R} {C}", "compare {R} {F}", "merge {C} --out {D}/out"],
    "plan.json": ["compare {R} {C}", "merge {C} --out {D}/out"],
    "conditions.json": ["report {C} --no-html"],
    "policy.json": ["compare {R} {W}/other --policy {F}"],
    "calibration.json": ["compare {R} {W}/other --calibration {F}"],
    "thresholds.json": ["qualify -d sim:h200 --seconds 1 --thresholds {F}"],
    "bundle.tar": ["check {F} --seconds 2"],
    "bundle_ab.tar": ["check {F} --seconds 2"],
    "bundle.tar.gz": ["check {F} --seconds 2"],
    "bundle.tar.zst": ["check {F} --seconds 2"],
}
# Mark, folder, and the file's place in it; unset: its own name.
COPIES = {
    "{C}": ("run", ""), "{A}": ("ab", ""), "{N}": ("node", ""), "{M}": ("ended", "n2/tests.jsonl"), "{S}": ("soak", "soak/*.jsonl"),
    "{T}": ("timeline", "timelines/*.json"),
}
# A command's last words instead of a file, one a line.
WORDS = ("ranks.txt", "threads.txt", "conf.txt", "workload.txt")
CODES = "012346"
LARGE_BYTES = 1 << 20


def mutate(text, random_):
    """One to four changes of a text; now and then one that makes it a MiB long."""
    if text and random_.randrange(100) == 0:
        begin = random_.randrange(len(text))
        piece = text[begin : begin + random_.randint(1, 400)]
        text = text[:begin] + piece * (LARGE_BYTES // len(piece)) + text[begin:]
    for _ in range(random_.randint(1, 4)):
        at = random_.randrange(len(text) + 1)
        kind = random_.randrange(8)
        if kind == 0 and text:
            at = min(at, len(text) - 1)
            text = text[:at] + bytes([text[at] ^ (1 << random_.randrange(8))]) + text[at + 1 :]
        elif kind == 1:
            text = text[:at]
        elif kind == 2:
            text = text[:at] + random_.choice(TOKENS) + text[at:]
        elif kind == 3:
            text = text[:at] + text[at + random_.randint(1, 40) :]
        elif kind == 4:
            text = text[:at] + text[max(0, at - random_.randint(1, 400)) : at] * random_.randint(1, 3) + text[at:]
        elif kind == 5:
            text = text[:at] + bytes(random_.randrange(256) for _ in range(random_.randint(1, 16))) + text[at:]
        else:
            # A number, which is where most limits are.
            begin = next((i for i in range(at, min(at + 400, len(text))) if text[i : i + 1].isdigit()), None)
            if begin is not None:
                end = begin
                while end < len(text) and text[end : end + 1].isdigit():
                    end += 1
                text = text[:begin] + random_.choice(NUMBERS) + text[end:]
    return text


def make_recordings(call, work):
    """What other tools write."""
    # With requests that failed, which is what 'why' asks about.
    for name in ("snapshot.pickle", "snapshot.pickle.gz"):
        call("export", "churn:live_bytes=64MiB,events=200", work / name, "--memory", "60MiB")
    (work / "rmm.csv").write_text(
        "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00:1,allocate,0x7f0001,512,0x0\n"
        "1,10:00:00:2,allocate failure,0x0,999999,0x0\n1,10:00:00:3,free,0x7f0001,512,0x0\n"
    )
    (work / "stalloc.txt").write_text("1 140000000 512 0\n1 140001000 4096 94000\nforward 3\n0 140000000 512 0\n")
    (work / "minimalloc.csv").write_text("id,lower,upper,size\nb1,0,9,512\nb2,3,5,4096\nb3,5,12,512\n")
    rows = [(1, 4096, 512, 0, 2), (2, 8192, 512, 0, 2), (3, 4096, 512, 1, 2)]
    columns = "start,address,bytes,memoryOperationType,memKind"
    (work / "nsight.csv").write_text("\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n")
    with sqlite3.connect(work / "nsight.sqlite") as database:
        database.execute("PRAGMA page_size = 512")
        database.execute(f"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ({columns})")
        database.executemany("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?, ?, ?, ?, ?)", rows)
    database.close()


def make_seeds(program, work):
    def call(*words):
        subprocess.run([program, *words], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    for name in ("trace.csv", "trace.csv.gz", "trace.csv.zst"):
        call("trace", "generate", "churn:live_bytes=1MiB,events=60", work / name)
    for name in ("run", "other"):
        call("run", "-w", "comb:count=8", "-a", "caching", "-a", "native", "-d", "sim:h200", "--allow-debug", "-q", "--out", work / name)
    for name in ("bundle.tar", "bundle.tar.gz", "bundle.tar.zst"):
        call("bundle", work / "run", "--out", work / name)
    for name in ("results.jsonl", "plan.json", "conditions.json"):
        if (work / "run" / name).exists():
            shutil.copy(work / "run" / name, work / name)
    make_recordings(call, work)
    call("run", "--ab", "unset", "expandable_segments:True", "-a", "caching", "-w", "comb:count=40", "-d", "sim:h200", "--allow-debug",
         "--rounds", "2", "--rounds-max", "2",
         "--no-html", "-q", "--out", work / "ab")
    for number in (1, 2, 3):
        call("qualify", "-d", "sim:h200", "--seconds", "1", "--node", f"n{number}", "--out", work / f"nodes/n{number}")
    call("merge", work / "nodes", "--baseline", work / "spread.json")
    shutil.copytree(work / "nodes/n1", work / "node")
    (work / "ended/n2").mkdir(parents=True)
    shutil.copy(work / "node/tests.jsonl", work / "ended/n2/tests.jsonl")
    call("profile", "-d", "sim:h200", "--repeats", "1", "--out", work / "profile.json")
    call("bundle", work / "ab/B", "--baseline", work / "ab", "--out", work / "bundle_ab.tar")
    one = ("run", "-w", "comb:count=8", "-a", "caching", "-d", "sim:h200", "--allow-debug", "--no-html", "-q", "--out")
    call(*one, work / "soak", "--for", "2s")
    call(*one, work / "timeline", "--timeline", "--record-placements", work / "goldens")
    shutil.copy(next((work / "goldens").iterdir()), work / "golden.txt")
    call("run", "-w", f"file:{work}/trace.csv", *one[3:], work / "traced", "--record-placements", work / "churn")
    shutil.copy(next((work / "churn").iterdir()), work / "churn.txt")
    subprocess.run(["tar", "czf", work / "goldens.tar.gz", "-C", work / "goldens", "."], check=True)
    copies = {"interleaved.json": "ab/*", "rounds.jsonl": "ab/*", "placements.json": "ab/*", "qualify.json": "node/*", "tests.jsonl": "node/*",
              "soak.jsonl": "soak/soak/*", "timeline.json": "timeline/timelines/*"}
    for name, place in copies.items():
        for path in work.glob(place):
            if path.name == name or name in ("soak.jsonl", "timeline.json"):
                shutil.copy(path, work / name)
    shutil.copy("harness/simcuda/profiles/cards.tsv", work / "cards.tsv")
    # Of a program that was killed: zeros stand behind the rows.
    (work / "job.ops.csv").write_bytes((work / "trace.csv").read_bytes() + bytes(4096))
    words = {
        "ranks": "--seed 1 --capacity 1.05x --rank-capacity 1=2GiB -a caching -c max_split_size_mb:128",
        "threads": "--threads 1,2 --turn 4 --order turns --devices 2 --passes 2 --capacity 1.05x -a caching -c max_split_size_mb:128 --block-table one",
        "conf": "max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8],garbage_collection_threshold:0.8",
        "workload": "train:gpt2-124m,batch=2,seq=512,steps=2,checkpoint=full",
    }
    for name, text in words.items():
        (work / f"{name}.txt").write_text("\n".join(text.split()))
    (work / "names.txt").write_text("# all\nn1\nn9\nn10  # never began\n")
    (work / "scenario.toml").write_text('# It stresses what reads scenarios.\nworkload = "comb:count=8"\nseeds = [1, 2]\n'
                                        'capacity = ["1.10x", "1GiB"]\non_oom = "skip"\nconf = ["unset"]\n')
    environment = json.loads((work / "results.jsonl").read_text().splitlines()[0])
    (work / "policy.json").write_text('{"effect_min": 0.05, "confidence": 0.95, "scope": "exact", "report_only": ["oom_count"]}')
    (work / "calibration.json").write_text(json.dumps({
        "kind": "calibration", "schema_version": "1.0.0", "hostname_hash": environment["hostname_hash"], "device": "sim:h200",
        "build_type": environment["build_type"], "run_count": 4,
        "bounds": [{"number": "allocate_latency_ns_p50", "shift_bound": 0.2, "shift_median": 0.05, "shift_p95": 0.1, "pair_count": 40}],
    }, separators=(",", ":")))
    thresholds = subprocess.run([program, "qualify", "--print-thresholds"], capture_output=True, check=True).stdout
    (work / "thresholds.json").write_bytes(thresholds)


class Fuzzer:
    def __init__(self, program, work, keep):
        self.program, self.work, self.keep = program, work, keep
        self.seeds = {name: (work / name).read_bytes() for name in READERS if (work / name).exists()}

    def change(self, name, random_):
        text = self.seeds[name]
        # Half of the packed ones are changed within and packed again.
        if name.endswith(".gz") and random_.random() < 0.5:
            return gzip.compress(mutate(gzip.decompress(text), random_), 1)
        if name.endswith(".zst") and random_.random() < 0.5:
            plain = subprocess.run(["zstd", "-dcq"], input=text, capture_output=True, check=True).stdout
            return subprocess.run(["zstd", "-cq1"], input=mutate(plain, random_), capture_output=True, check=True).stdout
        return mutate(text, random_)

    def place(self, name, file, words):
        """The words with their marks replaced, and the environment in which the file is read."""
        folder = file.parent
        for mark, (kind, place) in COPIES.items():
            if mark in words:
                shutil.copytree(self.work / kind, folder / kind)
                target = next((folder / kind).glob(place)) if place else folder / kind / name
                shutil.copy(file, target)
                words = words.replace(mark, str(folder / kind))
        if name in WORDS:
            words += " " + " ".join(file.read_text("utf-8", "surrogateescape").replace("\0", "").split("\n"))
        marks = {"{F}": file, "{D}": folder, "{R}": self.work / "run", "{W}": self.work}
        for mark, path in marks.items():
            words = words.replace(mark, str(path))
        environment = {}
        if name == "scenario.toml":
            (folder / "scenarios/any").mkdir(parents=True)
            shutil.copy(file, folder / "scenarios/any/fuzzed.toml")
            environment = {"ALLOCMARK_DATA": str(folder)}
        if name == "cards.tsv":
            environment = {"ALLOCMARK_PROFILES": str(folder)}
        return words, environment

    def answer(self, server, case, name, text, reader):
        """The command's words, its answer, and its folder with what it read."""
        folder = self.work / case
        folder.mkdir()
        (folder / name).write_bytes(text)
        words, environment = self.place(name, folder / name, reader)
        return words, server.answer_of(words.split(), environment), folder

    def try_one(self, server, seed, pair, number):
        """A try's name, the command's words, what is wrong, and the answer."""
        name, reader = pair
        case = f"{seed}/{name}/{reader}/{number}"
        random_ = random.Random(case)
        reader_words = READERS[name][reader]
        words, answer, folder = self.answer(server, case.replace("/", "_"), name, self.change(name, random_), reader_words)
        problem = answer.problem(CODES)
        if problem and self.keep:
            shutil.copytree(folder, Path(self.keep) / folder.name, dirs_exist_ok=True)
        shutil.rmtree(folder)
        return case, words, problem, answer

    def refused(self, server):
        """Readers that refuse their seed as it is: no change of it would go further than that."""
        for name in sorted(self.seeds):
            for number, reader in enumerate(READERS[name]):
                words, answer, folder = self.answer(server, f"sound{number}{name}", name, self.seeds[name], reader)
                shutil.rmtree(folder)
                if answer.problem("013"):
                    yield f"unchanged: allocmark {words}\n    {answer.problem('013')}\n    {answer.output[-300:]!r}"


class Turns:
    """Which pair of a kind and a command is tried next: the one that had the least processor time so far."""

    def __init__(self, pairs, count):
        self.heap = [(0.0, 0, pair) for pair in pairs]
        self.left = count
        self.lock = threading.Lock()

    def take(self):
        """A pair and its next number; nothing where all is tried."""
        with self.lock:
            if self.left <= 0 or not self.heap:
                return None
            self.left -= 1
            return heapq.heappop(self.heap)

    def give(self, cpu_s, number, pair):
        with self.lock:
            heapq.heappush(self.heap, (cpu_s, number, pair))


class Run:
    def __init__(self, fuzzer, seed, turns):
        self.fuzzer, self.seed, self.turns = fuzzer, seed, turns
        self.tally, self.failed = Tally(), 0

    def work(self, server):
        while (turn := self.turns.take()) is not None:
            cpu_s, number, pair = turn
            case, words, problem, answer = self.fuzzer.try_one(server, self.seed, pair, number)
            self.turns.give(cpu_s + max(answer.cpu_s, 0.002), number + 1, pair)
            with self.turns.lock:
                self.tally.add(pair[0], answer, problem)
                self.failed += bool(problem)
                if problem:
                    print(f"try {case}: allocmark {words}\n    {problem}\n    {answer.output[-300:]!r}", flush=True)


def work_in_threads(run, program, folder, job_count):
    """Each thread has a program of its own that forks."""
    def work(job):
        with ForkServer(program, folder / f"job{job}") as server:
            run.work(server)

    with ThreadPoolExecutor(job_count) as pool:
        for done in [pool.submit(work, job) for job in range(job_count)]:
            done.result()


def main():
    if not shutil.which("zstd") or not shutil.which("cc"):
        print("zstd or cc is missing: nothing was tried (Debian: apt-get install zstd gcc)")
        return 77
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", help="folder for the inputs that broke something")
    parser.add_argument("--table", help="file for a table of the kinds")
    parser.add_argument("--only", help="the one try of this name, as SEED/KIND/COMMAND/NUMBER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_seeds(options.program, folder)
        fuzzer = Fuzzer(options.program, folder, options.keep)
        with ForkServer(options.program, folder / "first") as server:
            if options.only:
                seed, kind, reader, number = options.only.split("/")
                _, words, problem, answer = fuzzer.try_one(server, seed, (kind, int(reader)), number)
                print(f"allocmark {words}\n    {problem}\n    {answer.output.decode(errors='replace')}")
                return 1 if problem else 0
            refused = list(fuzzer.refused(server))
        pairs = [(kind, reader) for kind in sorted(fuzzer.seeds) for reader in range(len(READERS[kind]))]
        run = Run(fuzzer, options.seed, Turns(pairs, options.count))
        work_in_threads(run, options.program, folder, options.jobs)
    missing = sorted(set(READERS) - set(fuzzer.seeds))
    if missing:
        refused.append(f"no seed for {', '.join(missing)}")
    for line in refused:
        print(line)
    if options.table:
        Path(options.table).write_text(run.tally.markdown())
    print(run.tally.markdown())
    tried = sum(row["tries"] for row in run.tally.rows.values())
    print(f"tried {tried}, held {tried - run.failed}, failed {run.failed + len(refused)}")
    return 1 if run.failed or refused else 0


if __name__ == "__main__":
    sys.exit(main())
