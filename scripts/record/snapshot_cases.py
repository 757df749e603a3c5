"""The programs whose memory snapshots record_snapshots.py records: a case each, with the config string that it runs under.

Each is small, and makes one thing happen that the import of snapshots must understand.
"""
import contextlib
import ctypes

MIB = 1 << 20
ENTRIES_MAX = 200_000
CASES = []


def case(conf="", protocol=4, alone=False):
    """A case: the config string it runs under, the pickle's protocol, and whether it needs the device for itself."""
    def add(function):
        CASES.append((function.__name__, function, conf, protocol, alone))
        return function
    return add


def start(context=None, entries_max=ENTRIES_MAX):
    import torch
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks="python", max_entries=entries_max)


def limit(size_bytes):
    import torch
    torch.cuda.set_per_process_memory_fraction(size_bytes / torch.cuda.get_device_properties(0).total_memory)


def transformer(layers=4, width=512, heads=8):
    import torch
    block = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, dropout=0.1)
    return torch.nn.TransformerEncoder(block, layers, enable_nested_tensor=False).cuda()


def train(model, optimizer, steps, lengths, batch=8, width=512, amp=True):
    import torch
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        data = torch.randn(batch, lengths[step % len(lengths)], width, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = model(data).float().pow(2).mean()
        loss.backward()
        optimizer.step()


def generate(requests, seed=0, layers=4, heads=8, head_width=64):
    """Keys and values that grow by torch.cat, as in generate() with a dynamic cache; lengths vary."""
    import random

    import torch
    draw = random.Random(seed)
    with torch.no_grad():
        for _ in range(requests):
            batch, prompt, answer = draw.choice((1, 2, 4, 8)), draw.randint(16, 900), draw.randint(4, 24)
            caches = [torch.randn(2, batch, heads, prompt, head_width, device="cuda", dtype=torch.float16)
                      for _ in range(layers)]
            for _ in range(answer):
                for layer in range(layers):
                    new = torch.randn(2, batch, heads, 1, head_width, device="cuda", dtype=torch.float16)
                    caches[layer] = torch.cat((caches[layer], new), dim=3)
                    scores = caches[layer][0] @ caches[layer][0].transpose(-1, -2)
                    scores.softmax(dim=-1)


def fill_until_failure(sizes_mib, rounds=4000):
    """Blocks of mixed sizes, every second one given back, until a request fails. Returns whether one did."""
    import torch
    kept, taken = [], []
    try:
        for index in range(rounds):
            taken.append(torch.empty(sizes_mib[index % len(sizes_mib)] * MIB, dtype=torch.uint8, device="cuda"))
            if len(taken) == 8:
                kept.extend(taken[1::2])
                taken.clear()
    except torch.OutOfMemoryError:
        return kept
    return []


@case()
def train_amp():
    """Training from the first parameter on, with stacks."""
    import torch
    start(context="all")
    model = transformer()
    train(model, torch.optim.AdamW(model.parameters()), 3, (256,))


@case()
def train_attached():
    """The history starts after two steps: the heap at its start is not empty."""
    import torch
    model = transformer()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 2, (300, 200))
    start()
    train(model, optimizer, 3, (256, 310, 190))


@case()
def generate_varied():
    start()
    generate(24)


@case()
def train_oom():
    """Lengths grow until a step does not fit: what a user's job does that dies."""
    import torch
    limit(1300 * MIB)
    start(context="all")
    model = transformer()
    with contextlib.suppress(torch.OutOfMemoryError):
        train(model, torch.optim.AdamW(model.parameters()), 40, tuple(range(128, 1500, 48)))


@case()
def fragmented_oom():
    """A request fails although more is cached than it asks for."""
    limit(1024 * MIB)
    start(context="alloc")
    kept = fill_until_failure((22, 3, 37, 5, 61, 2, 13, 90))
    del kept


@case(alone=True)
def device_oom():
    """The device itself is full: all but 1.5 GiB is taken by cudaMalloc."""
    import torch
    torch.cuda.init()
    torch.empty(1, device="cuda")
    runtime = next(line.split()[-1] for line in open("/proc/self/maps") if "libcudart" in line)
    free_bytes, _ = torch.cuda.mem_get_info()
    pointer = ctypes.c_void_p()
    status = ctypes.CDLL(runtime).cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(free_bytes - 1536 * MIB))
    if status != 0:
        raise RuntimeError(f"cudaMalloc of the ballast gives {status}")
    start(context="all")
    kept = fill_until_failure((40, 3, 75, 9, 1, 150))
    del kept


