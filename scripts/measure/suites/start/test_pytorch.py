"""PyTorch's allocator, pools, graphs and profiler, on any device: what they hold and count, no values of kernels."""
import gc

import pytest
import torch

MIB = 1 << 20


@pytest.fixture(autouse=True)
def empty():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def test_kernel_starts():
    assert (torch.zeros(4, device="cuda") + 1).shape == (4,)


def test_blocks_come_back():
    before = torch.cuda.memory_allocated()
    block = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == before + 64 * MIB
    del block
    assert torch.cuda.memory_allocated() == before
    reserved = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved - 64 * MIB
    assert torch.cuda.max_memory_allocated() >= before + 64 * MIB


def test_copies_there_and_back():
    values = torch.arange(1000)
    assert torch.equal(values.cuda().cpu(), values)


def test_pinned_memory():
    values = torch.arange(1000).pin_memory()
    assert values.is_pinned()
    assert torch.equal(values.cuda(non_blocking=True).cpu(), values)


def test_block_in_use_by_another_stream_is_kept():
    stream = torch.cuda.Stream()
    block = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
    place = block.data_ptr()
    torch.cuda._sleep(1)
    with torch.cuda.stream(stream):
        block.add_(1)
    block.record_stream(stream)
    del block
    assert torch.empty(32 * MIB, dtype=torch.uint8, device="cuda").data_ptr() != place


def test_out_of_memory():
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["num_ooms"] >= 1


def test_limit():
    torch.cuda.set_per_process_memory_fraction(0.01)
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(torch.cuda.get_device_properties(0).total_memory // 50, dtype=torch.uint8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_events_measure():
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    torch.zeros(MIB, device="cuda").add_(1)
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) > 0


def test_graph_replays():
    source = torch.zeros(1000, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        source * 2
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = source * 2
        scratch = torch.empty(4 * MIB, device="cuda")
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert result.shape == (1000,)
    assert any(tuple(segment["segment_pool_id"]) == graph.pool() for segment in torch.cuda.memory_snapshot())
    del scratch, result


def test_graphs_share_a_pool():
    pool = torch.cuda.graph_pool_handle()
    graphs = []
    for _ in range(2):
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1], pool=pool):
            torch.empty(4 * MIB, device="cuda")
    for graph in graphs:
        assert graph.pool() == pool
        graph.replay()


def test_pool_of_its_own():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        block = torch.empty(8 * MIB, device="cuda")
    segments = pool.snapshot()
    assert len(segments) == 1
    assert segments[0]["address"] <= block.data_ptr() < segments[0]["address"] + segments[0]["total_size"]
    assert torch.empty(MIB, device="cuda").data_ptr() not in range(segments[0]["address"], segments[0]["address"] + segments[0]["total_size"])


def test_history_of_memory():
    torch.cuda.memory._record_memory_history()
    try:
        torch.empty(5 * MIB, device="cuda")
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    assert {"alloc", "free_requested"} <= {entry["action"] for entry in trace}


def test_segments_that_grow():
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    try:
        blocks = [torch.empty(40 * MIB, dtype=torch.uint8, device="cuda") for _ in range(5)]
        assert any(segment["is_expandable"] for segment in torch.cuda.memory_snapshot())
        del blocks
        torch.cuda.empty_cache()
    finally:
        torch.cuda.memory._set_allocator_settings("expandable_segments:False")


def test_profiler_ends():
    with torch.profiler.profile() as profile:
        torch.zeros(4, device="cuda").add_(1)
    assert len(profile.events()) > 0


def test_backward_frees_what_forward_kept():
    weight = torch.ones(MIB, device="cuda", requires_grad=True)
    before = torch.cuda.memory_allocated()
    loss = (weight.exp() * weight).sum()
    assert torch.cuda.memory_allocated() > before
    loss.backward()
    del loss
    weight.grad = None
    assert torch.cuda.memory_allocated() == before
