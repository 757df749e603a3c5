#!/usr/bin/env python3
"""One step of small checkpointed models of transformers, with a memory history as its manual begins one. On a card, or on simcuda:
simcuda-run --kernels nothing python checkpointed_models.py"""

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

MODELS = {
    "GPT-2, with dropout (its preset)": (GPT2LMHeadModel, GPT2Config(n_layer=2, n_embd=128, n_head=4)),
    "GPT-2, without dropout": (GPT2LMHeadModel, GPT2Config(n_layer=2, n_embd=128, n_head=4, resid_pdrop=0, attn_pdrop=0, embd_pdrop=0)),
    "Llama": (LlamaForCausalLM, LlamaConfig(num_hidden_layers=2, hidden_size=128, intermediate_size=256, num_attention_heads=4, vocab_size=1000)),
}


def step(make, config):
    """'ok', or the error."""
    model = make(config).cuda().train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    words = torch.randint(0, 1000, (2, 64), device="cuda")
    loss = model(input_ids=words, labels=words).loss
    try:
        loss.backward()
    except SystemError as error:
        return str(error)
    return "ok"


torch.cuda.memory._record_memory_history(max_entries=100000)
print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.cuda.get_device_name()}")
for name, (make, config) in MODELS.items():
    print(f"{name}: {step(make, config)}")