def cross_streams(rounds):
    import torch
    streams = [torch.cuda.Stream() for _ in range(3)]
    held = []
    for index in range(rounds):
        stream = streams[index % 3]
        with torch.cuda.stream(stream):
            block = torch.empty((1 + index % 7) * MIB * 3 // 2, dtype=torch.uint8, device="cuda")
            small = torch.empty(700 * (index % 5 + 1), dtype=torch.uint8, device="cuda")
        other = streams[(index + 1) % 3]
        if index % 4 == 0:
            with torch.cuda.stream(other):
                torch.cuda._sleep(2_000_000)
            block.record_stream(other)
        if index % 6 == 0:
            small.record_stream(torch.cuda.default_stream())
        held.append((block, small))
        if len(held) > 5:
            held.pop(index % 5)


@case()
def streams_recorded():
    """Blocks that are given back while another stream still uses them."""
    start()
    cross_streams(900)


@case()
def streams_attached():
    """The same with blocks that wait while the history begins."""
    cross_streams(200)
    start()
    cross_streams(500)


@case(conf="expandable_segments:True")
def expandable_train():
    import torch
    start()
    model = transformer()
    train(model, torch.optim.AdamW(model.parameters()), 3, (256, 400, 130))


@case(conf="expandable_segments:True")
def expandable_attached():
    """The history starts in a used heap; the cache is given back twice while it runs."""
    import torch
    generate(6, seed=1)
    start()
    for seed in range(2, 5):
        generate(5, seed=seed)
        torch.cuda.empty_cache()


@case(conf="expandable_segments:True")
def expandable_oom():
    limit(900 * MIB)
    start()
    kept = fill_until_failure((22, 3, 37, 5, 61, 2, 13, 90))
    del kept


@case(conf="max_split_size_mb:64")
def max_split_retries():
    """Oversize blocks are given back to make room."""
    import torch
    limit(700 * MIB)
    start()
    try:
        for step in range(60):
            blocks = [torch.empty((20 + (step * 37 + k * 53) % 140) * MIB, dtype=torch.uint8, device="cuda") for k in range(3)]
            del blocks
            generate(1, seed=step)
    except torch.OutOfMemoryError:
        pass


@case(conf="garbage_collection_threshold:0.6")
def garbage_collected():
    import torch
    limit(800 * MIB)
    start()
    try:
        for step in range(80):
            block = torch.empty((12 + (step * 31) % 170) * MIB, dtype=torch.uint8, device="cuda")
            del block
            generate(1, seed=100 + step)
    except torch.OutOfMemoryError:
        pass


@case(conf="roundup_power2_divisions:[256:1,512:2,1024:4,>:8]")
def rounded():
    start()
    generate(20, seed=7)


@case(conf="large_segment_size_mb:64,max_non_split_rounding_mb:64")
def large_segments():
    import torch
    start()
    model = transformer(layers=3)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), 3, (128, 350))


@case()
def retried():
    """Requests that are served after the whole cache was given back; empty_cache in between."""
    import torch
    limit(600 * MIB)
    start()
    for step in range(40):
        block = torch.empty((200 + step * 8) * MIB, dtype=torch.uint8, device="cuda")
        del block
        other = [torch.empty((11 + k * 9) * MIB, dtype=torch.uint8, device="cuda") for k in range(5)]
        del other
        if step % 9 == 8:
            torch.cuda.empty_cache()


@case()
def graphs():
    """Three captures that share a private pool, beside ordinary requests."""
    import torch
    start()
    pool = torch.cuda.graph_pool_handle()
    weights = torch.randn(1024, 1024, device="cuda")
    captured = []
    for batch in (512, 256, 64):
        data = torch.randn(batch, 1024, device="cuda")
        graph = torch.cuda.CUDAGraph()
        for _ in range(2):
            (data @ weights).relu() @ weights
        with torch.cuda.graph(graph, pool=pool):
            out = (data @ weights).relu()
            for _ in range(5):
                out = (out @ weights).tanh()
        captured.append((graph, data, out))
        generate(1, seed=batch)
    for graph, _, _ in captured:
        graph.replay()
    torch.cuda.synchronize()
    generate(4, seed=3)


@case()
def memory_pools():
    """Two MemPools, one of which is given up while the history runs."""
    import torch
    start()
    first, second = torch.cuda.MemPool(), torch.cuda.MemPool()
    held = []
    for step in range(40):
        with torch.cuda.use_mem_pool(first if step % 2 else second):
            held.append(torch.empty((1 + step * 5 % 33) * MIB // 2, dtype=torch.uint8, device="cuda"))
            scratch = torch.empty((3 + step) * MIB, dtype=torch.uint8, device="cuda")
            del scratch
        held.append(torch.empty((2 + step * 3 % 19) * MIB, dtype=torch.uint8, device="cuda"))
        if len(held) > 12:
            del held[step % 7]
    held.clear()
    del second
    torch.cuda.empty_cache()
    generate(3, seed=5)


@case()
def overflowed():
    """The ring holds fewer entries than the program makes."""
    start(entries_max=3000)
    generate(12, seed=9)


@case()
def without_history():
    """What a program dumps that never switched the history on."""
    generate(2, seed=11)


@case(protocol=2)
def annotated():
    """Ranges of record_function, and protocol 2."""
    import torch
    import torch.profiler
    try:
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=ENTRIES_MAX,
                                                 global_record_annotations=True)
    except TypeError:
        start()
    for step in range(3):
        with torch.profiler.record_function(f"step{step}"):
            generate(3, seed=20 + step)


@case(protocol=5)
def protocol_5():
    start()
    generate(3, seed=30)


@case()
def from_cpp():
    """Written by PyTorch's C++ pickler."""
    start()
    generate(4, seed=40)
