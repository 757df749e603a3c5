"""Training steps of Llama-3.2-3B with an adapter, as PEFT's method comparison runs them: what record_without_gpu.py records.

usage: peft_steps.py EXPERIMENT [--tokens 704] [--steps 3]

EXPERIMENT is a name of peft_experiments.json, which holds what huggingface/peft keeps for it in method_comparison/MetaMathQA/experiments.
Batch 4, weights in bf16 and adapters in four bytes, AdamW, gradients clipped, one evaluation of the same size beforehand. The weights
are random: they are made on the device, where nothing is computed. What depends on the texts, their lengths, is --tokens.
"""
import argparse
import json
from pathlib import Path

import torch
import transformers

LLAMA = {"vocab_size": 128256, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24,
         "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True, "rms_norm_eps": 1e-5, "bos_token_id": 128000,
         "eos_token_id": 128001, "max_position_embeddings": 131072,
         "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                             "original_max_position_embeddings": 8192}}


def make_model(experiment):
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA, dtype="bfloat16"))
        torch.set_default_dtype(torch.float32)
    return add_adapter(model, experiment)


def add_adapter(model, experiment):
    if experiment["adapter"] is None:
        return model
    import peft
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING
    options = {key: value for key, value in experiment["adapter"].items() if value is not None and key != "base_model_name_or_path"}
    config_class = PEFT_TYPE_TO_CONFIG_MAPPING[peft.PeftType(options.pop("peft_type"))]
    known = config_class.__dataclass_fields__
    config = config_class(**{key: value for key, value in options.items() if key in known})
    if isinstance(config, peft.AdaLoraConfig):
        config.total_step = 5000
    return peft.get_peft_model(model, config, autocast_adapter_dtype=experiment["training"].get("autocast_adapter_dtype", True))


def make_optimizer(model, training):
    kind = training.get("optimizer_type", "AdamW")
    options = training.get("optimizer_kwargs", {"lr": 1e-4, "weight_decay": 0.1})
    if kind == "lora-fa":
        from peft.optimizers import create_lorafa_optimizer
        return create_lorafa_optimizer(model, **options)
    if kind == "lora+":
        from peft.optimizers import create_loraplus_optimizer
        return create_loraplus_optimizer(model, optimizer_cls=torch.optim.AdamW, **options)
    return getattr(torch.optim, kind)(model.parameters(), **options)


def batch_of(shape):
    tokens = torch.zeros(shape, dtype=torch.int64).to("cuda")
    return {"input_ids": tokens, "attention_mask": torch.zeros(shape, dtype=torch.int64).to("cuda"), "labels": tokens.clone()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("--tokens", type=int, default=704)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()
    experiments = json.loads((Path(__file__).parent / "peft_experiments.json").read_text())
    experiment = experiments[asked.experiment]
    model = make_model(experiment)
    optimizer = make_optimizer(model, experiment["training"])
    model.train()
    shape = (asked.batch, asked.tokens)
    for step in range(asked.steps):
        batch = batch_of(shape)
        counted = batch["attention_mask"].sum().item()
        optimizer.zero_grad()
        outputs = model(**batch, num_items_in_batch=counted)
        loss = outputs.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (experiment["adapter"] or {}).get("peft_type") == "ADALORA":
            model.base_model.update_and_allocate(step + 1)
        loss.item()


if __name__ == "__main__":
    main()
