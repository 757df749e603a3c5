"""LitGPT's own scripts, as its table of resources ran them: what record_without_gpu.py records. Without a GPU nothing is computed.

usage: litgpt_steps.py {lora,adapter,adapter_v2} MODEL --tokens N --batch N [--quantize KIND] [--devices N]
       litgpt_steps.py generate MODEL [--quantize KIND]

Needs Lightning-AI/litgpt @0cc02afa and Lightning 2.1.0 on PYTHONPATH. Weights, texts, tokenizer and evaluation are left out. The first
batch has the longest text, by the script's own rule. With several devices it is rank 0 of them, and a second batch of that length finds
the gradients of the first.
"""
import argparse
import importlib
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch

RECORD = Path(__file__).resolve().parents[2] / "record"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", choices=("lora", "adapter", "adapter_v2", "generate"))
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--quantize")
    parser.add_argument("--devices", type=int, default=1)
    return parser.parse_args()


def without(script, *names):
    """Patches of what needs files."""
    return [mock.patch.object(script, name, lambda *_, **__: None) for name in names]


def finetune(asked, folder):
    """Its training, whose optimizer waits for 128 texts."""
    script = importlib.import_module(f"finetune.{asked.script}")
    text = {"input_ids": torch.zeros(asked.tokens, dtype=torch.int64), "labels": torch.zeros(asked.tokens, dtype=torch.int64)}
    for name in ("train.pt", "test.pt"):
        torch.save([text], folder / name)
    script.devices, script.micro_batch_size, script.max_iters = asked.devices, asked.batch, min(asked.devices, 2)
    script.gradient_accumulation_iters = 128 // asked.batch
    patches = without(script, "check_valid_checkpoint_dir", "validate", f"save_{asked.script}_checkpoint", "Tokenizer")
    patches.append(mock.patch.object(script, "SpeedMonitor", lambda *_, **__: mock.Mock()))
    patches += [mock.patch.object(script, name, lambda *_: 0.0) for name in ("measure_flops", "estimate_flops")]
    if hasattr(script, "load_checkpoint"):
        patches += without(script, "load_checkpoint")
    else:
        patches += [mock.patch.object(script, "lazy_load", lambda _: {}), mock.patch.object(script.GPT, "load_state_dict", lambda *_, **__: None)]
    options = {"quantize": asked.quantize} if asked.quantize else {}
    run(patches, lambda: script.setup(data_dir=folder, checkpoint_dir=folder / asked.model, out_dir=folder / "out", precision="bf16-true", **options))


def generate(asked, folder):
    """Its default prompt and 50 tokens."""
    script = importlib.import_module("generate.base")
    from lit_gpt import Config
    words = SimpleNamespace(encode=lambda *_, **__: torch.zeros(6, dtype=torch.int32, device="cuda"), decode=lambda _: "", eos_id=0)
    patches = without(script, "check_valid_checkpoint_dir", "load_checkpoint")
    patches.append(mock.patch.object(script, "Tokenizer", lambda _: words))
    patches.append(mock.patch.object(script.Config, "from_json", lambda _: Config.from_name(asked.model)))
    run(patches, lambda: script.main("Hello, my name is", checkpoint_dir=folder, quantize=asked.quantize, precision="bf16-true"))


def run(patches, call):
    torch.set_float32_matmul_precision("high")
    for patch in patches:
        patch.start()
    try:
        call()
    finally:
        mock.patch.stopall()


def main():
    asked = parse()
    if asked.devices > 1:
        sys.path.append(str(RECORD))
        from references import lone_rank
        group = lone_rank.stand_in(0, asked.devices)  # noqa: F841 (lives as long as the script)
    with tempfile.TemporaryDirectory() as folder:
        (generate if asked.script == "generate" else finetune)(asked, Path(folder))


if __name__ == "__main__":
    main()
