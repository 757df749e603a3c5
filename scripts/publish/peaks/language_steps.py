"""Training steps of a language model, as published tables ran them: what record_without_gpu.py records. Without a GPU nothing is computed.

usage: language_steps.py MODEL --batch N --tokens N [--steps 3]

As itu-rad/CARMA's workloads do: fp32, AdamW, texts padded to the longest, a mask of them, and one forward beforehand that keeps nothing.
"""
import argparse

import torch
import transformers

GPT2_LARGE = {"n_embd": 1280, "n_layer": 36, "n_head": 20}
GPT2_XL = {"n_embd": 1600, "n_layer": 48, "n_head": 25}
BERT_CASED = {"vocab_size": 28996}
BERT_LARGE = {**BERT_CASED, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
XLNET_BASE = {"d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072}
MODELS = {
    "bert-base": ("BertConfig", "BertForMaskedLM", BERT_CASED),
    "bert-large": ("BertConfig", "BertForMaskedLM", BERT_LARGE),
    "gpt2-large": ("GPT2Config", "GPT2LMHeadModel", GPT2_LARGE),
    "gpt2-xl": ("GPT2Config", "GPT2LMHeadModel", GPT2_XL),
    "xlnet-base": ("XLNetConfig", "XLNetForSequenceClassification", XLNET_BASE),
    "xlnet-large": ("XLNetConfig", "XLNetForSequenceClassification", {}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()
    config_name, class_name, sizes = MODELS[asked.model]
    model = getattr(transformers, class_name)(getattr(transformers, config_name)(**sizes)).to("cuda")
    model.train()
    shape = (asked.batch, asked.tokens)
    model(torch.zeros(shape, dtype=torch.int64).to("cuda"))
    is_classifier = class_name.endswith("SequenceClassification")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(asked.steps):
        tokens = torch.zeros(shape, dtype=torch.int64).to("cuda")
        mask = torch.zeros(shape, dtype=torch.int64).to("cuda")
        labels = torch.zeros(shape[:1] if is_classifier else shape, dtype=torch.int64).to("cuda")
        outputs = model(input_ids=tokens, attention_mask=mask, labels=labels)
        loss = outputs.loss
        if is_classifier:  # the Trainer clips, and holds on to the loss alone
            del outputs
        loss.backward()
        if is_classifier:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()


if __name__ == "__main__":
    main()
