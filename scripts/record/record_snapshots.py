#!/usr/bin/env python3
"""Records small memory snapshots of PyTorch on a GPU: the goldens that the import of snapshots is held to.

usage: record_snapshots.py FOLDER [--only NAME,NAME] [--list] [--jobs N]

Needs PyTorch with CUDA; no other package, no network. Each case runs in a process of its own, so that the config string
and the heap are its own. Out: NAME.pickle.gz per case (torch.cuda.memory._snapshot(), pickled as _dump_snapshot does),
and NAME.json with what the allocator counted: the oracle for what is rebuilt from the snapshot. A case that fails says
why and does not stop the others; the exit status is then 1.
"""
import argparse
import concurrent.futures
import ctypes
import gzip
import json
import os
import pickle
import subprocess
import sys
import time

from snapshot_cases import CASES

SECONDS_MAX = 100  # of one case


def dump_from_cpp():
    """The bytes of torch::cuda::_memory_snapshot_pickled(), which servers without Python write; None where this build
    does not export it. It returns a std::string through a hidden pointer."""
    import torch
    for name in ("libtorch_cuda.so", "libtorch_python.so"):
        library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", name))
        try:
            function = library["_ZN5torch4cuda24_memory_snapshot_pickledB5cxx11Ev"]
        except AttributeError:
            continue
        text = (ctypes.c_void_p * 4)()
        function.restype = None
        function.argtypes = [ctypes.c_void_p]
        function(ctypes.addressof(text))
        return ctypes.string_at(text[0], text[1])
    return None


def run_case(name, folder):
    import torch
    _, function, conf, protocol, _ = next(entry for entry in CASES if entry[0] == name)
    torch.cuda.init()
    torch.manual_seed(0)
    function()
    torch.cuda.synchronize()
    snapshot = torch.cuda.memory._snapshot()
    packed = pickle.dumps(snapshot, protocol=protocol)
    if name == "from_cpp":
        packed = dump_from_cpp()
        if packed is None:
            raise RuntimeError("this build of PyTorch does not export _memory_snapshot_pickled")
    with open(os.path.join(folder, f"{name}.pickle.gz"), "wb") as file:
        file.write(gzip.compress(packed, 9, mtime=0))
    facts = {
        "name": name, "conf": conf, "protocol": protocol, "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0), "total_bytes": torch.cuda.get_device_properties(0).total_memory,
        "memory_fraction": torch.cuda.get_per_process_memory_fraction(),
        "entries": len(snapshot["device_traces"][0]) if snapshot["device_traces"] else 0,
        "keys": sorted(snapshot), "entry_keys": sorted({key for trace in snapshot["device_traces"] for entry in trace for key in entry}),
        "stats": torch.cuda.memory_stats(),
    }
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump(facts, file, indent=1, sort_keys=True)


def start_case(name, conf, folder):
    environment = dict(os.environ)
    environment.pop("PYTORCH_ALLOC_CONF", None)
    environment.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    if conf:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = conf
    begin = time.time()
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), folder, "--one", name], env=environment,
                              capture_output=True, text=True, timeout=SECONDS_MAX)
        failure = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[-1]
    except subprocess.TimeoutExpired:
        failure = f"no end after {SECONDS_MAX} s"
    path = os.path.join(folder, f"{name}.pickle.gz")
    size = f"{os.path.getsize(path)} B" if not failure else f"FAILED: {failure}"
    print(f"{name}: {time.time() - begin:.0f} s, {size}", flush=True)
    return not failure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the snapshots go; made where it is missing")
    parser.add_argument("--only", help="names of cases, with commas between")
    parser.add_argument("--list", action="store_true", help="name the cases")
    parser.add_argument("--jobs", type=int, default=8, help="cases at once [8]")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name}: {conf or 'unset'}" for name, _, conf, _, _ in CASES))
        return 0
    os.makedirs(arguments.folder, exist_ok=True)
    if arguments.one:
        run_case(arguments.one, arguments.folder)
        return 0
    wanted = arguments.only.split(",") if arguments.only else [entry[0] for entry in CASES]
    chosen = [entry for entry in CASES if entry[0] in wanted]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        done = list(pool.map(lambda entry: start_case(entry[0], entry[2], arguments.folder),
                             [entry for entry in chosen if not entry[4]]))
    done += [start_case(entry[0], entry[2], arguments.folder) for entry in chosen if entry[4]]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
