#!/usr/bin/env python3
"""Runs a PyTorch program on simcuda, without a GPU, and records what it asks of the allocator.

usage: record_without_gpu.py --simcuda FOLDER --out FILE [--card NAME] SCRIPT.py ARGS...  your script
       record_without_gpu.py --simcuda FOLDER --out FILE --ranks N [--lone RANK] SCRIPT.py ARGS...  one rank of a script for torchrun
       record_without_gpu.py --simcuda FOLDER --list FILE [--jobs N] [--card NAME]        many scripts
       record_without_gpu.py --simcuda FOLDER --out FOLDER [--lone RANK] NAME...         references/

Operators and allocator are PyTorch's own. Kernels and cuBLAS do nothing: a script makes its model from a configuration, on the
device, and needs no weights. What it branches on has values nevertheless (small_values.py). Its times are this host's. cuDNN's
attention and batch norm are replaced by ones with the tensors and the workspace of recordings, its convolutions by ones without
workspaces, or for a script with --card by ones that copy images, results and weights for kernels larger than one pixel; Fourier
transforms, QR, SVD, inverses and solutions have their results alone. The simulated card has 1 TiB, so that a job which would run
out of memory is recorded, too.
results/published/history/generators.md, "Programs held to PyTorch without a GPU", says how near this comes. Needs PyTorch with
CUDA 13, a C compiler and nm; for NAMEs transformers. FOLDER of simcuda holds its libcudart.so.13. Out: FILE, or NAME.ops.csv.gz;
its head names the device. --card: whose capability and processors PyTorch sees and chooses kernels by (preset: an H200's).
--list: each line is a FILE and a SCRIPT.py with its ARGS; libraries are imported once. Of programs with several ranks one is
recorded, and collective operations do nothing; they have no values. --ranks: the script finds what torchrun would tell rank --lone of N
on one machine, and every process group that it makes is of that rank alone.
"""
import argparse
import contextlib
import gzip
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICE = "simcuda as NVIDIA H200, kernels do nothing"
TOTAL_BYTES = 1 << 40  # of the card that a script sees
# Compute capability and multiprocessors, from the vendor's tables.
CARDS = {"a100": (8, 0, 108), "a10": (8, 6, 72), "rtx-3090": (8, 6, 82), "l4": (8, 9, 58), "l40s": (8, 9, 142), "rtx-4090": (8, 9, 128),
         "h100": (9, 0, 132), "h200": (9, 0, 132)}
# Numbers of cudaDeviceAttr.
PROCESSORS, MAJOR, MINOR = 16, 75, 76
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
    order = sorted(range(4), key=lambda i: -query.stride(i))  # cuDNN's result lies as the queries do
    out = torch.empty_permuted((batch, heads, length, value.shape[-1]), order, device="cuda", dtype=query.dtype)
    sums = torch.empty((batch, heads, length, 1), device="cuda", dtype=torch.float32) if keeps_sums else torch.empty(0)
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


def copies(images, out, weight):
    """What a convolution in channels last takes beside contiguous tensors: see workloads/model/convolution_workspaces.cc."""
    import torch
    if "RECORD_COPIES" in os.environ and max(weight.shape[2:]) > 1 and images.shape[1] > 3 and weight.shape[1] == images.shape[1]:
        torch.empty(sum(one.numel() * one.element_size() for one in (images, out, weight)), device="cuda", dtype=torch.uint8)


def convolution(images, weight, padding, stride, dilation, *_):
    import torch
    sides = [(images.shape[i + 2] + 2 * padding[i] - dilation[i] * (weight.shape[i + 2] - 1) - 1) // stride[i] + 1
             for i in range(images.dim() - 2)]
    out = torch.empty((images.shape[0], weight.shape[0], *sides), device="cuda", dtype=images.dtype)
    copies(images, out, weight)
    return out


