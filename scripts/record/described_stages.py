"""One stage of a pipeline of ranks: transformers' blocks in torch.distributed.pipelining's 1F1B. The other stages are not there."""
import contextlib

import described_tensor
import record_pytorch
from described_models import checkpoint, dtype_of, make_model, without_data
from described_ranks import replicated


def is_autocast(keys):
    return keys.word("precision", "bf16_autocast") == "bf16_autocast"


def part_of(keys, stage, stages, chunk=0):
    """The stage's blocks, the rank's chunk of this number, with the table of words before the first ones and the head behind the last ones."""
    import torch
    casts = is_autocast(keys)
    whole = without_data(keys) if keys.number("tp", 1) > 1 else make_model(keys)
    inner, count = whole.model, keys.number("layers") // stages
    given = keys.numbers("stage_layers", "0")
    counts = given if given[0] else [count] * stages
    begin = sum(counts[:stage])
    inner.layers = torch.nn.ModuleList(list(inner.layers)[begin:begin + counts[stage]])
    is_first, is_last = stage == 0, stage + 1 == stages
    if not is_first:
        inner.embed_tokens = None
    if not is_last:
        inner.norm, whole.lm_head = torch.nn.Identity(), None

    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = whole

        def forward(self, values):
            inputs = {"input_ids": values} if is_first else {"inputs_embeds": values}
            with torch.autocast("cuda", dtype=torch.bfloat16) if casts else contextlib.nullcontext():
                hidden = self.whole.model(use_cache=False, **inputs).last_hidden_state
                return self.whole.lm_head(hidden) if is_last else hidden

    checkpoint(keys, whole, chunk * counts[stage])
    return Part()


def grid_of(keys):
    """None where each rank has a stage of its own, else a mesh of stages, those who share data, and those who share products."""
    sides = {name: keys.number(name, 1) for name in ("pp", "dp", "tp")}
    return described_tensor.mesh_of(sides) if sides["dp"] * sides["tp"] > 1 else None


def on_device(keys, part, grid):
    if keys.number("tp", 1) == 1:
        return part.to("cuda", dtype_of(keys))
    described_tensor.cut(keys, grid["tp"], part.whole)
    return part.to_empty(device="cuda")


def stage_of(keys, part, stage, stages, grid):
    import torch
    from torch.distributed.pipelining import PipelineStage
    if keys.number("dp", 1) > 1:
        part = replicated(keys, part, grid)
    dtype = dtype_of(keys) or torch.float32
    casts = is_autocast(keys)
    batch, length, hidden, vocabulary = (keys.number(key) for key in ("batch", "seq", "hidden", "vocabulary"))
    # Shapes are given, so that no stage asks another.
    given = torch.empty(batch, length, dtype=torch.int64, device="meta") if stage == 0 else \
        torch.empty(batch, length, hidden, dtype=dtype, device="meta")
    is_last = stage + 1 == stages
    result = torch.empty(batch, length, vocabulary if is_last else hidden, dtype=torch.bfloat16 if casts and is_last else dtype, device="meta")
    group = grid["pp"].get_group() if grid is not None else None
    return PipelineStage(part, stage, stages, torch.device("cuda"), input_args=(given,), output_args=(result,), group=group)


def schedule_of(keys, parts, ranks, rank, micro_batches, grid):
    from torch.distributed.pipelining import Schedule1F1B, ScheduleInterleaved1F1B
    count, last, vocabulary = ranks * len(parts), parts[-1], keys.number("vocabulary")
    own = [stage_of(keys, part, rank + chunk * ranks, count, grid) for chunk, part in enumerate(parts)]
    options = {"loss_fn": lambda logits, labels: last.whole.loss_function(logits, labels, vocabulary)}
    return Schedule1F1B(own[0], micro_batches, **options) if len(own) == 1 else ScheduleInterleaved1F1B(own, micro_batches, **options)


def train_stage(keys, make_optimizer):
    import torch
    ranks, chunks, grid = keys.number("pp"), keys.number("virtual", 1), grid_of(keys)
    rank = torch.distributed.get_rank() // keys.number("dp", 1) // keys.number("tp", 1)
    keys.asked.add("rank")  # join() knows it
    micro_batches = keys.number("micro_batches", ranks)
    parts = [part_of(keys, rank + chunk * ranks, ranks * chunks, chunk).train() for chunk in range(chunks)]
    parts = [on_device(keys, part, grid) for part in parts]
    schedule = schedule_of(keys, parts, ranks, rank, micro_batches, grid)
    parameters = [parameter for part in parts for parameter in part.parameters()]
    optimizer = make_optimizer(keys, parameters)
    batch, length, vocabulary, clips = keys.number("batch"), keys.number("seq"), keys.number("vocabulary"), keys.number("clip")
    step_count, returns = keys.number("steps"), bool(keys.number("return_outputs", 1))
    keys.check()
    for step in range(step_count):
        record_pytorch.mark(f"part{step}")
        ids = torch.randint(2, vocabulary, (batch * micro_batches, length), device="cuda")
        losses = []
        arguments, options = (ids,) if rank == 0 else (), {"target": ids, "losses": losses} if rank + 1 == ranks else {}
        schedule.step(*arguments, return_outputs=returns, **options)
        if clips:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
