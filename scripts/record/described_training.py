"""The training program of a text of `train`: its loop, with ways to save memory and to waste it."""
import contextlib
import functools
import io

import described_deepspeed
import described_images
import record_pytorch
from described_models import checkpoint, dtype_of, with_adapters, with_float8
from described_ranks import data_group, device_model
from references import context


def make_optimizer(keys, parameters):
    import torch
    name = keys.word("optimizer", "adamw")
    if name.endswith(("_8bit", "_32bit")):
        from bitsandbytes import optim
        return {"adamw_8bit": optim.AdamW8bit, "paged_adamw_8bit": optim.PagedAdamW8bit, "paged_adamw_32bit": optim.PagedAdamW32bit}[name](parameters)
    if name.startswith("sgd"):
        kind, options = torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9 if name == "sgd_momentum" else 0}
    else:
        kind, options = torch.optim.AdamW, {"adamw_fused": {"fused": True}, "adamw_loop": {"foreach": False}}.get(name, {})
    if keys.number("zero") and keys.word("sharder") == "torch":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        return ZeroRedundancyOptimizer(parameters, optimizer_class=kind, process_group=data_group(keys), **{"lr": 1e-3, **options})
    return kind(parameters, **options)


def positions_of_texts(count, length):
    """Two texts lie in each sequence, as DataCollatorWithFlattening packs them."""
    import torch
    first = length // 3
    return torch.tensor([[*range(first), *range(length - first)]] * count, device="cuda")


