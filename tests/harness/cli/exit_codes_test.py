#!/usr/bin/env python3
"""Exit codes that commands give, each by a command line that gives it. Usage: exit_codes_test.py PATH_OF_ALLOCMARK PLUGIN

Code 5 is a bug of ours, so nothing here can ask for it, and 124 is what `timeout` gives. Every command of --help has a row for 2 and
one in which it does its work. PLUGIN is right, and wrong as FAULTY_PLUGIN says.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

RUN = "run --workload file:{W}/good.csv -a native -d sim:h200 --passes 1 --allow-debug"
AB = "run --workload gpt2_train_amp -d sim:h200 --capacity 1.05x --passes 1 --rounds 3 --rounds-max 3 --allow-debug --ab max_split_size_mb:128 unset"
RANKS = "train:gpt2-124m,layers=1,batch=1,seq=64,steps=1,dp=2"
QUALIFY = "qualify -d sim:h200 --level quick"
GOLDENS = "tests/golden/caching/gpt2_train_amp.tar.gz"
# Code, command line, environment. In this order: later rows use folders of earlier ones. 4! only where the machine has no GPU.
ROWS = [
    ("0", RUN + " --out {W}/run", ""),
    ("0", RUN + " --out {W}/other", ""),
    ("1", AB + " --out {W}/ab", ""),
    ("2", RUN + " --capacity 24", ""),
    ("2", RUN + " --capacity 900GiB", ""),
    ("3", RUN + " --out {W}/crashed", "MISBEHAVE=exit3"),
    ("4!", "run --workload gpt2_train_amp -a null -d cuda:0 --allow-debug --out {W}/gpu", ""),
    ("6", RUN + " --out /dev/null/x", ""),
    ("6", "run --workload file:{W}/none.csv", ""),
    ("6", "run --resume --out {W}/none --allow-debug", ""),
    ("0", "list suites", ""),
    ("2", "list suits", ""),
    ("6", "list workloads", "ALLOCMARK_DATA={W}/none"),
    ("0", "list cards", ""),
    ("0", "fit bert_varlen_infer --conf unset", ""),
    ("2", "fit no_such_job", ""),
    ("0", "capture --out {W}/captured -- true", ""),
    ("2", "capture --out {W}/captured", ""),
    ("6", "capture --out {W}/captured2 -- {W}/none", ""),
    ("2", "fit bert_varlen_infer --device cuda:0", ""),
    ("6", "fit file:{W}/none.csv", ""),
    ("0", "advise bert_varlen_infer --conf unset --search-only", ""),
    ("2", "advise bert_varlen_infer --device sim:a100", ""),
    ("2", "advise bert_varlen_infer --conf max_split:128", ""),
    ("0", "advise bert_varlen_infer --pytorch 2.10 --conf unset --search-only", ""),
    ("2", "advise bert_varlen_infer --pytorch 2.10 --conf large_segment_size_mb:64", ""),
    ("2", "fit bert_varlen_infer --pytorch 2.3", ""),
    ("0", "explain max_split_size_mb:128", ""),
    ("2", "explain max_split:128", ""),
    ("0", "report {W}/run --no-html", ""),
    ("2", "report {W}/bad --format table", ""),
    ("6", "report {W}/none", ""),
    ("6", "report {W}/run --latex {W}/none/x.tex", ""),
    ("6", "report {W}/run --svg {W}/good.csv/x", ""),
    ("0", "compare {W}/run {W}/other --only exact", ""),
    ("1", "compare {W}/ab", ""),
    ("2", "compare {W}/run {W}/bad/results.jsonl", ""),
    ("1", "compare {W}/run {W}/crashed --only exact", ""),
    ("6", "compare {W}/run {W}/none", ""),
    ("6", "compare {W}/run {W}/other --policy {W}/none.json", ""),
    ("1", "bundle {W}/run --out {W}/run.tar", ""),
    ("2", "bundle {W}/run --out {W}/run.zip", ""),
    ("2", "bundle {W}/run --out {W}/run.tar", ""),
    ("6", "bundle {W}/none --out {W}/none.tar", ""),
    ("6", "bundle {W}/run --out {W}/none/run.tar", ""),
    ("1", "check {W}/run.tar", ""),
    ("2", "check {W}/good.csv", ""),
    ("6", "check {W}/none.tar", ""),
    ("0", "reproduce {W}/run.tar --trust", ""),
    ("3", "reproduce {W}/run.tar", ""),
    ("2", "reproduce {W}/good.csv", ""),
    ("6", "reproduce {W}/none.tar", ""),
    ("0", QUALIFY, ""),
    ("1", QUALIFY, "SIMCUDA_GPU_FAULTS=0:leak_every=7"),
    ("1", QUALIFY, "SIMCUDA_GPU_FAULTS=0:remap_failed=1"),
    ("1", QUALIFY, "SIMCUDA_GPU_FAULTS=0:ecc_mode=0"),
    ("1", QUALIFY, "SIMCUDA_GPU_FAULTS=0:remap_failed=1;0:foreign_bytes=8589934592"),
    ("1", QUALIFY + " --fail-on warn", "SIMCUDA_GPU_FAULTS=0:ecc_corrected=50"),
    ("2", QUALIFY + " --one-line", "SIMCUDA_GPU_FAULTS=0:foreign_bytes=8589934592"),
    ("0", QUALIFY + " --node a --out {W}/nodes/a", "SIMCUDA_NODE=a"),
    ("0", "merge {W}/nodes", ""),
    ("3", "merge {W}/nodes --expect {W}/names", ""),
    ("1", QUALIFY + " --node b --out {W}/nodes/b", "SIMCUDA_GPU_FAULTS=0:leak_every=7"),
    ("1", "merge {W}/nodes", ""),
    ("0", "merge {W}/run --out {W}/merged", ""),
    ("1", "merge {W}/nodes --baseline {W}/fleet.json", ""),
    ("2", "merge {W}/nodes --baseline {W}/fleet.json", ""),
    ("2", "merge {W}/run", ""),
    ("6", "merge {W}/none", ""),
    ("6", "merge {W}/nodes --out /dev/null/x", ""),
    ("2", QUALIFY + " --thresholds {W}/good.csv", ""),
    ("4", QUALIFY, "SIMCUDA_GPU_FAULTS=0:foreign_bytes=8589934592"),
    ("4", QUALIFY, "SIMCUDA_GPU_FAULTS=0:throttle=64"),
    ("4!", "qualify", ""),
    ("6", QUALIFY + " --thresholds {W}/none", ""),
    ("6", QUALIFY + " --out /dev/null/x", ""),
    ("0", "ranks " + RANKS + " -d sim:h200", ""),
    ("0", "ranks " + RANKS + " --capacity 16MiB -d sim:h200", ""),  # out of memory is a result
    ("2", "ranks churn:events=500 -d sim:h200", ""),
    ("4!", "ranks " + RANKS + " -d cuda:0", ""),
    ("6", "ranks " + RANKS + " --rank-workload 1=file:{W}/none.csv -d sim:h200", ""),
    ("0", "threads churn:events=500 --threads 1,2 --passes 1 -d sim:h200", ""),
    ("0", "threads churn:events=500 --threads 2 --devices 2 --block-table one --passes 1 -d sim:h200", ""),
    ("2", "threads churn:events=500 -a null --devices 2 -d sim:h200", ""),
    ("2", "threads churn:events=500 -a thrust_pool -d sim:h200", ""),
    ("4!", "threads churn:events=500 -d cuda:0", ""),
    ("6", "threads file:{W}/none.csv -d sim:h200", ""),
    ("0", "trace validate {W}/good.csv", ""),
    ("2", "trace validate {W}/bad/results.jsonl", ""),
    ("6", "trace validate {W}/none.csv", ""),
    ("6", "trace convert {W}/good.csv {W}/none/x.csv", ""),
    ("0", "profile -d sim:h200 --repeats 1 --out {W}/p.json", ""),
    ("2", "profile -d sim:h200 --repeats 1 --out {W}/p.json", ""),
    ("4!", "profile --out {W}/q.json", ""),
    ("6", "profile -d sim:h200 --out {W}/none/p.json", ""),
    ("0", "fidelity {W}/good.csv -w file:{W}/good.csv --conf unset", ""),
    ("2", "fidelity {W}/good.csv -w train:nothing", ""),
    ("3", "fidelity {W}/good.csv -w file:{W}/good.csv --conf unset", "MISBEHAVE=exit3"),
    ("6", "fidelity {W}/none.csv -w file:{W}/good.csv", ""),
    ("6", "fidelity {W}/good.csv -w file:{W}/good.csv --conf unset --out /dev/null/x", ""),
    ("0", "simcheck --on sim:h200 --seeds 1 --events 50 --allocator native", ""),
    ("1", "simcheck --on sim:h200 --against sim:h200,memory=1GiB --seeds 1 --allocator native", ""),
    ("2", "simcheck --on sim:h200 --allocator native --conf x:1", ""),
    ("4!", "simcheck --seeds 1 --allocator native", ""),
    ("6", "simcheck file:{W}/none.csv --on sim:h200", ""),
    ("0", "parity gpt2_train_amp " + GOLDENS, ""),
    ("1", "parity gpt2_train_amp {W}/C00_all.txt --conf max_split_size_mb:32", ""),
    ("2", "parity gpt2_train_amp", ""),
    ("4?", "parity --live random --operations 1000", ""),
    ("6", "parity gpt2_train_amp {W}/none", ""),
    ("0", "why 'CUDA out of memory. Tried to allocate 2.00 GiB'", ""),
    ("2", "why {W}/good.csv", ""),
    ("6", "why {W}/none", ""),
    ("0", "estimate train:gpt2-124m,layers=1,batch=1,seq=64,steps=1", ""),
    ("2", "estimate nothing", ""),
    ("6", "estimate file:{W}/none.csv", ""),
    ("0", "pinned 24MiB", ""),
    ("2", "pinned 24", ""),
    ("6", "pinned --workload file:{W}/none.csv", ""),
    ("0", "bound {W}/good.csv", ""),
    ("1", "bound {W}/good.csv --capacity 1B", ""),
    ("2", "bound nothing", ""),
    ("6", "bound {W}/good.csv --out {W}/none/x.csv", ""),
    ("0", "export file:{W}/good.csv {W}/x.rmm.csv", ""),
    ("2", "export file:{W}/good.csv {W}/x.rmm.csv", ""),
    ("6", "export file:{W}/none.csv {W}/y.csv", ""),
    ("0", "conformance {P} --rule contents", ""),
    ("1", "conformance {P} --rule overlap", "FAULTY_PLUGIN=overlap"),
    ("2", "conformance {P} --rule nothing", ""),
    ("2", "conformance {W}/good.csv", ""),
    ("6", "conformance {W}/none.so", ""),
    ("0", "man", ""),
    ("2", "man nothing", ""),
    ("0", "completion bash", ""),
    ("2", "completion nothing", ""),
    ("0", "help run", ""),
    ("2", "help nothing", ""),
]


def make_files(work):
    (work / "good.csv").write_text("op,id,size,stream\nalloc,1,512,0\nfree,1,0,0\n")
    (work / "names").write_text("a\nsilent\n")
    (work / "bad").mkdir()
    (work / "bad" / "results.jsonl").write_text("this is no line of results\n")
    (work / "bad" / "plan.json").write_text("{}\n")
    subprocess.run(["tar", "xzf", GOLDENS, "-C", work, "--strip-components=1"], check=True)


def commands_without_row(program):
    """Commands of --help that no row asks for something wrong, or for their work."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^  ([a-z]+)  ", text.split("\nCommands:\n", 1)[1].split("\n\n", 1)[0], re.M))
    rows = {(words.split()[0], code[0]) for code, words, _ in ROWS}
    return sorted(name for name in commands if (name, "2") not in rows or not {(name, "0"), (name, "1")} & rows)


