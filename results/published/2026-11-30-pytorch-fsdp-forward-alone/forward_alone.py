#!/usr/bin/env python3
"""A forward with gradients whose backward never runs, before a step of sharded training: does the step still change the model?

usage: torchrun --nproc-per-node 2 forward_alone.py        needs two GPUs, or one for each rank

Each row trains the same model for six steps. Before step 3 and step 5 a forward stands alone: an evaluation, or a batch whose loss is
thrown away, as loops do with one that is not finite. Without data parallelism the same six steps give the reference.
"""
import itertools
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard

STEPS, ALONE_BEFORE = 6, (2, 4)
# How the lone forward runs: None, or whether the model is in train(), and whether gradients are on.
ALONE = {"none": None, "eval(), no_grad": (False, False), "eval(), gradients on": (False, True), "train(), loss thrown away": (True, True)}


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).cuda()


def loss_of(model, step, rank):
    generator = torch.Generator(device="cuda").manual_seed(100 * step + rank)
    return model(torch.randn(32, 64, device="cuda", generator=generator)).float().square().mean()


def parameters_of(model):
    return torch.cat([one.detach().float().flatten() for one in model.parameters()]).clone()


def reference(ranks):
    """What the model is after each step."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    states = [parameters_of(model)]
    for step in range(STEPS):
        (sum(loss_of(model, step, rank) for rank in range(ranks)) / ranks).backward()
        optimizer.step()
        optimizer.zero_grad()
        states.append(parameters_of(model))
    return states


def sharded(kind, narrow):
    model = make_model()
    if kind == "fully_shard":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if narrow else MixedPrecisionPolicy()
        for block in (model[0], model[2], model):
            fully_shard(block, mp_policy=policy)
        return model
    options = {"mixed_precision": MixedPrecision(param_dtype=torch.bfloat16) if narrow else None, "use_orig_params": "orig" in kind}
    for index in (0, 2):
        model[index] = FullyShardedDataParallel(model[index], **options)
    return FullyShardedDataParallel(model, **options)


def whole(kind, model):
    if kind == "fully_shard":
        return torch.cat([one.full_tensor().detach().float().flatten() for one in model.parameters()])
    with FullyShardedDataParallel.summon_full_params(model, writeback=False):
        return parameters_of(model)


def train(kind, narrow, alone, rank):
    """What the model is before the first step and after each."""
    model = sharded(kind, narrow)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    states = [whole(kind, model)]
    for step in range(STEPS):
        if alone and step in ALONE_BEFORE:
            in_training, has_gradients = alone
            model.train(in_training)
            with torch.set_grad_enabled(has_gradients):
                loss_of(model, 1000 + step, rank).item()
            model.train()
        loss_of(model, step, rank).backward()
        optimizer.step()
        optimizer.zero_grad()
        states.append(whole(kind, model))
    return states


def main():
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    right = reference(ranks)
    if rank == 0:
        print(f"PyTorch {torch.__version__}, {ranks} x {torch.cuda.get_device_name(0)}", flush=True)
        print("| sharded by | computes in | forward alone before steps 3 and 5 | steps that changed the model | off the reference at the end |")
        print("| :-- | :-- | :-- | --: | --: |", flush=True)
    kinds = "FullyShardedDataParallel", "FullyShardedDataParallel, use_orig_params", "fully_shard"
    for kind, narrow, (name, alone) in itertools.product(kinds, (False, True), ALONE.items()):
        try:
            states = train(kind, narrow, alone, rank)
            moved = [step + 1 for step in range(STEPS) if not torch.equal(states[step], states[step + 1])]
            off = ((states[-1] - right[-1]).norm() / (right[-1] - right[0]).norm()).item()
            said = f"{len(moved)} of {STEPS}" + ("" if len(moved) == STEPS else f", not {sorted(set(range(1, STEPS + 1)) - set(moved))}")
            said += f" | {100 * off:.1f} %"
        except RuntimeError as problem:
            said = f"RuntimeError: {str(problem).splitlines()[0][:70]}... | |"
        if rank == 0:
            print(f"| {kind} | {'bf16' if narrow else 'fp32'} | {name} | {said}".rstrip(" |") + " |", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
