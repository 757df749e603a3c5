#!/usr/bin/env python3
"""Gives small tensors their values where kernels do nothing, so that a PyTorch script branches as it would on a card.

usage: simcuda-run --kernels nothing python small_values.py SCRIPT.py ARGS...

Each operator runs on the device as it would, with its own requests for memory. Where its result is small, PyTorch computes it on the
host, too, from small inputs. What a script then reads from the device is that value: a mask's count, whether positions are in a row,
whether all texts have ended. A tensor is small up to 1 MiB. A larger one has no values, nor has what compiled code makes: a number
made of it is 0, and what is asked of all of its elements is true. So GradScaler finds no infinite gradient, and skips no step. Random
numbers are the host's. An operator takes about 50 us more.
"""
import contextlib
import functools
import os
import runpy
import sys

try:
    import torch
except ImportError:
    sys.exit("small_values.py: PyTorch is not installed for this Python: wanted torch with CUDA")

BYTES_MAX = 1 << 20
# Of the dispatcher: it comes before autograd, and nothing else uses it. Beside a TorchDispatchMode autograd adds gradients elsewhere.
KEY_NAME = "TESTING_ONLY_GenericMode"
KEY = torch._C._dispatch_key_parse(KEY_NAME)
AFTER_KEY = torch._C._dispatch_keyset_full_after(KEY)
# Place of the argument whose sum they read from the device themselves.
COUNTED = {"aten::repeat_interleave.Tensor": 0, "aten::repeat_interleave.self_Tensor": 1}
# What they return is a value of the device.
READS = "aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal", "aten::allclose"
# How much they choose hangs on a mask alone, which they count by an operator of their own.
CHOOSING = "aten::index.Tensor", "aten::masked_select"
COUNTING = *CHOOSING, "aten::_index_put_impl_", "aten::index_put_", "aten::index_put"
# Gradients come of larger tensors, whose values nobody knows.
WITHOUT_KNOWN_INPUTS = ("aten::_amp_foreach_non_finite_check_and_unscale_",)
# They write a tensor's description, not its values.
WITHOUT_VALUES = ("aten::detach", "aten::detach_", "aten::requires_grad_", "aten::retain_grad", "aten::set_data", "aten::record_stream",
                  "aten::set_", "aten::set_.source_Storage", "aten::set_.source_Storage_storage_offset", "aten::set_.source_Tensor",
                  "aten::set_.source_Tensor_storage_offset")


PLAIN = torch.Tensor, torch.nn.Parameter


class Unknown(Exception):
    """An input has no values."""


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors_of(one)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))


def on_device(tensor):
    return tensor.is_cuda and tensor.layout == torch.strided and type(tensor) in PLAIN


