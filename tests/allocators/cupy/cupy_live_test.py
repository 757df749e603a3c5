#!/usr/bin/env python3
"""CuPy's own memory pool and ours, beside each other: random operations on cupy.cuda.MemoryPool, with a device that this script
plays, and the same on allocators/cupy/heap.h. Skipped (77) where CuPy is not here. It needs no GPU and no CUDA:

    pip install --no-deps --target build/cupy --require-hashes --only-binary :all: -r scripts/build/cupy_wheels.txt

usage: cupy_live_test.py CUPY_ANSWERS [OPERATIONS]
ALLOCMARK_CUPY names another folder than build/cupy.
"""
import ctypes
import os
import random
import subprocess
import sys

SKIPPED = 77
OPERATIONS_PER_POOL = 5000
STREAMS = (0, 11, 12)


def answer_in_place_of_cuda(runtime):
    """CuPy asks its runtime on which device it is; modules that are loaded later get these answers instead."""
    python, kept = ctypes.pythonapi, []
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    for name, value in (("getDevice", 0), ("getDeviceCount", 1)):
        signature = ctypes.create_string_buffer(python.PyCapsule_GetName(runtime.__pyx_capi__[name]))
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda _, value=value: value)
        kept += [signature, function]
        runtime.__pyx_capi__[name] = python.PyCapsule_New(
            ctypes.cast(function, ctypes.c_void_p), ctypes.cast(signature, ctypes.c_char_p), None)
    return kept


class Device:
    """Memory without content: addresses ever higher, up to a capacity."""

    def __init__(self, cupy, capacity, write):
        self.cupy, self.capacity, self.write, self.held, self.next = cupy, capacity, write, 0, 1 << 32

    def take(self, size):
        memory = self.cupy.cuda.memory
        if self.held + size > self.capacity:
            self.write(f"take {size} 0\n")
            raise self.cupy.cuda.runtime.CUDARuntimeError(2)
        address, self.next = self.next, self.next + size + (1 << 20)
        self.held += size
        self.write(f"take {size} {address}\n")
        return memory.MemoryPointer(memory.UnownedMemory(address, size, Held(self, address, size), 0), 0)


class Held:
    def __init__(self, device, address, size):
        self.device, self.address, self.size = device, address, size

    def __del__(self):
        self.device.held -= self.size
        self.device.write(f"give {self.address}\n")


def run_pool(cupy, seed, count, write):
    draw = random.Random(seed)
    device = Device(cupy, draw.choice((1 << 22, 1 << 25, 1 << 40)), write)
    limit = draw.choice((0, 0, 1 << 21, 1 << 24))
    pool = cupy.cuda.MemoryPool(device.take)
    pool.set_limit(size=limit)
    write(f"limit {limit}\n")
    streams = [cupy.cuda.ExternalStream(number) if number else cupy.cuda.Stream.null for number in STREAMS]
    largest = draw.choice((4, 64, 2048)) * 512
    live = []
    for _ in range(count):
        choice = draw.random()
        if choice < 0.002:
            pool.free_all_blocks()
            write("flush\n")
        elif live and choice < (0.35 if len(live) < 200 else 0.7):
            at = draw.randrange(len(live))
            live[at], live[-1] = live[-1], live[at]
            address = live[-1].ptr
            live.pop()
            write(f"free {address}\n")
        else:
            number = draw.randrange(len(STREAMS))
            size = draw.randint(1, draw.choice((1024, largest)))
            with streams[number]:
                try:
                    block = pool.malloc(size)
                except cupy.cuda.memory.OutOfMemoryError:
                    block = None
            write(f"alloc {STREAMS[number]} {size} {block.ptr if block else 0}\n")
            if block:
                live.append(block)
            del block
        write(f"state {pool.total_bytes()} {pool.used_bytes()} {pool.n_free_blocks()}\n")
    live.clear()


def main():
    sys.path.insert(0, os.environ.get("ALLOCMARK_CUPY", "build/cupy"))
    try:
        import cupy_backends.cuda.api.runtime as runtime
    except ImportError:
        print("skipped: CuPy is not here")
        return SKIPPED
    kept = answer_in_place_of_cuda(runtime)
    import cupy
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
    operations = refusals = 0
    for seed in range((count + OPERATIONS_PER_POOL - 1) // OPERATIONS_PER_POOL):
        lines = []
        run_pool(cupy, seed, min(OPERATIONS_PER_POOL, count - seed * OPERATIONS_PER_POOL), lines.append)
        answers = subprocess.run([sys.argv[1]], input="".join(lines), capture_output=True, text=True)
        if answers.returncode != 0:
            print(f"pool {seed}: {answers.stdout}{answers.stderr}")
            return 1
        words = answers.stdout.split()
        operations, refusals = operations + int(words[0]), refusals + int(words[2])
    print(f"CuPy {cupy.__version__} ({len(kept) // 2} functions of its runtime answered here): "
          f"{operations} operations, {refusals} refusals, 0 differences")
    return 0 if operations == count else 1


if __name__ == "__main__":
    sys.exit(main())
