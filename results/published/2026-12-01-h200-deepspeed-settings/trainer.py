#!/usr/bin/env python3
"""A small model that transformers' Trainer trains, on one GPU or, recorded, on none:

    PYTHONPATH=scripts/record scripts/record/record_without_gpu.py --simcuda build/release/lib/simcuda --out trainer.csv.gz \
        results/published/2026-12-01-h200-deepspeed-settings/trainer.py llama '{"per_device_train_batch_size": 4, "bf16": true}'

usage: trainer.py llama|gpt2 ARGUMENTS [lora] [narrow]

ARGUMENTS are TrainingArguments, as JSON; narrow: weights in two bytes. Needs PyTorch, transformers and accelerate, for `deepspeed` DeepSpeed,
whose process group is that of one rank, without NCCL, and for lora peft.
"""
import json
import os
import sys

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", DS_BUILD_OPS="0")
import torch
import transformers

from references import lone_rank

PRODUCTS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Words(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        words = torch.arange(256) % 1000
        return {"input_ids": words, "labels": words.clone()}


def make_model(name, ways):
    if name == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4, n_embd=512, n_head=8, vocab_size=8192))
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            hidden_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1536, vocab_size=8192))
    if "narrow" in ways:
        model = model.to(torch.bfloat16)
    if "lora" in ways:
        from peft import LoraConfig, get_peft_model
        model.enable_input_require_grads()
        model = get_peft_model(model, LoraConfig(r=16, target_modules=PRODUCTS, task_type="CAUSAL_LM"))
    return model


def take_results_for_finite():
    """As nothing was computed."""
    from deepspeed.runtime.zero import stage3, stage_1_and_2
    for module in (stage_1_and_2, stage3):
        module.has_inf_or_nan = lambda values: values.new_zeros((), dtype=torch.bool)
        module.is_invalid_grad_norm = lambda _: False


def main():
    name, arguments, *ways = sys.argv[1:]
    arguments = json.loads(arguments)
    held = lone_rank.join(0, 1) if "deepspeed" in arguments else None
    if held:
        take_results_for_finite()
    else:
        for variable in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            del os.environ[variable]
    arguments = transformers.TrainingArguments(output_dir="trainer_out", max_steps=3, report_to=[], save_strategy="no", logging_strategy="no",
                                               dataloader_pin_memory=False, **arguments)
    transformers.Trainer(model=make_model(name, ways), args=arguments, train_dataset=Words(64), eval_dataset=Words(8)).train()


if __name__ == "__main__":
    main()