def batches(keys):
    """Makes the inputs of one pass, of the preset number of sequences or of another."""
    import torch
    if keys.family == "vit":
        return described_images.classified_batches(keys, dtype_of(keys))
    vocabulary, preset, lengths = keys.number("vocabulary"), keys.number("batch"), keys.numbers("seq", "64")
    mask, targets, is_packed, made = keys.word("attention_mask", "none"), keys.numbers("target", "128"), keys.number("packed"), 0
    shares_sequences, shares_tokens = keys.number("cp", 1) > 1, keys.number("sp")

    def make(count=0):
        nonlocal made
        count, length = count or preset, lengths[made % len(lengths)]
        made += 1
        if shares_sequences:
            return context.shifted(vocabulary, count, length, mask != "none")
        ids = torch.randint(2, vocabulary, (count, length), device="cuda")
        inputs = {"input_ids": ids, "labels": ids}
        if keys.word("vision", "none") != "none":
            return described_images.with_images(keys, inputs, dtype_of(keys))
        if mask != "none":
            inputs["attention_mask"] = torch.ones_like(ids)
        if keys.family == "t5":
            inputs["labels"] = torch.randint(2, vocabulary, (count, targets[(made - 1) % len(targets)]), device="cuda")
        elif mask == "padding" or is_packed:
            inputs["labels"] = ids.clone()
        if shares_tokens:  # the model would count those of this rank alone
            inputs["position_ids"] = torch.arange(length, device="cuda").unsqueeze(0)
        if is_packed:
            inputs["position_ids"] = positions_of_texts(count, length)
        if mask == "padding":
            for row in range(count):
                begin = length - max((row + 1) * length // (2 * count + 1), min(1, length - 1))
                inputs["attention_mask"][row, begin:] = 0
                if keys.family != "t5":
                    inputs["labels"][row, begin:] = -100
        return inputs

    return make


def chunked_loss(model, inputs, chunk_count):
    """Head and loss over chunks of tokens, each checkpointed."""
    import torch
    from torch.utils.checkpoint import checkpoint as checkpointed
    whole = model.get_base_model() if hasattr(model, "peft_config") else model
    others = {name: tensor for name, tensor in inputs.items() if name != "labels"}
    hidden = whole.base_model(**others).last_hidden_state
    hidden = hidden.view(-1, hidden.shape[-1])
    labels = torch.nn.functional.pad(inputs["labels"], (0, 1), value=-100)[:, 1:].reshape(-1)

    def loss_of(part, wanted):
        return torch.nn.functional.cross_entropy(whole.lm_head(part).float(), wanted, reduction="sum")

    loss = 0
    for part, wanted in zip(hidden.chunk(chunk_count), labels.chunk(chunk_count)):
        loss = loss + checkpointed(loss_of, part, wanted, use_reentrant=False)
    del hidden, labels, part, wanted
    return loss / inputs["input_ids"].numel()


class HostOptimizer:
    """The optimizer's parameters and states are the host's, in four bytes."""

    def __init__(self, keys, model, takes_gradients):
        import torch
        self.model = model
        self.copies = {one: one.detach().to("cpu", torch.float32) for one in model.parameters() if one.requires_grad}
        self.takes_gradients = takes_gradients
        if takes_gradients:
            for parameter in self.copies:
                parameter.register_post_accumulate_grad_hook(self.take)
        self.optimizer = make_optimizer(keys, self.copies.values())

    def take(self, parameter):
        gradient = parameter.grad.to("cpu").float()
        copy = self.copies[parameter]
        copy.grad = gradient if copy.grad is None else copy.grad + gradient
        if self.takes_gradients:
            parameter.grad = None

    def step(self):
        import torch
        for parameter in self.copies:
            if not self.takes_gradients:
                self.take(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            for parameter, copy in self.copies.items():
                parameter.copy_(copy.to(parameter.dtype))


def prepared(keys, model):
    checkpoint(keys, model)
    return with_float8(keys, with_adapters(keys, model))


class Training:
    def __init__(self, keys):
        import torch
        precision = keys.word("precision", "bf16" if "lora" in keys.values else "bf16_autocast")
        self.autocast = {"bf16_autocast": torch.bfloat16, "bf16_weights_autocast": torch.bfloat16,
                         "fp16_autocast": torch.float16}.get(precision)
        self.model = device_model(keys, functools.partial(prepared, keys))
        self.parameters = [one for one in self.model.parameters() if one.requires_grad]
        self.optimizer = make_optimizer(keys, self.parameters)
        # With a larger scale the first steps find infinities and are left out.
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1.0) if precision == "fp16_autocast" else None
        self.accumulate, self.clips, self.zero_grad = keys.number("accumulate", 1), keys.number("clip"), keys.word("zero_grad", "after_step")
        self.no_sync, self.pieces = keys.number("no_sync"), contextlib.ExitStack()
        self.sequence_mesh = getattr(self.model, "sequence_mesh", None)
        if keys.word("rotate", "allgather") == "alltoall":
            from torch.distributed.tensor.experimental._attention import set_rotate_method
            set_rotate_method("alltoall")
        self.keeps_batch, self.make, self.loss, self.inputs = keys.number("keep_batch", 1), batches(keys), None, None
        self.eval_every, self.eval_batches, self.eval_batch = (keys.number(f"eval_{key}") for key in ("every", "batches", "batch"))
        self.eval_loops, self.eval_grad = keys.word("eval_autocast", "batch") == "loop", keys.number("eval_grad")
        self.kept_eval_losses = [] if keys.number("keep_eval_losses") else None
        self.kept_losses, self.kept_outputs = ([] if keys.number(f"keep_{what}") else None for what in ("losses", "outputs"))
        self.loss_chunks, self.host = keys.number("loss_chunks", 1), None
        if keys.word("offload", "none") != "none":
            self.host = HostOptimizer(keys, self.model, keys.word("offload") == "gradients")
        self.save_every, self.save_kind = keys.number("save_every"), keys.word("save", "plain")
        self.resume, self.resume_at, self.is_grid = keys.word("resume", "none"), keys.number("resume_at"), data_group(keys) is not None

    def context(self):
        import torch
        return torch.autocast("cuda", dtype=self.autocast) if self.autocast else contextlib.nullcontext()

    def loss_of(self, inputs):
        if self.loss_chunks > 1:
            return chunked_loss(self.model, inputs, self.loss_chunks)
        output = self.model(**inputs)
        if self.kept_outputs is not None:
            self.kept_outputs.append(output.logits)
        return output.loss

    def share_sequences(self, inputs):
        """Where ranks share them, until `pieces` close: at the backward's end, or after an evaluation's batch."""
        if not self.sequence_mesh:
            return inputs
        from torch.distributed.tensor.experimental import context_parallel
        tensors = list(inputs.values())
        self.pieces.enter_context(context_parallel(self.sequence_mesh, buffers=tensors, buffer_seq_dims=[1] * len(tensors),
                                                   no_restore_buffers=set(tensors)))
        return inputs

    def forward(self):
        if self.keeps_batch:
            self.inputs = self.make()
            self.share_sequences(self.inputs)
            with self.context():
                self.loss = self.loss_of(self.inputs)
        else:
            with self.context():
                self.loss = self.loss_of(self.share_sequences(self.make()))

    def backward(self, is_first):
        if self.zero_grad == "before_backward" and is_first:
            self.zero_gradients()
        if self.accumulate > 1:
            self.loss = self.loss / self.accumulate
        (self.scaler.scale(self.loss) if self.scaler else self.loss).backward()
        self.pieces.close()
        if self.kept_losses is not None:
            self.kept_losses.append(self.loss)

    def zero_gradients(self, to_none=True):
        (self.host.model if self.host else self.optimizer).zero_grad(set_to_none=to_none)

    def optimize(self):
        import torch
        if self.clips:
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            (self.host or self.optimizer).step()
        if self.zero_grad in ("after_step", "zeros"):
            self.zero_gradients(self.zero_grad == "after_step")

    def evaluate(self):
        import torch
        self.model.eval()
        total = 0.0
        with torch.set_grad_enabled(bool(self.eval_grad)), self.context() if self.eval_loops else contextlib.nullcontext():
            for _ in range(self.eval_batches):
                with contextlib.nullcontext() if self.eval_loops else self.context():
                    if self.eval_grad:
                        loss = self.model(**self.share_sequences(self.make(self.eval_batch))).loss
                        total += loss.item()
                    else:
                        total += self.model(**self.share_sequences(self.make(self.eval_batch))).loss.item()
                    self.pieces.close()
                if self.kept_eval_losses is not None:
                    self.kept_eval_losses.append(loss)
        if self.kept_eval_losses:
            del loss
            self.kept_eval_losses.clear()
        self.model.train()

    def save(self):
        import torch
        if self.save_kind == "cast":
            state = [one.detach().to(torch.bfloat16) for one in self.model.parameters()]
            torch.cuda.synchronize()
            del state
        else:
            torch.save(self.model.state_dict(), io.BytesIO())

    def load(self):
        import torch
        file = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
        file.seek(0)
        # A part of a mesh is none of what PyTorch loads unasked.
        state = torch.load(file, map_location="cuda" if self.resume == "device" else "cpu", weights_only=not self.is_grid)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def step(self, index):
        record_pytorch.mark(f"part{index}")
        for micro_step in range(self.accumulate):
            with self.model.no_sync() if self.no_sync and micro_step + 1 < self.accumulate else contextlib.nullcontext():
                self.forward()
                self.backward(micro_step == 0)
        self.optimize()
        done = index + 1
        if self.save_every and done % self.save_every == 0:
            self.save()
        if self.eval_every and done % self.eval_every == 0:
            self.evaluate()
        if self.resume != "none" and done == self.resume_at:
            self.load()


def train(keys):
    if keys.number("zero") > 0 and keys.word("sharder", "deepspeed") == "deepspeed":
        described_deepspeed.train(keys, prepared, make_optimizer, batches)
        return
    training = Training(keys)
    step_count = keys.number("steps", 4)
    keys.check()
    for step in range(step_count):
        training.step(step)
