#!/usr/bin/env python3
"""Runs programs of references/ in PyTorch on simcuda, without a GPU, and records what they ask of the allocator.

usage: record_without_gpu.py --simcuda FOLDER --out FOLDER [--lone RANK] [--count N] [--check 0] NAME...

Operators and allocator are PyTorch's own. Kernels and cuBLAS do nothing, so all numbers are zero. cuDNN's attention is replaced by
one with the tensors and the workspace of recordings, its convolutions by ones without workspaces: the only requests that a GPU's
recording has besides. A generation never ends early. results/published/history/generators.md, "Programs held to PyTorch without a GPU", says how near
this comes. Needs PyTorch with CUDA 13, transformers, a C compiler and nm. FOLDER of simcuda holds its libcudart.so.13. Out:
NAME.ops.csv.gz; its head names the device. --count N: what a program reads where it counts on the device, such as how many
elements a mask chose (batch x patches x width in the programs llava_). --check: what it reads where it checks a mask or positions;
0 for ranks whose positions have a gap (all but the last of the programs cp2_llama_ and cp4_). Of programs with several ranks one
is recorded, and collective operations do nothing.
"""
import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICE = "simcuda as NVIDIA H200, kernels do nothing"
# What the stubs of cuBLAS answer besides success. Handles differ, as workspaces belong to them.
ANSWERS = {
    "cublasCreate_v2": "(void** handle) { static long next = 4096; *handle = (void*)(next += 4096); return 0; }",
    "cublasLtCreate": "(void** handle) { *handle = (void*)64; return 0; }",
    "cublasGetMathMode": "(void* handle, int* mode) { *mode = 0; return 0; }",
    "cublasGetPointerMode_v2": "(void* handle, int* mode) { *mode = 0; return 0; }",
    "cublasLtMatmulAlgoGetHeuristic": "(void* a, void* b, void* c, void* d, void* e, void* f, void* g, int n, void* out, int* count)"
                                      " { *count = 1; return 0; }",
}


def build_stubs(folder):
    """A library to preload; which functions of cuBLAS PyTorch calls is read from PyTorch."""
    import importlib.util
    found = importlib.util.find_spec("torch")
    if found is None:
        sys.exit("record_without_gpu.py: PyTorch is not installed for this Python: wanted torch with CUDA 13 and transformers")
    library = os.path.join(os.path.dirname(found.origin), "lib", "libtorch_cuda.so")
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout
    names = sorted(set(re.findall(r" U (cublas\w+)", symbols)))
    source = os.path.join(folder, "cublas.c")
    with open(source, "w", encoding="utf-8") as out:
        out.writelines(f"int {name}{ANSWERS.get(name, '() { return 0; }')}\n" for name in names)
    stubs = os.path.join(folder, "stubs.so")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", stubs, "-x", "c", source,
                    os.path.join(HERE, "references", "no_kernels.inc"), "-ldl"], check=True)
    return stubs


def attention(query, key, value, bias, keeps_sums, *_, **__):
    import torch
    batch, heads, length, _ = query.shape
    seed, offset = (torch.empty((), device="cuda", dtype=torch.int64) for _ in range(2))
    out = torch.empty_permuted((batch, heads, length, value.shape[-1]), (0, 2, 1, 3), device="cuda", dtype=query.dtype)
    sums = torch.empty((batch, heads, length, 1), device="cuda") if keeps_sums else torch.empty(0)
    if length > 1:
        torch.empty(256, device="cuda", dtype=torch.uint8)
    return out, sums, None, None, length, key.shape[2], seed, offset, None


def attention_backward(gradient, query, key, value, *_, **__):
    import torch
    gradients = tuple(torch.empty_like(tensor) for tensor in (query, key, value))
    size_bytes = query.numel() * 4 + query.numel() // query.shape[-1] * 4 + 256
    if query.shape[1] != key.shape[1]:
        size_bytes += 2 * query.numel() // query.shape[2] * key.shape[2] * query.element_size()
    torch.empty(size_bytes, device="cuda", dtype=torch.uint8)
    return gradients