def convolution_backward(gradient, images, weight, *rest):
    import torch
    wanted = rest[-1]
    of_images = torch.empty_like(images) if wanted[0] else None
    contiguous = gradient.contiguous() if wanted[0] else None
    if wanted[0]:
        copies(images, gradient, weight)
    del contiguous
    contiguous = gradient.contiguous()
    of_weight = torch.empty_like(weight) if wanted[1] else None
    copies(images, gradient, weight)
    del contiguous
    return of_images, of_weight, gradient.sum((0, *range(2, gradient.dim()))) if wanted[2] else None


def batch_norm(images, weight, bias, mean, variance, is_training, *_):
    import torch
    saved = (images.shape[1] if is_training else 0,)
    of_channels = [torch.empty(saved, device="cuda", dtype=torch.float32) for _ in range(2)]
    return torch.empty_like(images), *of_channels, torch.empty(0, device="cuda", dtype=torch.uint8)


def batch_norm_backward(images, gradient, weight, *_):
    import torch
    return torch.empty_like(images), torch.empty_like(weight), torch.empty_like(weight)


def like(tensor, shape, dtype=None):
    return tensor.new_empty(shape, dtype=dtype or tensor.dtype)


def real_of(tensor):
    return tensor.real.dtype if tensor.is_complex() else tensor.dtype


def fourier(tensor, *_):
    return like(tensor, tensor.shape)


def fourier_of_real(tensor, dims, _, is_half):
    import torch
    shape = list(tensor.shape)
    if is_half:
        shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return like(tensor, shape, torch.complex128 if tensor.dtype == torch.float64 else torch.complex64)


def fourier_to_real(tensor, dims, _, last):
    shape = list(tensor.shape)
    shape[dims[-1]] = last
    return like(tensor, shape, real_of(tensor))


def orthogonal(matrix, mode="reduced"):
    *batch, rows, columns = matrix.shape
    inner = rows if mode == "complete" else min(rows, columns)
    return like(matrix, (*batch, rows, inner)), like(matrix, (*batch, inner, columns))


def singular(matrix, full_matrices=False, compute_uv=True, *_, **__):
    *batch, rows, columns = matrix.shape
    count = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (count, count)
    values = like(matrix, (*batch, count), real_of(matrix))
    if not compute_uv:
        return like(matrix, (0,)), values, like(matrix, (0,))
    return like(matrix, (*batch, rows, left)), values, like(matrix, (*batch, right, columns))


def inverse(matrix, *_, **__):
    import torch
    return like(matrix, matrix.shape), torch.zeros(matrix.shape[:-2], device="cuda", dtype=torch.int32)


def solve(matrix, right, *_, **__):
    import torch
    counts = [torch.zeros(shape, device="cuda", dtype=torch.int32) for shape in (matrix.shape[:-1], matrix.shape[:-2])]
    return like(right, right.shape), like(matrix, matrix.shape), *counts


# Of cuDNN: with the tensors and workspaces of recordings. Of cuFFT and cuSOLVER: their results alone.
REPLACED = {
    "_scaled_dot_product_cudnn_attention": attention, "_scaled_dot_product_cudnn_attention_backward": attention_backward,
    "cudnn_convolution": convolution, "convolution_backward": convolution_backward,
    "cudnn_batch_norm": batch_norm, "cudnn_batch_norm_backward": batch_norm_backward,
    "_fft_c2c": fourier, "_fft_r2c": fourier_of_real, "_fft_c2r": fourier_to_real,
    "linalg_qr": orthogonal, "_linalg_svd": singular, "linalg_inv_ex": inverse, "_linalg_solve_ex": solve,
}


def replace_operators():
    import torch
    library = torch.library.Library("aten", "IMPL")
    for name, function in REPLACED.items():
        library.impl(name, function, "CUDA")
    return library  # what is replaced lasts as long as this


def record_child(name, path):
    sys.path.insert(0, HERE)
    import record_references
    from small_values import SmallValues
    library = replace_operators()
    # A shared sequence's tensors have a dispatcher of their own, which takes other ways beside values.
    with contextlib.nullcontext() if name in record_references.RANKS else SmallValues():
        record_references.record_one(name, path)
    del library


