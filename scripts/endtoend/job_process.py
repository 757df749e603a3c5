"""Runs one job in a process of its own: records it, or runs it for real on a card that is filled up to a limit.

A server process imports PyTorch once, without touching the card, and forks a process for each request: a line of JSON at its
standard input; the answer is a line at its standard output. Jobs are built-in programs (programs/) or a user's script."""
import contextlib
import ctypes
import gc
import importlib
import itertools
import json
import os
import runpy
import select
import signal
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE_BYTES = 2 << 20
KINDS = ("language", "vision", "other")
COUNTERS = {"retries": "num_alloc_retries", "ooms": "num_ooms", "device_allocs": "num_device_alloc", "device_frees": "num_device_free"}
PEAKS = {"peak_reserved_bytes": "reserved_bytes.all.peak", "peak_requested_bytes": "requested_bytes.all.peak",
         "peak_allocated_bytes": "allocated_bytes.all.peak"}


def programs():
    """{name: function} of the built-in programs, in order."""
    modules = [importlib.import_module(f"programs.{kind}") for kind in KINDS]
    return {one.__name__: one for module in modules for one in module.PROGRAMS}


def rank_count(program):
    return importlib.import_module("programs.other").RANKS.get(program, 1)


def name_of(program):
    return os.path.splitext(os.path.basename(program))[0]


