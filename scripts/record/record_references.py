#!/usr/bin/env python3
"""Makes reference recordings of transformers on GPUs: what real training and inference ask of the allocator.

usage: record_references.py --out FOLDER [--only NAME,NAME] [--lone RANK] [--list]

Needs PyTorch with CUDA and transformers (peft for those with lora, timm for timm_ and dit_, two GPUs for those named ddp_, zero1_, fsdp and cp2_, four for
cp4_; with --lone one, whose RANK is recorded while collective operations do nothing); downloads
nothing: models are made from their configuration with random weights. The programs are in references/. Each recording is its own process, from the
first parameter on; each ends after 30,000 operations at most. Out: NAME.ops.csv.gz per recording and a line with its operations, allocs,
peak of requested bytes and packed size. One that fails says why and does not stop the others; the exit status is then 1.
"""
import argparse
import concurrent.futures
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import record_pytorch
from references import context, diffusion, distributed, lone_rank, low_bits, multimodal, recent, serving, setups, training, vision

OPERATIONS_MAX = 30_000
PACKED_BYTES_MAX = 150_000
SECONDS_MAX = 120  # of one recording
NEVER_LONE = ("ddp_", "zero1_")
PORT_FIRST = 29510  # where the processes of a distributed recording meet
REFERENCES = (training.PROGRAMS + setups.PROGRAMS + serving.PROGRAMS + distributed.PROGRAMS + context.PROGRAMS + recent.PROGRAMS + vision.PROGRAMS
              + low_bits.PROGRAMS + multimodal.PROGRAMS + diffusion.PROGRAMS)
RANKS = {program.__name__: count for program, count in [*((each, 2) for each in distributed.PROGRAMS), *context.RANKS.items()]}


class Silent:
    """What a program marks its steps on in a process that is not recorded."""

    def mark(self, label):
        pass


def record_one(name, path):
    """Runs in a process of its own: nothing that an earlier recording left is live."""
    import torch
    import torch.distributed
    program = next(reference for reference in REFERENCES if reference.__name__ == name)
    rank = int(os.environ.get("RANK", "0"))
    is_lone = "RECORD_LONE" in os.environ
    if name in RANKS and is_lone:
        joined = lone_rank.join(rank, RANKS[name])  # noqa: F841 (holds the library)
    elif name in RANKS:
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(0)
    is_recorded = rank == 0 or is_lone
    if is_recorded:
        with record_pytorch.record(path, name=name, operation_count_max=OPERATIONS_MAX) as recording:
            program(recording)
    else:
        program(Silent())
    torch.cuda.synchronize()
    if name in RANKS:
        torch.distributed.destroy_process_group()
    if is_recorded:
        print(record_pytorch.summary(recording.converter))


def environments(name, lone=None):
    """One per process of the recording. `lone`: the one rank that is there."""
    if name not in RANKS:
        return [dict(os.environ)]
    if lone is not None:
        return [dict(os.environ, RANK=str(lone), RECORD_LONE="1")]
    port = PORT_FIRST + list(RANKS).index(name)
    return [dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS[name]), MASTER_ADDR="127.0.0.1",
                 MASTER_PORT=str(port)) for rank in range(RANKS[name])]


def check_lone(names, lone):
    """Every program that is recorded has this rank and can do without the others."""
    for name in names if lone is not None else ():
        count = RANKS.get(name, 1)
        if lone >= count:
            sys.exit(f"record_references.py: --lone {lone}: {name} has {count} ranks: wanted 0 to {count - 1}")
        if name.startswith(NEVER_LONE):
            sys.exit(f"record_references.py: --lone {lone}: {name} compares what its ranks have: wanted a GPU for each; leave out --lone")


def run(name, folder, lone):
    """Records in child processes and reports one line; returns whether it worked."""
    path = os.path.join(folder, f"{name}.ops.csv.gz")
    begin = time.monotonic()
    command = [sys.executable, os.path.abspath(__file__), "--out", path, "--only", name, "--child"]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
                for environment in environments(name, lone)]
    outputs = []
    for child in children:
        try:
            outputs.append(child.communicate(timeout=SECONDS_MAX))
        except subprocess.TimeoutExpired:
            for other in children:
                other.kill()
            for other in children:
                other.communicate()
            print(f"{name}: failed: no result after {SECONDS_MAX} s", flush=True)
            return False
    failed = [index for index, child in enumerate(children) if child.returncode != 0]
    if failed or not os.path.exists(path):
        worst = failed[0] if failed else 0
        print(f"{name}: failed, exit status {children[worst].returncode}\n{outputs[worst][1][-4000:]}", flush=True)
        return False
    size_bytes = os.path.getsize(path)
    remark = f" (MORE THAN {PACKED_BYTES_MAX})" if size_bytes > PACKED_BYTES_MAX else ""
    last_line = (outputs[0][0].splitlines() or ["no summary"])[-1]
    print(f"{name}: {last_line}, {size_bytes} bytes packed{remark}, {time.monotonic() - begin:.1f} s", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".", help="folder for the recordings")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--lone", type=int, metavar="RANK", help="record this rank of distributed programs alone, on one GPU")
    parser.add_argument("--jobs", type=int, default=3, help="recordings at once; they do not see each other")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="name the recordings and stop")
    arguments = parser.parse_args()
    names = [reference.__name__ for reference in REFERENCES]
    if arguments.list:
        for reference in REFERENCES:
            print(f"{reference.__name__}: {' '.join(reference.__doc__.split())}")
        return
    wanted = arguments.only.split(",") if arguments.only else names
    for name in wanted:
        if name not in names:
            sys.exit(f"record_references.py: no recording {name!r}: wanted some of {', '.join(names)}")
    if arguments.child:
        try:
            record_one(wanted[0], arguments.out)
        except (ImportError, record_pytorch.RecordError) as error:
            sys.exit(f"record_references.py: {error}: wanted PyTorch with CUDA and transformers")
        return
    check_lone(wanted, arguments.lone)
    os.makedirs(arguments.out, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        results = list(pool.map(lambda name: run(name, arguments.out, arguments.lone), wanted))
    print(f"{sum(results)} of {len(results)} recorded", flush=True)
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
