"""Draws training with several ways at once to save memory or to waste it: what draw_jobs.py's ways are one by one."""

from draw_parts import TRAINED, draw_loop, draw_shape

CAUSAL = "gpt2", "llama", "qwen2.5", "qwen3", "mixtral", "phi", "gemma"
LLAMA_LIKE = CAUSAL[1:]
PACKED = "gpt2", "llama", "qwen2.5", "qwen3", "mixtral"


def draw_checkpoints(draw, family, keys):
    """Which blocks are run again, and what they keep."""
    kinds = ["full", "full", "keep_products", "selective"] if family in CAUSAL else ["selective"] * (family == "bert")
    if not kinds or draw.random() < 0.4:
        return
    keys["checkpoint"] = kind = draw.choice(kinds)
    if kind != "selective":
        keys["kv_cache"] = "none"
    if kind == "full" and draw.random() < 0.3:
        keys.update(draw.choice([{"reentrant": 1}, {"checkpoint_every": 2}]))


def draw_texts(draw, family, keys):
    """What stands in a batch."""
    kind = draw.choice(["plain", "mask", "packed", "window"])
    if kind == "mask":
        keys["attention_mask"] = draw.choice(["ones", "padding"])
    elif kind == "packed" and family in PACKED:
        keys["packed"] = 1
    elif kind == "window" and family in LLAMA_LIKE and family != "mixtral":
        keys["window"] = draw.choice([16, 64, 200])
        if family in ("qwen2.5", "qwen3", "gemma"):
            keys["window_every"] = draw.choice([2, 3])


def draw_adapters(draw, family, keys):
    if family == "t5" or draw.random() < 0.7:
        return
    keys.update(lora=draw.choice([4, 8, 16]), precision=draw.choice(["bf16", "bf16_weights_autocast", "fp32"]))
    if family in ("llama", "qwen2.5", "qwen3", "phi"):
        keys["lora_targets"] = draw.choice(["qv", "attention", "mlp", "all"])
    if family in LLAMA_LIKE and family != "gemma" and draw.random() < 0.4:
        keys.update(lora_trains="embeddings", tied=0)
    if draw.random() < 0.3:
        keys["lora_dropout"] = 1


def draw_outcomes(draw, family, keys):
    """What the loop does beside training: evaluates, keeps what it made, saves, resumes, or none of these and cuts the loss."""
    kinds = [kind for kind in ("evaluate", "leak", "keep", "save", "resume") if draw.random() < 0.35]
    if "evaluate" in kinds and "/" not in str(keys["seq"]):
        keys.update(eval_every=draw.choice([1, 2]), eval_batches=draw.choice([1, 2, 3]), eval_batch=draw.choice([1, 2, 4]))
        if "autocast" in keys["precision"]:
            keys["eval_autocast"] = draw.choice(["batch", "loop"])
        if "leak" in kinds:
            keys.update(eval_grad=1, keep_eval_losses=draw.choice([0, 1]))
    if "keep" in kinds:
        keys.update(draw.choice([{"keep_losses": 1}, {"keep_losses": 1}, {"keep_outputs": 1}] if family != "t5" else [{"keep_losses": 1}]))
    if "save" in kinds:
        keys.update(save_every=draw.choice([1, 2]), save="plain" if keys["precision"] == "bf16" and "lora" not in keys else draw.choice(["plain", "cast"]))
    if "resume" in kinds:
        keys.update(resume=draw.choice(["host", "device"]), resume_at=draw.choice([1, 2]))
    if family in CAUSAL and "eval_every" not in keys and "keep_outputs" not in keys and draw.random() < 0.5:
        keys["loss_chunks"] = draw.choice([2, 3, 8])


def draw_mixed(draw):
    """Training with several ways at once to save memory or to waste it."""
    model = draw.choice(TRAINED)
    family, keys = draw_shape(draw, model)
    lengths = [64, 100, 128, 255, 256]
    keys.update(batch=draw.choice([1, 2, 4]), seq="/".join(str(draw.choice(lengths)) for _ in range(draw.choice([1, 1, 1, 3]))))
    if family == "t5":
        keys["target"] = draw.choice([16, 40, 64])
    keys.update(steps=3, precision=draw.choice(["bf16_autocast", "bf16_autocast", "bf16", "fp32", "fp16_autocast"]),
                optimizer=draw.choice(["adamw", "adamw_fused", "sgd", "sgd_momentum"]), attention=draw.choice(["fused", "fused", "eager"]))
    if family not in ("bert", "t5") and draw.random() < 0.4:
        keys["kv_cache"] = "none"
    draw_texts(draw, family, keys)
    draw_checkpoints(draw, family, keys)
    draw_adapters(draw, family, keys)
    draw_outcomes(draw, family, keys)
    # Sums of small_values.py's losses leave the range of fp16.
    if "loss_chunks" in keys and keys["precision"] == "fp16_autocast":
        keys["precision"] = "bf16_autocast"
    draw_loop(draw, keys, 0.25)
    return f"train:{model}", keys


def draw_wasteful(draw, draw_ranks):
    """One of several ranks, with what wastes memory: evaluations with graphs, kept losses and results, gradients that stay."""
    while True:
        generator, keys = draw_ranks(draw)
        if "rank" in keys and "seq" in keys:
            break
    family = generator.split(":")[1].split("-")[0]
    kinds = [kind for kind in ("evaluate", "graph", "losses", "results", "gradients", "mask") if draw.random() < 0.4] or ["losses"]
    if "evaluate" in kinds:
        keys.update(eval_every=draw.choice([1, 2]), eval_batches=draw.choice([1, 2, 3]), eval_batch=draw.choice([1, 2, 4]))
        if keys["precision"] == "bf16_autocast":
            keys["eval_autocast"] = draw.choice(["batch", "loop"])
        if "graph" in kinds and (keys.get("fsdp"), keys.get("gathered")) != (1, "bf16"):
            keys.update(eval_grad=1, keep_eval_losses=draw.choice([0, 1]))
    if "losses" in kinds:
        keys["keep_losses"] = 1
    if "results" in kinds and family != "t5":
        keys["keep_outputs"] = 1
    if "gradients" in kinds and "bucket_view" not in keys:
        keys["zero_grad"] = draw.choice(["zeros", "never"])
    if "mask" in kinds and family != "t5":
        keys["attention_mask"] = draw.choice(["ones", "padding"])
    return generator, keys
