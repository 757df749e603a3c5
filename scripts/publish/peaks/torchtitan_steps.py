"""Training steps of torchtitan's own Llama, as its table of 2024-12 ran them: what record_without_gpu.py records. Without a GPU nothing
is computed.

usage: torchtitan_steps.py --shards N [--batch 2] [--tokens 8192] [--flavor 8B] [--steps 3] [--compile] [--float8] [--checkpoint selective|full|none]

Needs pytorch/torchtitan @9dec370 on PYTHONPATH. Model, checkpoints, compiling and FSDP are torchtitan's, with what train_configs/ and the
table say; the loop is written out as in train.py. It is rank 0 of --shards. The texts are zeros. Attention is FlashAttention's, which
PyTorch chose on an H100 then; torchao converts for --float8.
"""
import argparse
import sys
from pathlib import Path

import torch

RECORD = Path(__file__).resolve().parents[2] / "record"
VOCABULARY = 128256


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--flavor", default="8B")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--float8", action="store_true")
    parser.add_argument("--checkpoint", choices=("selective", "full", "none"), default="selective")
    return parser.parse_args()


def make_model(asked):
    from torchtitan.config_manager import JobConfig
    from torchtitan.models import model_name_to_cls, models_config
    from torchtitan.parallelisms import ParallelDims, models_parallelize_fns
    job = JobConfig()
    words = ["--activation_checkpoint.mode", asked.checkpoint, "--activation_checkpoint.selective_ac_option", "op"]
    job.parse_args([*words, *(["--training.compile"] if asked.compile else [])])
    sides = ParallelDims(dp_shard=asked.shards, dp_replicate=1, cp=1, tp=1, pp=1, world_size=asked.shards, enable_loss_parallel=True)
    config = models_config["llama3"][asked.flavor]
    config.norm_type, config.vocab_size, config.max_seq_len = "rmsnorm", VOCABULARY, asked.tokens
    mesh = sides.build_mesh(device_type="cuda")
    with torch.device("meta"):
        model = model_name_to_cls["llama3"].from_model_args(config)
    if asked.float8:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
        convert_to_float8_training(model, config=Float8LinearConfig(enable_fsdp_float8_all_gather=True), module_filter_fn=lambda _, name: name != "output")
    models_parallelize_fns["llama3"](model, mesh, sides, job)
    model.to_empty(device="cuda")
    with torch.no_grad():
        model.init_weights(buffer_device=None)
    model.train()
    return model


def main():
    asked = parse()
    torch.backends.cuda.enable_cudnn_sdp(False)
    sys.path.append(str(RECORD))
    from references import lone_rank
    group = lone_rank.stand_in(0, asked.shards)  # noqa: F841 (lives as long as the script)
    model = make_model(asked)
    from torchtitan.utils import clip_grad_norm_
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
    losses = []
    for _ in range(asked.steps):
        tokens, labels = (torch.zeros((asked.batch, asked.tokens), dtype=torch.int64).to("cuda") for _ in range(2))
        optimizer.zero_grad()
        scores = model(tokens)
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), labels.flatten(0, 1))
        del scores
        loss.backward()
        clip_grad_norm_(list(model.parameters()), 1.0, foreach=True)
        optimizer.step()
        if asked.float8:
            from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp
            precompute_float8_dynamic_scale_for_fsdp(model)
        losses.append(loss)
    print(sum(one.item() for one in losses))


if __name__ == "__main__":
    main()