def record_script(command, path):
    sys.path.insert(0, HERE)
    import record_pytorch
    from small_values import SmallValues
    library = replace_operators()
    if "RECORD_RANKS" in os.environ:
        from references import lone_rank
        group = lone_rank.stand_in(*map(int, os.environ["RECORD_RANKS"].split()))  # noqa: F841 (lives as long as the script)
    with SmallValues():
        record_whole(lambda: record_pytorch.run_and_tell(record_pytorch.parse(["--out", path, *command]), path), path)
    del library


def record_whole(record, path):
    """A recording is written even if the script fails: it is a part of the job, and would pass for the whole."""
    try:
        record()
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        raise


def record_forked(command, path):
    """Records in a fork of this process, which has imported libraries and not touched the device. Returns the fork's process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        record_script(command, path)
        status = 0
    except BaseException as error:  # the fork must not go on as its parent
        print(f"record_without_gpu.py: {path}: {type(error).__name__}: {error}"[:2000], file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def import_libraries():
    """Once for all forks. What asks for devices as it is imported would make PyTorch refuse to fork: it gets an answer without them."""
    import torch
    answers = {"is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
               "get_device_capability": lambda *_: (8, 0), "get_device_properties": lambda *_: types.SimpleNamespace(major=8, minor=0)}
    own = {name: getattr(torch.cuda, name) for name in answers}
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    for name in ("timm", "torchvision", "diffusers", "peft", "transformers"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name, function in own.items():
        setattr(torch.cuda, name, function)


def record_list(path, job_count):
    """Returns how many failed."""
    import_libraries()
    with open(path, encoding="utf-8") as file:
        lines = [shlex.split(line) for line in file if line.strip()]
    running, failed_count = 0, 0
    for line in [*lines, *[None] * job_count]:
        if running == job_count or (line is None and running):
            failed_count += os.wait()[1] != 0
            running -= 1
        if line is not None:
            record_forked(line[1:], line[0])
            running += 1
    return failed_count


def write_profile(simcuda, card, path):
    """An H200's profile, with what PyTorch chooses kernels by of another card."""
    with open(os.path.join(simcuda, "profiles", "h200.json"), encoding="utf-8") as file:
        profile = json.load(file)
    numbers = dict(profile["device"]["attributes"])
    numbers.update(zip((MAJOR, MINOR, PROCESSORS), CARDS[card]))
    profile["device"]["attributes"] = [list(pair) for pair in numbers.items()]
    with open(path, "w", encoding="utf-8") as out:
        json.dump(profile, out)


def name_device(path):
    with gzip.open(path, "rt", encoding="utf-8") as recorded:
        text = re.sub(r"^# device: .*$", f"# device: {DEVICE}", recorded.read(), count=1, flags=re.M)
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.write(text)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simcuda", required=True, metavar="FOLDER")
    parser.add_argument("--out", default=".", metavar="PATH", help="FILE of a script's recording, else a folder")
    parser.add_argument("--card", choices=CARDS, help="for a script: whose kernels PyTorch chooses")
    parser.add_argument("--list", metavar="FILE", help="record each line's script into its file")
    parser.add_argument("--jobs", type=int, default=2, help="with --list: recordings at once")
    parser.add_argument("--ranks", type=int, metavar="N", help="for a script: record one rank of N, as torchrun would start it")
    parser.add_argument("--lone", type=int, default=0, metavar="RANK", help="the rank to record of programs that have several")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND",
                        help="a script and its arguments, or programs as record_references.py --list names them")
    arguments = parser.parse_args()
    if bool(arguments.command) == bool(arguments.list):
        parser.error("wanted one of SCRIPT.py ARGS..., NAMEs of record_references.py --list, and --list FILE")
    arguments.is_script = bool(arguments.list) or arguments.command[0].endswith(".py")
    if arguments.ranks is not None:
        if not arguments.is_script:
            parser.error("--ranks: only for a script, since each reference has its own number of ranks")
        if arguments.ranks < 2 or not 0 <= arguments.lone < arguments.ranks:
            parser.error(f"--ranks {arguments.ranks} --lone {arguments.lone}: wanted 2 ranks or more, and one of them")
    elif arguments.is_script and arguments.lone:
        parser.error(f"--lone {arguments.lone}: of a script wanted --ranks, too")
    if arguments.list:
        return arguments
    if arguments.is_script and not os.path.isfile(arguments.command[0]):
        parser.error(f"{arguments.command[0]}: no such script")
    if arguments.is_script and not arguments.out.endswith((".csv", ".csv.gz")):
        parser.error(f"--out {arguments.out}: of a script wanted the file to write, as my_job.ops.csv.gz")
    if arguments.card and not arguments.is_script:
        parser.error("--card: only for a script, since the references are an H200's")
    return arguments


