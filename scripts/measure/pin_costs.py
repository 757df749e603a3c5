#!/usr/bin/env python3
"""What the CUDA runtime takes to pin host memory on this machine, and what PyTorch says to pinned settings. Used by host_probe.py.

scripts/measure/pin_costs.py [SECONDS]      writes the durations alone; needs a GPU and libcudart, not PyTorch
"""
import contextlib
import ctypes
import functools
import json
import mmap
import os
import sys
import time

MIB = 1 << 20
SIZES_MIB = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SETTINGS = (
    "pinned_num_register_threads:0", "pinned_num_register_threads:3", "pinned_num_register_threads:128",
    "pinned_num_register_threads:256", "pinned_use_cuda_host_register:maybe", "pinned_use_cuda_host_register:true",
    "pinned_reserve_segment_size_mb:0", "pinned_reserve_segment_size_mb:-1", "pinned_reserve_segment_size_mb:abc",
    "pinned_use_background_threads:yes", "pinned_use_background_threads:True", "pinned_free_catch_all:True",
    "pinned_max_round_threshold_mb:128", "pinned_max_cached_size_mb:1024", "pinned_use_hip_host_register:True",
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:8")


def refusals(set_conf):
    """What set_conf(text) raises for each of SETTINGS; null where it is accepted."""
    answers = {}
    for conf in SETTINGS:
        try:
            set_conf(conf)
            answers[conf] = None
        except (RuntimeError, ValueError) as error:
            answers[conf] = str(error)[:300]
    return answers


class ThreadClock(ctypes.Structure):
    """simcuda's SimcuThreadClock."""
    _fields_ = (("modelled_ns", ctypes.c_uint64), ("simulator_ticks", ctypes.c_uint64))


@functools.cache
def clock():
    """Reads nanoseconds: on simcuda what calls took as modelled, else the host's clock. The runtime is loaded."""
    modelled = getattr(ctypes.CDLL(None), "simcu_thread_clock", None)
    if modelled is None:
        return time.perf_counter_ns
    modelled.restype = ctypes.POINTER(ThreadClock)
    return lambda: modelled().contents.modelled_ns


def timed(call, *arguments):
    """Nanoseconds of a runtime call; raises RuntimeError where it fails."""
    now_ns = clock()
    began = now_ns()
    status = call(*arguments)
    took = now_ns() - began
    if status != 0:
        raise RuntimeError(f"status {status}")
    return took


def one_round(runtime, mib, samples):
    """Pins and unpins one block in each way. Durations go to `samples`, by the name of the call."""
    size, address = ctypes.c_size_t(mib * MIB), ctypes.c_void_p()
    samples.setdefault("cudaHostAlloc", []).append(timed(runtime.cudaHostAlloc, ctypes.byref(address), size, ctypes.c_uint(0)))
    samples.setdefault("cudaFreeHost", []).append(timed(runtime.cudaFreeHost, address))
    samples.setdefault("cudaMallocHost", []).append(timed(runtime.cudaMallocHost, ctypes.byref(address), size))
    timed(runtime.cudaFreeHost, address)
    for note, touched in (("untouched", False), ("touched", True)):
        with contextlib.closing(mmap.mmap(-1, mib * MIB)) as area:
            view = (ctypes.c_char * (mib * MIB)).from_buffer(area)
            address = ctypes.c_void_p(ctypes.addressof(view))
            if touched:
                began = time.perf_counter_ns()
                ctypes.memset(address, 0, mib * MIB)
                samples.setdefault("memset", []).append(time.perf_counter_ns() - began)
            samples.setdefault(f"cudaHostRegister {note}", []).append(timed(runtime.cudaHostRegister, address, size, ctypes.c_uint(0)))
            samples.setdefault(f"cudaHostUnregister {note}", []).append(timed(runtime.cudaHostUnregister, address))
            del view


class PoolProperties(ctypes.Structure):
    """cudaMemPoolProps of CUDA 12 and 13: pinned memory at a location of the host."""
    _fields_ = (("kind", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int), ("location_id", ctypes.c_int),
                ("security", ctypes.c_void_p), ("max_size", ctypes.c_size_t), ("rest", ctypes.c_ubyte * 56))


POOLS = (("Host", 2), ("HostNuma", 3))
RELEASE_THRESHOLD = 4


def pool_round(runtime, mib, samples, location, keeps):
    """Takes a block from a new pool of the host, frees it, and takes it again. `keeps`: the pool gives nothing back."""
    pool, address, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(mib * MIB)
    name, number = location
    properties = PoolProperties(kind=1, location=number)
    note = f"{name} {'kept' if keeps else 'given back'}"
    timed(runtime.cudaMemPoolCreate, ctypes.byref(pool), ctypes.byref(properties))
    threshold = ctypes.c_uint64(2**64 - 1 if keeps else 0)
    timed(runtime.cudaMemPoolSetAttribute, pool, ctypes.c_int(RELEASE_THRESHOLD), ctypes.byref(threshold))
    for turn in ("first", "again"):
        took = timed(runtime.cudaMallocFromPoolAsync, ctypes.byref(address), size, pool, None)
        samples.setdefault(f"cudaMallocFromPoolAsync {note}, {turn}", []).append(took)
        samples.setdefault(f"cudaFreeAsync {note}, {turn}", []).append(timed(runtime.cudaFreeAsync, address, None))
        samples.setdefault(f"cudaDeviceSynchronize {note}, {turn}", []).append(timed(runtime.cudaDeviceSynchronize))
    samples.setdefault(f"cudaMemPoolDestroy {note}", []).append(timed(runtime.cudaMemPoolDestroy, pool))


def runtime_library():
    """The CUDA runtime, or None where there is none: the system's, or that of the wheels beside PyTorch."""
    folders = [os.path.join(folder, "nvidia", *part) for folder in sys.path for part in (("cu13", "lib"), ("cuda_runtime", "lib"))]
    for folder in ("", *folders):
        for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
            with contextlib.suppress(OSError):
                return ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_GLOBAL)
    return None


def costs(write, seconds):
    """Calls write() for each call and size, straight through ctypes. One block at a time: at most 1 GiB is pinned."""
    runtime = runtime_library()
    if runtime is None:
        write({"cost": None, "note": "no libcudart was found"})
        return
    stop_at = time.monotonic() + seconds
    for mib in SIZES_MIB:
        samples = {}
        try:
            for _ in range(9 if mib <= 64 else 5 if mib <= 256 else 3):
                if time.monotonic() < stop_at:
                    one_round(runtime, mib, samples)
                    for location in POOLS:
                        for keeps in (False, True):
                            pool_round(runtime, mib, samples, location, keeps)
        except RuntimeError as error:
            write({"cost": None, "mib": mib, "note": str(error)})
        for call, durations in samples.items():
            write({"cost": call, "mib": mib, "ns": durations})


if __name__ == "__main__":
    costs(lambda line: print(json.dumps(line)), float(sys.argv[1]) if len(sys.argv) > 1 else 15)