def extent_bytes(tensor):
    """From its storage's start to its last element's end."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (tensor.storage_offset() + last + 1) * tensor.element_size()


def can_have_values(tensor):
    return not on_device(tensor) or extent_bytes(tensor) <= BYTES_MAX


class HostValues:
    """Bytes on the host for each small storage of the device. An operator that returns a new storage begins them anew, so those of a
    storage that is gone are nobody's until then. Storages are known by their addresses: a storage that Python knows counts one owner
    more, and autograd then adds gradients elsewhere."""

    def __init__(self):
        self.held = {}  # address of the storage -> bytes

    def forget(self, tensor):
        self.held.pop(torch._C._storage_id(tensor), None)

    def twin(self, tensor):
        """The tensor's values, as a view of its storage's bytes; None where it has none, itself where it is not on the device."""
        if not on_device(tensor):
            return tensor
        if not can_have_values(tensor):
            return None
        size_bytes = extent_bytes(tensor)
        key = torch._C._storage_id(tensor)
        held = self.held.get(key)
        if held is None or held.numel() < size_bytes:
            grown = torch.zeros(size_bytes, dtype=torch.uint8)
            if held is not None:
                grown[:held.numel()] = held
            held = self.held[key] = grown
        whole = torch.empty(0, dtype=tensor.dtype).set_(held.untyped_storage())
        twin = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return torch._neg_view(twin) if tensor.is_neg() else twin.conj() if tensor.is_conj() else twin


def written_by(operator, arguments, options):
    """Tensors that the operator writes in place."""
    places = [(place, argument.name) for place, argument in enumerate(operator._schema.arguments)
              if argument.alias_info is not None and argument.alias_info.is_write]
    return list(tensors_of([arguments[place] if place < len(arguments) else options.get(name) for place, name in places]))


class SmallValues:
    """Beside each operator that this thread and its backward passes call, as long as the context lasts."""

    def __init__(self):
        self.values = HostValues()
        self.random = torch.Generator()
        self.random.manual_seed(0)
        self.guard = torch._C._IncludeDispatchKeyGuard(KEY)
        self.others = torch._C.DispatchKeySet(KEY)
        self.libraries = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")

    def __enter__(self):
        self.libraries[0].fallback(torch.library.fallthrough_kernel, KEY_NAME)
        for name in torch._C._dispatch_get_all_op_names():
            namespace, _, rest = name.partition("::")
            operator_name, _, overload = rest.partition(".")
            # A parameter is made of what detach returns, which must not be known to Python.
            if namespace != "aten" or name in WITHOUT_VALUES:
                continue
            try:
                operator = getattr(getattr(torch.ops.aten, operator_name), overload or "default")
            except AttributeError:  # of TorchScript
                continue
            self.libraries[1].impl(operator, functools.partial(self.call, operator), KEY_NAME, with_keyset=True)
        self.guard.__enter__()
        return self

    def __exit__(self, *failure):
        self.guard.__exit__(*failure)

    def call(self, operator, keys, *arguments, **options):
        if operator.name() in COUNTING and any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors_of(arguments)):
            result = operator.redispatch(keys & AFTER_KEY, *arguments, **options)
            with torch._C._ExcludeDispatchKeyGuard(self.others), torch.no_grad():
                return self.finish(operator, arguments, options, result)
        with torch._C._ExcludeDispatchKeyGuard(self.others):
            if operator.name() in COUNTED and options.get("output_size") is None:
                options = dict(options, output_size=self.count_of(arguments[COUNTED[operator.name()]]))
            result = operator(*arguments, **options)
            with torch.no_grad():
                return self.finish(operator, arguments, options, result)

    def finish(self, operator, arguments, options, result):
        """The result, with values where it can have some."""
        inputs = list(filter(on_device, tensors_of((arguments, options))))
        outputs = list(tensors_of(result))
        if any(type(tensor) not in PLAIN for tensor in (*tensors_of((arguments, options)), *outputs)):
            return result  # such a tensor, as DTensor, called operators of its own, and would call them again
        if not inputs and not any(map(on_device, outputs)):
            return result
        before = set(map(torch._C._storage_id, inputs))
        new = [tensor for tensor in outputs if on_device(tensor) and torch._C._storage_id(tensor) not in before]
        to_host = [tensor for tensor in outputs if not on_device(tensor)]
        if operator.is_view and not new and not to_host:
            return result
        written = written_by(operator, arguments, options)
        for tensor in [*new, *(tensor for tensor in written if not can_have_values(tensor))]:
            self.values.forget(tensor)
        is_read = operator.name() in READS
        if not (to_host or is_read or any(map(can_have_values, [*written, *new]))):
            return result
        try:
            with torch._C._DisableTorchDispatch():  # a mode, as selective checkpoints', is to see the script's operators alone
                computed = self.on_host(operator, arguments, options)
        except Exception:  # what cannot be had on the host has no values
            all_true = operator.name().startswith(("aten::all", "aten::isfinite"))
            for tensor in filter(can_have_values, new):
                self.values.twin(tensor).fill_(1 if all_true else 0)
            for tensor in filter(on_device, filter(can_have_values, written)):
                self.values.twin(tensor).zero_()
            return result
        return computed if is_read else self.with_values(result, computed, before)

    def count_of(self, repeats):
        """The operator would read this sum from the device itself."""
        twin = self.values.twin(repeats)
        return None if twin is None or not on_device(repeats) else int(twin.sum())

    def on_host(self, operator, arguments, options):
        if operator.name() in WITHOUT_KNOWN_INPUTS:
            raise Unknown

        def host(value):
            if isinstance(value, torch.Tensor):
                twin = self.values.twin(value)
                if twin is None and operator.name() in CHOOSING and value.dtype != torch.bool:
                    return torch.zeros((), dtype=value.dtype).expand(value.shape)
                if twin is None:
                    raise Unknown
                return twin
            if isinstance(value, torch.device):
                return torch.device("cpu")
            if isinstance(value, torch.Generator):
                return self.random
            if isinstance(value, (list, tuple)):
                return type(value)(map(host, value))
            return value

        options = {name: host(value) for name, value in options.items() if name != "pin_memory"}
        if torch.Tag.nondeterministic_seeded in operator.tags:
            with self.own_random():
                return operator(*map(host, arguments), **options)
        return operator(*map(host, arguments), **options)

    @contextlib.contextmanager
    def own_random(self):
        """The script's own random numbers on the host stay as they are."""
        state = torch.get_rng_state()
        torch.set_rng_state(self.random.get_state())
        try:
            yield
        finally:
            self.random.set_state(torch.get_rng_state())
            torch.set_rng_state(state)

    def with_values(self, result, computed, before):
        if isinstance(result, (list, tuple)):
            return type(result)(self.with_values(one, other, before) for one, other in zip(result, computed, strict=True))
        if not isinstance(result, torch.Tensor):
            return result
        if not on_device(result):
            if result is not computed and result.numel():
                result.copy_(computed)
            return result
        if torch._C._storage_id(result) in before:  # written in place, so its bytes have been written
            return result
        if result.shape != computed.shape:  # what a mask chose
            result = torch.empty_strided(computed.shape, computed.stride(), dtype=result.dtype, device=result.device)
        twin = self.values.twin(result)
        if twin is not None:
            twin.copy_(computed)
        return result


def main(command):
    if not command or not os.path.isfile(command[0]):
        sys.exit(f"small_values.py: wanted SCRIPT.py ARGS..., got {' '.join(command) or 'nothing'}: no such script")
    sys.argv = command
    sys.path[0] = os.path.dirname(os.path.abspath(command[0]))
    with SmallValues():
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