def run_all(arguments, preloaded, folder):
    """Each recording in a process of its own."""
    head = [sys.executable, os.path.abspath(__file__), "--simcuda", arguments.simcuda, "--child", "--out"]
    if arguments.is_script:
        preloaded.update(SIMCUDA_TOTAL_BYTES=str(TOTAL_BYTES), SIMCUDA_KERNELS="nothing")  # those of Triton, through the driver
        preloaded["SIMCUDA_NAME"] = f"simcuda as {arguments.card or 'h200'}, kernels do nothing"
        if arguments.card:
            preloaded["SIMCUDA_PROFILE"] = os.path.join(folder, f"{arguments.card}.json")
            preloaded["RECORD_CAPABILITY"] = "".join(map(str, CARDS[arguments.card][:2]))
            preloaded["RECORD_COPIES"] = "1"
            write_profile(arguments.simcuda, arguments.card, preloaded["SIMCUDA_PROFILE"])
        if arguments.ranks:
            preloaded["RECORD_RANKS"] = f"{arguments.lone} {arguments.ranks}"
        if arguments.list:
            preloaded["OMP_NUM_THREADS"] = "1"  # a fork has none of its parent's threads, and would wait for them
        what = ["--list", arguments.list, "--jobs", str(arguments.jobs)] if arguments.list else arguments.command
        out = arguments.out.replace("{rank}", str(arguments.lone))
        run = subprocess.run([*head, out, *what], env=dict(os.environ, **preloaded))
        if run.returncode != 0:
            sys.exit(run.returncode if run.returncode > 0 else 1)
        return
    import record_references
    os.makedirs(arguments.out, exist_ok=True)
    for name in arguments.command:
        path = os.path.join(arguments.out, f"{name}.ops.csv.gz")
        subprocess.run([*head, path, name], env=dict(record_references.environments(name, arguments.lone)[0], **preloaded), check=True)
        name_device(path)


def main():
    arguments = parse()
    if arguments.child:
        if arguments.list:
            failed_count = record_list(arguments.list, arguments.jobs)
            sys.exit(f"record_without_gpu.py: {failed_count} of {arguments.list} failed" if failed_count else 0)
        if arguments.is_script:
            record_script(arguments.command, arguments.out)
        else:
            record_child(arguments.command[0], arguments.out)
        return
    sys.path.insert(0, HERE)
    if not arguments.is_script:
        import record_references
        record_references.check_lone(filter(record_references.RANKS.get, arguments.command), arguments.lone)
    simcuda = os.path.abspath(os.path.join(arguments.simcuda, "libcudart.so.13"))
    if not os.path.exists(simcuda):
        sys.exit(f"record_without_gpu.py: {simcuda}: no such file: wanted simcuda's folder, as build/dev/lib/simcuda")
    with tempfile.TemporaryDirectory() as folder:
        preloaded = {"LD_LIBRARY_PATH": os.path.dirname(simcuda), "LD_PRELOAD": f"{build_stubs(folder)} {simcuda}"}
        run_all(arguments, preloaded, folder)


if __name__ == "__main__":
    main()
