#!/usr/bin/env python3
"""Tests the private pools in recordings of record_pytorch.py, against the stand-in for torch of record_pytorch_test.py: MemPools and
graphs are made, used and deleted there, and the rows are what the format says of them (workloads/TRACES.md, "Private pools"). And
tests that a compiler which traces the program does not see what watches it."""
import os
import sys
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import record_pytorch_test as stand_in
from record_pytorch_test import FakeMemPool, alloc, rows, segment, snapshot

import record_pytorch
from record_pytorch import Position, record


class Pools(unittest.TestCase):
    setUp, use, lines = stand_in.Recorded.setUp, stand_in.Recorded.use, stand_in.Recorded.lines

    def test_mem_pools_are_made_routed_to_and_released(self):
        memory = self.torch.cuda.memory
        FakeMemPool.count = 0
        with record(self.path):
            pool = memory.MemPool(use_on_oom=True, no_split=True)
            memory._cuda_beginAllocateCurrentThreadToPool(1, pool.id)
            self.allocator.alloc(0x300, 10)
            memory._cuda_endAllocateToPool(1, pool.id)
            memory._cuda_releasePool(1, pool.id)
            memory._cuda_beginAllocateCurrentThreadToPool(0, pool.id)  # another device's
            self.allocator.free(0x300)
            del pool
            self.allocator.alloc(0x400, 20)
        self.assertEqual(self.lines()[2:], [
            "pool_create,1,0,0", "pool_on_oom,1,1,0", "pool_no_split,1,0,0", "pool_begin,1,1,0", "alloc,2,10,0", "pool_end,1,0,0",
            "pool_release,1,0,0", "free,2,0,0", "pool_on_oom,1,0,0", "pool_release,1,0,0", "empty_cache,1,0,0", "alloc,3,20,0"])
        self.assertEqual(memory.MemPool.__init__, FakeMemPool.__init__)

    def test_graphs_are_captured_replayed_and_end(self):
        with record(self.path):
            graph, twin = self.torch.cuda.CUDAGraph(), self.torch.cuda.CUDAGraph()
            graph.capture_begin()
            self.allocator.alloc(0x300, 10)
            graph.capture_end()
            twin.capture_begin(pool=graph.pool())
            twin.capture_end()
            graph.replay()
            graph.reset()
            self.allocator.free(0x300)
            del graph, twin
        self.assertEqual(self.lines()[2:], [
            "pool_begin,1,0,0", "capture_begin,1,0,0", "alloc,2,10,0", "capture_end,1,0,0", "pool_end,1,0,0",
            "pool_begin,1,0,0", "capture_begin,1,0,0", "capture_end,1,0,0", "pool_end,1,0,0",
            "graph_replay,1,0,0", "pool_release,1,0,0", "free,2,0,0", "pool_release,1,0,0"])

    def test_what_is_open_at_the_end_is_closed_and_a_capture_that_forks_takes_all_streams(self):
        made = rows(snapshot(alloc(0x1000, 1, 0x70), alloc(0x2000, 2, 0x80)), positions=[
            Position(0, "pool", ("begin_capture", record_pytorch.Graph((3, 0)), 0x70))])
        self.assertEqual(made[1:], ["pool_begin,1,1,0", "capture_begin,1,0,1", "alloc,1,1,1", "alloc,2,2,2", "capture_end,1,0,1",
                                    "pool_end,1,0,0"])

    def test_blocks_and_pools_from_before_are_put_in(self):
        held = {**segment(0x8000, 0, [(512, 100, "active_allocated")]), "segment_pool_id": (0, 4)}
        made = rows(snapshot(alloc(0x1000, 5), segments=[held]), positions=[
            Position(0, "pool", ("replay", (9, 9), 0)), Position(0, "pool", ("release", (8, 8))),
            Position(0, "pool", ("begin_mem_pool", (0, 4))), Position(1, "pool", ("end", (0, 4)))])
        self.assertEqual(made[1:], ["pool_create,1,0,0", "pool_begin,1,1,0", "alloc,1,100,0", "pool_end,1,0,0", "pool_release,1,0,0",
                                    "pool_begin,1,1,0", "alloc,2,5,0", "pool_end,1,0,0"])

    def test_what_a_compiler_traces_is_the_call_alone(self):
        self.torch.compiler = types.SimpleNamespace(is_compiling=lambda: True)
        with record(self.path):
            self.allocator.alloc(0x300, 10)
            self.torch.cuda.empty_cache()
        self.assertEqual(self.lines()[2:], ["alloc,2,10,0"])

    def test_a_compiler_knows_the_methods_of_tensors_as_they_were(self):
        original, known = self.torch.Tensor.record_stream, []
        rules = types.SimpleNamespace(get_tensor_method=lambda: known.append(self.torch.Tensor.record_stream))
        self.use({"torch": self.torch, "torch._dynamo": types.SimpleNamespace(), "torch._dynamo.trace_rules": rules})
        with record(self.path):
            self.allocator.alloc(0x300, 10)
        self.assertEqual(known, [original])


if __name__ == "__main__":
    unittest.main()
