#!/usr/bin/env python3
"""A small Llama that transformers' Trainer trains with a config of DeepSpeed, on one GPU or, recorded, on none:

    PYTHONPATH=scripts/record scripts/record/record_without_gpu.py --simcuda build/release/lib/simcuda --out trainer.csv.gz \
        results/published/2026-12-01-h200-deepspeed-settings/trainer.py ds_config.json [lora]

Needs PyTorch, transformers, accelerate, DeepSpeed, peft. The process group is that of one rank, without NCCL.
"""
import os
import sys

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", DS_BUILD_OPS="0")
import torch

from references import lone_rank

HELD = lone_rank.join(0, 1)
from deepspeed.runtime.zero import stage3, stage_1_and_2  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments  # noqa: E402

for module in (stage_1_and_2, stage3):  # what nobody computed is finite
    module.has_inf_or_nan = lambda values: values.new_zeros((), dtype=torch.bool)
    module.is_invalid_grad_norm = lambda _: False


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        words = torch.arange(256) % 1000
        return {"input_ids": words, "labels": words.clone()}


def main():
    arguments = TrainingArguments(output_dir="trainer_out", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=3, bf16=True,
                                  gradient_checkpointing=True, deepspeed=sys.argv[1], report_to=[], save_strategy="no", logging_strategy="no",
                                  dataloader_pin_memory=False)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1536,
                                         vocab_size=8192, use_cache=False))
    if sys.argv[2:] == ["lora"]:
        from peft import LoraConfig, get_peft_model
        model.enable_input_require_grads()
        products = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        model = get_peft_model(model, LoraConfig(r=16, target_modules=products, task_type="CAUSAL_LM"))
    Trainer(model=model, args=arguments, train_dataset=Words()).train()


if __name__ == "__main__":
    main()