def main(program, plugin):
    has_gpu = subprocess.run([program, "list", "devices"], capture_output=True, text=True, check=True).stdout.count("cuda:0  does not work") == 0
    failures, count, without = 0, 0, commands_without_row(program)
    for command in without:
        print(f"allocmark {command}: add a row for exit code 2 and one for 0 or 1")
    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name))
        for code, words, setting in ROWS:
            if code == "4!" and has_gpu:
                continue
            environment = dict(os.environ)
            if setting:
                variable, value = setting.replace("{W}", name).split("=", 1)
                environment[variable] = value
                if variable == "MISBEHAVE":
                    environment["LD_PRELOAD"] = os.environ["MISBEHAVING_RUNTIME"]
            command = shlex.split(words.replace("{W}", name).replace("{P}", plugin))
            got = subprocess.run([program, *command], capture_output=True, text=True, errors="replace", timeout=120, env=environment, check=False)
            allowed = {"0", "4"} if code == "4?" else {code[0]}  # with PyTorch's plugin the comparison runs
            count += 1
            if str(got.returncode) not in allowed:
                failures += 1
                print(f"{setting} allocmark {words}\n    exit code {got.returncode}, wanted {code}\n    {(got.stderr or got.stdout)[-400:]}")
    print(f"{count - failures} of {count} exit codes are right")
    return 1 if failures or without else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
