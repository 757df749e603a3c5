"""Training steps of torchtune's own Llamas, as its README's table ran them: what record_without_gpu.py records. Without a GPU nothing is
computed.

usage: torchtune_steps.py --tokens N [--batch 2] [--steps 2] [--compile] [--chunked-loss] [--checkpoint] [--in-backward] [--offload]
                          [--lora] [--model NAME]

As recipes/full_finetune_single_device.py and lora_finetune_single_device.py at release 0.6.1 do: bf16, texts packed to --tokens with a
mask of the texts, AdamW (fused). --compile: each layer and the loss. Weights are not loaded.
"""
import argparse
import importlib

import torch
from torchtune import modules, training
from torchtune.modules.attention_utils import packed_block_causal_mask
from torchtune.modules.loss import CEWithChunkedOutputLoss

NAMES = {"3b": ("llama3_2", "llama3_2_3b"), "8b": ("llama3_1", "llama3_1_8b")}
ATTENTION = ["q_proj", "v_proj", "output_proj"]


def make_model(name, lora):
    room, maker = NAMES[name]
    room = importlib.import_module(f"torchtune.models.{room}")
    with training.set_default_dtype(torch.bfloat16), torch.device("meta"):
        if lora:
            model = getattr(room, f"lora_{maker}")(lora_attn_modules=ATTENTION, apply_lora_to_mlp=True, lora_rank=64 if name == "3b" else 8, lora_alpha=128)
        else:
            model = getattr(room, maker)()
    model = model.to_empty(device="cuda")
    for module in model.modules():
        if isinstance(module, modules.RotaryPositionalEmbeddings) or hasattr(module, "rope_init"):
            with torch.device("cuda"):
                module.rope_init()
    return model


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=NAMES, default="3b")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--steps", type=int, default=2)
    for name in ("compile", "chunked-loss", "checkpoint", "in-backward", "offload", "lora"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def make_optimizer(model, asked):
    """None where each weight's optimizer steps in the backward."""
    if not asked.in_backward:
        return torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=2e-5, fused=True)
    made = {weight: torch.optim.AdamW([weight], lr=2e-5, fused=True) for weight in model.parameters()}
    training.register_optim_in_bwd_hooks(model=model, optim_dict=made)
    return None


def main():
    asked = parse()
    model = make_model(asked.model, asked.lora)
    if asked.lora:
        modules.peft.set_trainable_params(model, modules.peft.get_adapter_params(model))
    if asked.compile:
        training.compile_model(model)
    if asked.checkpoint:
        training.set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    offloading = training.get_act_offloading_ctx_manager(model, asked.offload)
    optimizer = make_optimizer(model, asked)
    loss_of = CEWithChunkedOutputLoss() if asked.chunked_loss else torch.nn.CrossEntropyLoss(ignore_index=-100)
    if asked.chunked_loss:
        model.set_num_output_chunks(loss_of.num_output_chunks)
    if asked.compile:
        loss_of = training.compile_loss(loss_of)
    ignored = torch.full((asked.batch, 1), -100, device="cuda")
    for _ in range(asked.steps):
        shape = (asked.batch, asked.tokens)
        batch = {"tokens": torch.zeros(shape, dtype=torch.int64), "input_pos": torch.zeros(shape, dtype=torch.int64),
                 "mask": packed_block_causal_mask([torch.full((asked.tokens // 256,), 256)] * asked.batch), "labels": torch.zeros(shape, dtype=torch.int64)}
        batch = {key: value.to("cuda") for key, value in batch.items()}
        counted = (batch["labels"] != -100).sum()
        labels = batch.pop("labels")
        with offloading:
            logits = model(**batch)
        labels = torch.hstack((labels[..., 1:], ignored))
        if not isinstance(logits, list):
            labels = labels.reshape(-1)
            logits = logits.reshape(-1, logits.size(-1))
        loss = loss_of(logits, labels)
        del logits
        if optimizer is not None:
            loss = loss * counted
        running = loss.detach()
        loss.backward()
        if optimizer is not None:
            training.scale_grads(model, 1 / counted)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        running.item()


if __name__ == "__main__":
    main()
