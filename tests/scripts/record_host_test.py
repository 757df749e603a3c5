#!/usr/bin/env python3
"""Tests pinned memory of the host in recordings of record_pytorch.py, against the stand-in for torch of record_pytorch_test.py:
tensors are pinned, copied and dropped there, and the rows are what the format says (workloads/TRACES.md, "Pinned memory of the host")."""
import functools
import os
import sys
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import record_pytorch_test as stand_in

from record_pytorch import record


class Storage:
    """Of a tensor; two views share one, and PyTorch lets weak references see its end."""

    def __init__(self, address, size_bytes):
        self.address, self.size_bytes = address, size_bytes

    def data_ptr(self):
        return self.address

    def nbytes(self):
        return self.size_bytes


class HostTensor:
    """A tensor of the host or of the device. Its pinned copies lie where `next_address` says."""

    next_address = 0x7000

    def __init__(self, storage, is_cuda=False, pinned=False):
        self.storage, self.is_cuda, self.pinned = storage, is_cuda, pinned

    @staticmethod
    def made(size_bytes, is_cuda=False, pinned=False):
        HostTensor.next_address += 0x1000
        return Tensor(Storage(HostTensor.next_address, size_bytes), is_cuda, pinned)

    def untyped_storage(self):
        return self.storage

    def is_pinned(self):
        return self.pinned

    def pin_memory(self):
        return self if self.pinned else HostTensor.made(self.storage.size_bytes, pinned=True)

    def to(self, device, non_blocking=False):
        if (device == "cuda") == self.is_cuda:
            return self
        return HostTensor.made(self.storage.size_bytes, device == "cuda", pinned=device == "cpu" and non_blocking)

    def copy_(self, source, non_blocking=False):
        return self

    def view(self):
        return Tensor(self.storage, self.is_cuda, self.pinned)

    def record_stream(self, stream):
        pass


class Tensor(HostTensor):
    """As torch.Tensor: it has these methods from its base class."""


class Host(unittest.TestCase):
    setUp, use, lines = stand_in.Recorded.setUp, stand_in.Recorded.use, stand_in.Recorded.lines

    def recorded(self, program):
        self.torch.Tensor = Tensor
        self.torch.empty = lambda size, pin_memory=False, **_: HostTensor.made(size, pinned=pin_memory)
        self.torch.cuda.current_stream = lambda device=None: types.SimpleNamespace(cuda_stream=0x70)
        with record(self.path):
            self.allocator.alloc(0x300, 10)
            program()
            self.allocator.free(0x300)
        return self.lines()[3:-1]

    def test_a_block_lives_from_its_pinning_to_the_end_of_its_last_view(self):
        def program():
            first = self.torch.empty(100, pin_memory=True)
            view = first.view()
            del first
            second = HostTensor.made(50).pin_memory()
            self.assertIs(second.pin_memory(), second)
            del view
            del second

        self.assertEqual(self.recorded(program), ["host_alloc,1,100,0", "host_alloc,2,50,0", "host_free,1,0,0", "host_free,2,0,0"])

    def test_copies_that_do_not_wait_use_the_block_on_their_stream(self):
        def program():
            block, there = self.torch.empty(100, pin_memory=True), HostTensor.made(100, is_cuda=True)
            there.copy_(block, non_blocking=True)
            block.copy_(there, True)
            there.copy_(block)  # waits
            block.to("cuda", non_blocking=True)
            block.to("cuda")
            HostTensor.made(100).to("cuda", non_blocking=True)  # not pinned

        self.assertEqual(self.recorded(program), ["host_alloc,1,100,0", *["host_record,1,0,1"] * 3, "host_free,1,0,0"])

    def test_a_copy_to_the_host_that_does_not_wait_is_pinned(self):
        def program():
            there = HostTensor.made(64, is_cuda=True)
            self.kept = there.to("cpu", non_blocking=True)
            there.to("cpu")

        self.assertEqual(self.recorded(program), ["host_alloc,1,64,0", "host_record,1,0,1"])
        del self.kept  # after the recording

    def test_a_device_context_still_knows_the_functions_that_make_tensors(self):
        made = functools.cache(lambda: {self.torch.empty})  # as PyTorch: on the first tensor below `with torch.device(...)`
        self.torch.utils = types.SimpleNamespace(_device=types.SimpleNamespace(_device_constructors=made))
        found = []
        self.recorded(lambda: found.append(made()))
        self.assertEqual(found, [{self.torch.empty}])  # that of before the recording

    def test_torchscript_knows_what_stands_for_a_function_by_its_name(self):
        names, found = {}, []
        self.torch.jit = types.SimpleNamespace(_builtins=types.SimpleNamespace(
            _get_builtin_table=lambda: names, _find_builtin=lambda function: names.get(id(function))))
        self.torch.empty_like = lambda *_, **__: None
        names[id(self.torch.empty_like)] = "aten::empty_like"
        self.recorded(lambda: found.append((self.torch.empty_like, dict(names))))
        (seen, known), = found
        self.assertIsNot(seen, self.torch.empty_like)
        self.assertEqual(known.get(id(seen)), "aten::empty_like")
        self.assertEqual(list(names), [id(self.torch.empty_like)])

    def test_memory_that_was_pinned_before_and_empty_memory_are_no_requests(self):
        before, there = HostTensor.made(50, pinned=True), HostTensor.made(50, is_cuda=True)

        def program():
            before.pin_memory()
            there.copy_(before, non_blocking=True)
            HostTensor.next_address = -0x1000  # of an empty block is 0
            self.torch.empty(0, pin_memory=True)

        self.addCleanup(setattr, HostTensor, "next_address", 0x7000)
        self.assertEqual(self.recorded(program), [])

    def test_methods_are_as_before_when_it_has_ended(self):
        self.recorded(lambda: None)
        self.assertEqual([name for name in ("to", "copy_", "pin_memory") if name in vars(Tensor)], [])


if __name__ == "__main__":
    unittest.main()
