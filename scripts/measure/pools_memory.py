"""Programs with MemPools: sleep, loading, trimming, requests that find no memory, and streams within a capture."""
import contextlib
import ctypes
import gc

from pools_common import GIB, MIB, Decoder, capture, limit, mark, program, try_request


@program(confs=("unset", "graph_capture_record_stream_reuse:True"))
def streams_in_capture():
    """A capture that forks to a second stream; its blocks are recorded there."""
    import torch
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    start = torch.ones(1024, 1024, device="cuda")
    torch.mm(start, start)
    with torch.cuda.stream(side):
        torch.mm(start, start)
    mark("warmed")
    with torch.cuda.graph(graph):
        x = start
        for _ in range(40):
            here = torch.empty(4096, 1024, device="cuda")
            here.fill_(1)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                here.mul_(2)
                here.record_stream(side)
            torch.cuda.current_stream().wait_stream(side)
            x = x + here[:1024]
            del here
    mark("captured")
    graph.replay()
    mark("replayed")
    del graph, x
    gc.collect()
    torch.cuda.empty_cache()
    mark("graphs_deleted")


@program()
def reduce_overhead():
    """torch.compile(mode="reduce-overhead"): a tree of graphs, with training and several batches."""
    import torch
    torch.set_float32_matmul_precision("high")
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.LayerNorm(1024), torch.nn.Linear(1024, 4096), torch.nn.GELU(),
                                                      torch.nn.Linear(4096, 1024)) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)
    mark("loaded")
    for step in range(18):
        data = torch.randn((256, 1024, 2048)[step // 6], 1024, device="cuda")
        compiled(data).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 6 == 5:
            mark(f"trained_{step + 1}")
    with torch.no_grad():
        for batch in (2048, 512, 64) * 4:
            compiled(torch.randn(batch, 1024, device="cuda"))
    mark("inferred")


def sleep_cycles(pools, graphs=False, cycles=3):
    """A server that sleeps: weights go to the host, the cache is dropped, and both come back."""
    import torch
    within = torch.cuda.use_mem_pool if pools else (lambda _: contextlib.nullcontext())
    make = torch.cuda.MemPool if pools else (lambda: None)
    with torch.no_grad():
        decoder = Decoder()
        weights_pool, cache_pool = make(), make()
        with within(weights_pool):
            decoder.load(convert=True)
        with within(cache_pool):
            decoder.make_cache(64)
        tokens = torch.zeros(64, dtype=torch.long, device="cuda")
        kept = []
        if graphs:
            shared = torch.cuda.graph_pool_handle()
            kept = [capture(decoder, batch, tokens, shared) for batch in (64, 32, 8, 1)]
        decoder.step(tokens)
        mark("awake")
        for cycle in range(cycles):
            host = [weight.cpu() for weight in decoder.weights]
            decoder.weights, decoder.cache = [], None
            weights_pool = cache_pool = None
            gc.collect()
            torch.cuda.empty_cache()
            mark(f"slept_{cycle + 1}")
            weights_pool, cache_pool = make(), make()
            with within(weights_pool):
                decoder.weights = [weight.cuda() for weight in host]
            with within(cache_pool):
                decoder.make_cache(64)
            decoder.step(tokens)
            mark(f"woken_{cycle + 1}", graphs=len(kept))


@program(alone=True)
def sleep_pools():
    """Sleep and wake with weights and cache in a MemPool each."""
    sleep_cycles(pools=True)


@program(alone=True)
def sleep_plain():
    """The same without pools: empty_cache() alone."""
    sleep_cycles(pools=False)


@program(alone=True)
def sleep_pools_graphs():
    """The same with pools, while decode graphs stay captured."""
    sleep_cycles(pools=True, graphs=True)


def trim_and_serve(decoder):
    import torch
    torch.cuda.empty_cache()
    mark("trimmed")
    with torch.no_grad():
        decoder.make_cache(64)
        decoder.step(torch.zeros(64, dtype=torch.long, device="cuda"))
    mark("served")


@program()
def load_into_pool():
    """Weights loaded in fp32 and cast, within use_mem_pool: what the pool keeps beside them."""
    import torch
    decoder, pool = Decoder(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        decoder.load(convert=True)
        mark("loaded")
        torch.cuda.empty_cache()
        mark("trimmed_inside")
    trim_and_serve(decoder)


@program()
def load_plain():
    """The same without a pool."""
    decoder = Decoder()
    decoder.load(convert=True)
    mark("loaded")
    trim_and_serve(decoder)


@program()
def trim_within_pool():
    """empty_cache() within use_mem_pool, while the common pool has 2 GiB cached (pytorch 175015)."""
    import torch
    block = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
    del block
    mark("cached")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
        mark("trimmed_inside")
    torch.cuda.empty_cache()
    mark("trimmed_outside")
    del inside


@program()
def use_on_oom():
    """A pool that serves others where they find no memory, under a limit of 1.4 GiB."""
    import torch
    limit(1434 * MIB)
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        cached = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (400, 200, 30)]
    del cached
    mark("pool_cached")
    kept = []
    for size in (600, 180, 120, 390, 25, 100, 100):
        tensor, failure = try_request(size * MIB)
        kept.append(tensor)
        mark(f"asked_{size}_MiB", failure=failure)


@program()
def no_split():
    """A pool that gives each request a whole segment."""
    import torch
    pool = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(pool):
        kept = [torch.empty(size, dtype=torch.uint8, device="cuda")
                for size in (1000, 100_000, 900_000, 3 * MIB, 9 * MIB, 15 * MIB, 40 * MIB)]
        mark("asked")
        del kept[1], kept[2]
        again = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (90_000, 2 * MIB, 8 * MIB)]
        mark("asked_again")
    del kept, again
    pool = None
    gc.collect()
    torch.cuda.empty_cache()
    mark("deleted")


def ask_within_capture():
    """A capture that asks for 2.5 GiB in two tensors; marks how it ended, and whether a request after it is served."""
    import torch
    graph, failure, kept = torch.cuda.CUDAGraph(), "", []
    try:
        with torch.cuda.graph(graph):
            for size in (GIB + 512 * MIB, GIB):
                kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
                kept[-1].fill_(1)
    except RuntimeError as error:
        failure = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    mark("captured", failure=failure)
    tensor, failure = try_request(GIB)
    mark("asked_again", failure=failure, served=tensor is not None)


@program()
def oom_within_capture():
    """A capture that asks for more than a limit of 3 GiB leaves, while the common pool has 1 GiB cached (pytorch 159594)."""
    import torch
    limit(3 * GIB)
    torch.empty(GIB, dtype=torch.uint8, device="cuda")
    mark("cached")
    ask_within_capture()


@program(alone=True)
def full_within_capture():
    """The same on a card that is full but for 3 GiB, so that cudaMalloc fails and not a limit."""
    import torch
    torch.ones(1, device="cuda")
    free, _ = torch.cuda.mem_get_info()
    pointer = ctypes.c_void_p()
    refused = ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(free - 3 * GIB))
    torch.empty(GIB, dtype=torch.uint8, device="cuda")
    mark("cached", filled=not refused)
    ask_within_capture()


@program(alone=True)
def rollouts():
    """Reinforcement learning on one card: train, empty the cache, generate with graphs, three rounds."""
    import torch
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(2048, 8192), torch.nn.GELU(), torch.nn.Linear(8192, 2048))
                                  for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    decoder, pool = Decoder(layers=8), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        decoder.load()
    mark("loaded")
    for turn in range(3):
        for step in range(3):
            model(torch.randn(8192 + 1024 * step, 2048, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        mark(f"trained_{turn + 1}")
        with torch.no_grad():
            decoder.make_cache(64)
            tokens = torch.zeros(64, dtype=torch.long, device="cuda")
            shared = torch.cuda.graph_pool_handle()
            captured = [capture(decoder, batch, tokens, shared) for batch in (64, 32, 16, 8, 4, 2, 1)]
            for graph, _ in captured:
                graph.replay()
            mark(f"generated_{turn + 1}")
            del captured, graph
            decoder.cache = None
            gc.collect()
            torch.cuda.empty_cache()
        mark(f"put_away_{turn + 1}")
