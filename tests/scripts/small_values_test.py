#!/usr/bin/env python3
"""scripts/record/small_values.py: that scripts branch on simcuda as they do on a card, and that it asks for no memory of its own. Needs
PyTorch with CUDA for this Python; without it the test is skipped.

usage: small_values_test.py SIMCUDA_RUN
"""
import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "record" / "small_values.py"
# What a program prints: its first line is what it branches on, and equal on every device; its last, what it asked of the allocator.
HEAD = """
import json, torch
def end(*values):
    stats = torch.cuda.memory_stats()
    print(json.dumps([list(values), stats["requested_bytes.all.peak"], stats["allocation.all.allocated"]]))
"""
READS = """
x = torch.arange(10, device="cuda")
chosen = x > 6
y = torch.ones(4, 4, device="cuda")
y[1:3].mul_(3)
end(x.sum().item(), int(chosen.sum()), list(x[chosen].shape), torch.nonzero(chosen).shape[0], bool((x >= 0).all()), y.cpu().tolist(),
    torch.sort(torch.tensor([3, 1, 2], device="cuda")).values.tolist())
"""
SIZES = """
counts = torch.tensor([3, 1, 2], device="cuda")
end(torch.repeat_interleave(counts, counts).tolist(), counts.unique().numel(), torch.masked_select(counts, counts > 1).tolist())
"""
LOOP = """
ended, steps = torch.zeros(4, dtype=torch.bool, device="cuda"), 0
while not bool(ended.all()):
    steps += 1
    ended = ended | torch.full((4,), steps >= 5, device="cuda")
end(steps)
"""
HOST_RANDOM = """
torch.manual_seed(0)
torch.rand(1000, device="cuda")
end(torch.rand(3).tolist())
"""
# Gradients of a table that is used twice are added where autograd finds nobody else.
TRAINING = """
table = torch.nn.Embedding(5000, 256, device="cuda")
head = torch.nn.Linear(256, 5000, bias=False, device="cuda")
head.weight = table.weight
for _ in range(2):
    ids = torch.zeros(2, 64, dtype=torch.long, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(head(table(ids)).float().flatten(0, 1), ids.flatten())
    loss.backward()
    table.weight.grad = None
end()
"""
# Requests of the forward and of the backward pass.
MASKED = """
x = torch.ones(64, 128, 32, device="cuda", requires_grad=True)
mask = torch.ones(64, 128, dtype=torch.bool, device="cuda")
asked = lambda: torch.cuda.memory_stats()["allocation.all.allocated"]
choice = CHOICE
before = asked()
chosen = x[choice]
forward = asked() - before
gradient = torch.ones_like(chosen)
before = asked()
chosen.backward(gradient)
end(list(chosen.shape), forward, asked() - before)
"""
# Storages are copied beneath the operators.
COPIED = """
import copy
ends = torch.tensor([5, 7], device="cuda")
copied = copy.deepcopy(ends)
end(ends.tolist(), copied.tolist())
"""
# A mode sees what the script calls.
MODE = """
from torch.utils._python_dispatch import TorchDispatchMode
class Counts(TorchDispatchMode):
    count = 0
    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        Counts.count += operator is torch.ops.aten.mm.default
        return operator(*arguments, **(options or {}))
x = torch.ones(4, 4, device="cuda")
with Counts():
    y = x @ x
end(Counts.count, y.sum().item())
"""
LARGE = """
large = torch.zeros(1 << 20, device="cuda")
end(large.sum().item(), bool(torch.isfinite(large).all()))
"""
# The large sum is 1 on a card.
SCALED = """
large = torch.zeros(1 << 20, device="cuda")
large[0] = 1
weight = torch.nn.Parameter(torch.ones(2, device="cuda"))
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler.scale((weight / large.sum()).sum()).backward()
scaler.step(optimizer)
scaler.update()
end(scaler.get_scale())
"""


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed for this Python")
class SmallValues(unittest.TestCase):
    def ran(self, text, *beside):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "script.py"
            path.write_text(HEAD + text)
            done = subprocess.run([SIMCUDA_RUN, "--kernels", "nothing", sys.executable, *beside, path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout.splitlines()[-1])

    def values(self, text):
        return self.ran(text, SCRIPT)[0]

    def test_what_is_read_has_its_value(self):
        y = [[1.0] * 4, [3.0] * 4, [3.0] * 4, [1.0] * 4]
        self.assertEqual(self.values(READS), [45, 3, [3], 3, True, y, [1, 2, 3]])

    def test_values_decide_sizes(self):
        self.assertEqual(self.values(SIZES), [[3, 3, 3, 1, 2, 2], 3, [3, 2]])

    def test_a_mask_counts_again_in_its_backward_pass(self):
        chosen, by_mask, back_by_mask = self.values(MASKED.replace("CHOICE", "mask"))
        _, by_places, back_by_places = self.values(MASKED.replace("CHOICE", "torch.nonzero(mask, as_tuple=True)"))
        self.assertEqual(chosen, [64 * 128, 32])
        self.assertGreater(by_mask, by_places)
        self.assertEqual(back_by_mask - back_by_places, by_mask - by_places)

    def test_a_loop_ends_when_the_device_says_so(self):
        self.assertEqual(self.values(LOOP), [5])

    def test_random_numbers_of_the_host_stay_as_they_are(self):
        self.assertEqual(self.values(HOST_RANDOM), self.ran(HOST_RANDOM)[0])

    def test_copies_leave_the_original_its_values(self):
        self.assertEqual(self.values(COPIED), [[5, 7], [5, 7]])

    def test_a_dispatch_mode_sees_the_script_alone(self):
        self.assertEqual(self.values(MODE), [1, 64])

    def test_large_tensors_have_no_values(self):
        self.assertEqual(self.values(LARGE), [0.0, True])

    def test_a_scaler_skips_no_step_for_what_nobody_knows(self):
        self.assertEqual(self.values(SCALED), [65536])

    def test_training_asks_for_the_same_memory(self):
        self.assertEqual(self.ran(TRAINING, SCRIPT), self.ran(TRAINING))

    def test_compiled_code_runs(self):
        self.assertEqual(self.values("end(list(torch.compile(lambda x: x @ x + 1)(torch.ones(64, 64, device='cuda')).shape))"), [[64, 64]])

    def test_says_what_it_wants(self):
        done = subprocess.run([sys.executable, SCRIPT, "missing.py"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("wanted SCRIPT.py ARGS..., got missing.py: no such script", done.stderr)


if __name__ == "__main__":
    SIMCUDA_RUN = sys.argv.pop(1)
    program = unittest.main(exit=False)
    skipped = len(program.result.skipped)
    sys.exit(1 if not program.result.wasSuccessful() else 77 if skipped == program.result.testsRun else 0)