def run(request, on_step):
    """Runs the job once. on_step(index) is called before each step; of a script, at its begin and after each optimizer step."""
    if not request.get("is_script"):
        from programs.job import Job
        job = Job(step_count=request["steps"], rank=int(os.environ.get("RANK", "0")))
        for index, _ in enumerate(programs()[request["program"]](job)):
            on_step(index)
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook
    count = [0]

    def after_step(*_):
        count[0] += 1
        on_step(count[0])

    on_step(0)
    hook = register_optimizer_step_post_hook(after_step)
    argv, path = sys.argv, list(sys.path)
    sys.argv = [request["program"], *request["arguments"]]
    sys.path.insert(0, os.path.dirname(os.path.abspath(request["program"])))
    try:
        runpy.run_path(request["program"], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    finally:
        hook.remove()
        sys.argv, sys.path[:] = argv, path


def clean():
    """Gives back what a run left: the next begins on an empty heap, with all kernels loaded."""
    import torch
    gc.collect()
    with contextlib.suppress(AttributeError):
        torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def timed(request, on_step=lambda index: None):
    """Runs the job; returns its times, in ms: of each step on the host and on the device, and from the first step to where the
    device has done all."""
    import torch
    begins, events = [], []

    def seen(index):
        on_step(index)
        begins.append(time.perf_counter_ns())
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()

    run(request, seen)
    begins.append(time.perf_counter_ns())
    events.append(torch.cuda.Event(enable_timing=True))
    events[-1].record()
    torch.cuda.synchronize()
    end = time.perf_counter_ns()
    return {"total_ms": round((end - begins[0]) / 1e6, 3),
            "step_host_ms": [round((after - before) / 1e6, 3) for before, after in itertools.pairwise(begins)],
            "step_device_ms": [round(before.elapsed_time(after), 3) for before, after in itertools.pairwise(events)]}


def room_of(free_bytes):
    """What programs can have of it: whole pages but the last."""
    return (free_bytes // PAGE_BYTES - 1) * PAGE_BYTES


def fill(capacity_bytes):
    """Takes the card's memory but for so much, with one cudaMalloc. Returns (its error code, free bytes, cached bytes)."""
    import torch
    with open("/proc/self/maps", encoding="utf-8") as maps:
        runtime = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart.so" in line))
    ballast, code = ctypes.c_void_p(), 0
    if capacity_bytes:
        # Of what a card says is free, the last page and a part of one cannot be had.
        size_bytes = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - capacity_bytes - 2 * PAGE_BYTES
        code = runtime.cudaMalloc(ctypes.byref(ballast), ctypes.c_size_t(size_bytes))
    return code, torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()


def real(request):
    """The row of a run on the card. The first run is without limit."""
    import torch
    if request.get("no_gc"):
        gc.disable()
    run(request, lambda index: None)
    clean()
    row = {"left_bytes": torch.cuda.memory_allocated()}
    code, free_bytes, cached_bytes = fill(request["capacity_bytes"])
    row.update(fill_code=code, free_bytes=free_bytes, cached_bytes=cached_bytes, room_bytes=room_of(free_bytes))
    before, reached = torch.cuda.memory_stats(), []
    torch.cuda.reset_peak_memory_stats()
    try:
        row.update(timed(request, reached.append), oom_step=None)
    except torch.cuda.OutOfMemoryError as error:
        row.update(oom_step=reached[-1] if reached else -1, message=str(error)[:300])
    after = torch.cuda.memory_stats()
    row.update({name: after.get(key, 0) - before.get(key, 0) for name, key in COUNTERS.items()})
    row.update({name: after.get(key) for name, key in PEAKS.items()})
    return row


def record(request):
    """The row of a recording, and the trace. The job runs without a recording before, so that all kernels are loaded."""
    import torch

    import record_pytorch
    if request.get("no_gc"):
        gc.disable()
    run(request, lambda index: None)
    clean()
    plain = timed(request)
    clean()
    row = {"left_bytes": torch.cuda.memory_allocated(), "card_bytes": room_of(torch.cuda.mem_get_info()[0]),
           "plain_total_ms": plain["total_ms"], "plain_step_ms": plain["step_host_ms"], "plain_step_device_ms": plain["step_device_ms"]}
    if int(os.environ.get("RANK", "0")):
        run(request, lambda index: None)
        return row
    begin = time.perf_counter()
    options = {"name": name_of(request["program"]), "kernels": request["work"] == "kernels", "plain_ns": round(plain["total_ms"] * 1e6)}
    with record_pytorch.record(request["trace"], **options) as recording:
        row.update(timed(request, lambda index: recording.mark(f"step{index}")))
    converter = recording.converter
    return {**row, "recording_s": round(time.perf_counter() - begin, 3), "live_peak_bytes": converter.live_bytes_peak,
            "operations": converter.operation_count, "rows": len(converter.rows), "streams": len(converter.streams.indexes),
            "device_work": converter.work.kind if converter.work else "none", "trace_bytes": os.path.getsize(request["trace"])}


def child(request, rank, ranks, out):
    """In the forked process: sets what must be set before the card is touched, runs, and writes the row to `out`."""
    os.environ.update(request["environment"])
    if ranks > 1:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(29500 + os.getppid() % 500))
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        import torch
        if ranks > 1:
            torch.cuda.set_device(rank)
            torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
        row = (record if request["action"] == "record" else real)(request)
        row.update(gpu=torch.cuda.get_device_name(), torch=torch.__version__)
    except BaseException as error:  # whatever ends a user's script is the row's error
        traceback.print_exc()
        sys.stderr.flush()
        row = {"error": f"{type(error).__name__}: {error}"[:600]}
    os.write(out, (json.dumps(row) + "\n").encode())
    os.close(out)
    os._exit(0)


def answer(request):
    """Forks the job's processes and waits for the first rank's row."""
    ranks = 1 if request.get("is_script") else rank_count(request["program"])
    readers, pids = [], []
    for rank in range(ranks):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            child(request, rank, ranks, writer)
        os.close(writer)
        readers.append(reader)
        pids.append(pid)
    text, end = b"", time.monotonic() + request["seconds_max"]
    while select.select([readers[0]], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(readers[0], 1 << 20)
        text += part
        if not part:
            break
    else:
        text = text or json.dumps({"error": f"no result after {request['seconds_max']} s"}).encode()
    for pid in pids if not text or ranks > 1 or b"no result" in text else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    for reader in readers:
        os.close(reader)
    return json.loads(text) if text else {"error": f"the process ended with status {statuses[0]} and no row"}


def serve():
    sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "record")]
    import torch.distributed  # noqa: F401
    import transformers  # noqa: F401
    with contextlib.suppress(ImportError):
        import torchvision  # noqa: F401
    programs()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    serve()