def convolution(images, weight, padding, stride, *_):
    import torch
    sides = [(images.shape[i + 2] + 2 * padding[i] - weight.shape[i + 2]) // stride[i] + 1 for i in range(2)]
    return torch.empty((images.shape[0], weight.shape[0], *sides), device="cuda", dtype=images.dtype)


def convolution_backward(gradient, images, weight, *rest):
    import torch
    wanted = rest[-1]
    of_images = torch.empty_like(images) if wanted[0] else None
    contiguous = gradient.contiguous() if wanted[0] else None
    del contiguous
    contiguous = gradient.contiguous()
    of_weight = torch.empty_like(weight) if wanted[1] else None
    del contiguous
    return of_images, of_weight, gradient.sum((0, 2, 3)) if wanted[2] else None


def replace_operators():
    import torch
    from transformers.generation.utils import GenerationMixin
    library = torch.library.Library("aten", "IMPL")
    for name, function in (("_scaled_dot_product_cudnn_attention", attention), ("cudnn_convolution", convolution),
                           ("_scaled_dot_product_cudnn_attention_backward", attention_backward),
                           ("convolution_backward", convolution_backward)):
        library.impl(name, function, "CUDA")
    generate, left = GenerationMixin.generate, {}

    def counted_generate(model, *arguments, **options):
        left["tokens"] = options["max_new_tokens"]
        return generate(model, *arguments, **options)

    def is_unfinished(model, finished, *_, **__):
        bool(finished)  # reads it from the device
        left["tokens"] -= 1
        return left["tokens"] >= 0

    GenerationMixin.generate, GenerationMixin._has_unfinished_sequences = counted_generate, is_unfinished
    return library  # what is replaced lasts as long as this


def record_child(name, path):
    sys.path.insert(0, HERE)
    import record_references
    library = replace_operators()
    record_references.record_one(name, path)
    del library


def name_device(path):
    with gzip.open(path, "rt", encoding="utf-8") as recorded:
        text = re.sub(r"^# device: .*$", f"# device: {DEVICE}", recorded.read(), count=1, flags=re.M)
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="programs, as record_references.py --list names them")
    parser.add_argument("--simcuda", required=True, metavar="FOLDER")
    parser.add_argument("--out", default=".", metavar="FOLDER")
    parser.add_argument("--count", type=int)
    parser.add_argument("--check", type=int, choices=(0, 1), default=1)
    parser.add_argument("--lone", type=int, default=0, metavar="RANK", help="the rank to record of programs that have several")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        record_child(arguments.names[0], arguments.out)
        return
    sys.path.insert(0, HERE)
    import record_references
    record_references.check_lone(filter(record_references.RANKS.get, arguments.names), arguments.lone)
    simcuda = os.path.abspath(os.path.join(arguments.simcuda, "libcudart.so.13"))
    if not os.path.exists(simcuda):
        sys.exit(f"record_without_gpu.py: {simcuda}: no such file: wanted simcuda's folder, as build/dev/lib/simcuda")
    os.makedirs(arguments.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        preloaded = {"LD_LIBRARY_PATH": os.path.dirname(simcuda), "RECORD_SIMCUDA": simcuda, "RECORD_CHECK": str(arguments.check),
                     "LD_PRELOAD": f"{build_stubs(folder)} {simcuda}"}
        if arguments.count is not None:
            preloaded["RECORD_COUNT"] = str(arguments.count)
        for name in arguments.names:
            path = os.path.join(arguments.out, f"{name}.ops.csv.gz")
            subprocess.run([sys.executable, os.path.abspath(__file__), "--simcuda", arguments.simcuda, "--out", path, "--child", name],
                           env=dict(record_references.environments(name, arguments.lone)[0], **preloaded), check=True)
            name_device(path)


if __name__ == "__main__":
    main()
