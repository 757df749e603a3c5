"""Draws jobs of the width, vocabulary and length that models in use have. They have fewer blocks, so that several fit into a card."""

# A generator's preset, the most blocks, and its widths.
MODELS = (
    ("gpt2-124m", 12, {"hidden": 768, "heads": 12, "ffn": 3072, "vocabulary": 50257}),
    ("gpt2-124m", 24, {"hidden": 1280, "heads": 20, "ffn": 5120, "vocabulary": 50257}),
    ("gpt2-124m", 16, {"hidden": 1600, "heads": 25, "ffn": 6400, "vocabulary": 50257}),
    ("bert-base", 12, {"hidden": 768, "heads": 12, "ffn": 3072, "vocabulary": 30522}),
    ("bert-base", 24, {"hidden": 1024, "heads": 16, "ffn": 4096, "vocabulary": 30522}),
    ("t5-small", 12, {"hidden": 768, "heads": 12, "ffn": 3072, "vocabulary": 32128}),
    ("t5-small", 16, {"hidden": 1024, "heads": 16, "ffn": 4096, "vocabulary": 32128}),
    ("llama-3-8b", 12, {"hidden": 2048, "heads": 32, "ffn": 8192, "kv_heads": 8, "head_size": 64, "tied": 1, "vocabulary": 128256}),
    ("llama-3-8b", 3, {"hidden": 4096, "heads": 32, "ffn": 14336, "kv_heads": 8, "head_size": 128, "tied": 0, "vocabulary": 128256}),
    ("llama-3-8b", 14, {"hidden": 2048, "heads": 32, "ffn": 5632, "kv_heads": 4, "head_size": 64, "tied": 0, "vocabulary": 32000}),
    ("llama-3-8b", 4, {"hidden": 4096, "heads": 32, "ffn": 11008, "kv_heads": 32, "head_size": 128, "tied": 0, "vocabulary": 32000}),
    ("qwen2.5-0.5b", 24, {"hidden": 896, "heads": 14, "ffn": 4864, "kv_heads": 2, "head_size": 64, "tied": 1, "vocabulary": 151936}),
    ("qwen2.5-0.5b", 12, {"hidden": 1536, "heads": 12, "ffn": 8960, "kv_heads": 2, "head_size": 128, "tied": 1, "vocabulary": 151936}),
    ("qwen2.5-0.5b", 3, {"hidden": 3584, "heads": 28, "ffn": 18944, "kv_heads": 4, "head_size": 128, "tied": 0, "vocabulary": 152064}),
    ("qwen3-0.6b", 20, {"hidden": 1024, "heads": 16, "ffn": 3072, "kv_heads": 8, "head_size": 128, "tied": 1, "vocabulary": 151936}),
    ("qwen3-0.6b", 8, {"hidden": 2560, "heads": 32, "ffn": 9728, "kv_heads": 8, "head_size": 128, "tied": 1, "vocabulary": 151936}),
    ("phi-4", 6, {"hidden": 3072, "heads": 24, "ffn": 8192, "kv_heads": 8, "head_size": 128, "tied": 1, "vocabulary": 200064}),
    ("phi-4", 8, {"hidden": 3072, "heads": 32, "ffn": 8192, "kv_heads": 32, "head_size": 96, "tied": 0, "vocabulary": 32064}),
    ("gemma-3-1b", 18, {"hidden": 1152, "heads": 4, "ffn": 6912, "kv_heads": 1, "head_size": 256, "tied": 1, "vocabulary": 262144}),
    ("mixtral-8x7b", 1, {"hidden": 4096, "heads": 32, "ffn": 14336, "kv_heads": 8, "head_size": 128, "tied": 0, "expert_count": 8,
                         "experts_per_token": 2, "vocabulary": 32000}),
    ("mixtral-8x7b", 3, {"hidden": 2048, "heads": 16, "ffn": 1408, "kv_heads": 16, "head_size": 128, "tied": 0, "expert_count": 60,
                         "experts_per_token": 4, "vocabulary": 151936}),
)
LONGEST = {"gpt2": 1024, "bert": 512, "t5": 512}
LENGTHS = 256, 400, 512, 777, 1024, 2048, 3000, 4096
MOST_SCORES, MOST_LOGITS = 1 << 31, 1 << 30  # elements at once: what eager attention and the head would make


def draw_lengths(draw, family, keys):
    """Sequences and their length. Scores and logits stay such that a card holds the job."""
    while True:
        batch, length = draw.choice([1, 1, 2, 3, 4, 8, 16, 32]), draw.choice(LENGTHS)
        tokens, scores = batch * length, batch * keys["heads"] * length * length
        if length <= LONGEST.get(family, 4096) and 1000 <= tokens <= 16384 and tokens * keys["vocabulary"] <= MOST_LOGITS \
                and (keys["attention"] == "fused" or scores * keys["layers"] <= MOST_SCORES):
            return batch, length


def draw_sized_training(draw, family, keys):
    keys["attention"] = draw.choice(["fused", "fused", "fused", "eager"])
    keys["batch"], keys["seq"] = draw_lengths(draw, family, keys)
    if family == "t5":
        keys["target"] = draw.choice([64, 128, 200])
    keys.update(steps=3, precision=draw.choice(["bf16_autocast", "bf16_autocast", "bf16", "bf16", "fp32", "fp16_autocast"]),
                optimizer=draw.choice(["adamw", "adamw_fused", "sgd_momentum"]))
    if family not in ("bert", "t5") and draw.random() < 0.5:
        keys.update(checkpoint="full", kv_cache="none")
    for key, share, values in (("clip", 0.4, [1]), ("accumulate", 0.3, [2, 4])):
        if draw.random() < share:
            keys[key] = draw.choice(values)
    way = draw.choice(["plain", "adapters", "evaluation", "mask", "ranks"])
    if way == "adapters" and family not in ("t5", "gemma") and keys["precision"] != "fp16_autocast":
        keys["lora"] = draw.choice([8, 16, 64])
        if family in ("llama", "qwen2.5", "qwen3", "phi"):
            keys["lora_targets"] = draw.choice(["qv", "attention", "mlp", "all"])
    elif way == "evaluation":
        keys.update(eval_every=1, eval_batches=2, eval_batch=draw.choice([keys["batch"], 2 * keys["batch"]]))
    elif way == "mask" and family != "t5":
        keys["attention_mask"] = draw.choice(["ones", "padding"])
    elif way == "ranks" and keys["precision"] != "fp16_autocast":
        ranks = draw.choice([2, 8])
        keys.update(dp=ranks, rank=draw.randrange(ranks))
        if family not in ("bert", "t5"):
            keys["kv_cache"] = "none"
        if draw.random() < 0.6:
            keys.update(fsdp=2, initialize="deferred")


def draw_sized_answers(draw, family, keys):
    keys["attention"] = draw.choice(["fused", "fused", "fused", "eager"])
    shapes = [draw_lengths(draw, family, keys) for _ in range(draw.choice([1, 2, 3]))]
    keys.update(requests=sum(batch for batch, _ in shapes), batch=max(batch for batch, _ in shapes))
    keys.update(batches="/".join(str(batch) for batch, _ in shapes), precision=draw.choice(["bf16", "bf16", "fp32"]))
    keys.update(seq="/".join(str(length if family != "gpt2" else length - 64) for _, length in shapes),
                answers="/".join(str(draw.choice([1, 20, 60])) for _ in shapes))
    if family != "t5":
        keys["padding"] = draw.choice([0, 1])


def draw_sized(draw):
    """Models of the width, vocabulary and length of those in use, with fewer blocks."""
    while True:
        model, most, widths = draw.choice(MODELS)
        family = model.split("-")[0]
        keys = {"layers": draw.randint(1, most) if family != "gemma" else draw.randint(7, most), **widths}
        if draw.random() < 0.75:
            draw_sized_training(draw, family, keys)
            return f"train:{model}", keys
        if family not in ("bert", "gemma"):
            draw_sized_answers(draw, family, keys)
            return f"infer:{model}", keys


def widened(draw, family, keys):
    """The keys of a job of that family with the width and the lengths of a model in use; None where its ranks cannot share them."""
    models = [widths for model, _, widths in MODELS if model.split("-")[0] == family]
    keys = {**keys, **draw.choice(models)}
    if "pp" in keys or ("tp" in keys and "steps" in keys):
        keys["tied"] = 0
    ranks = keys.get("tp", 1)
    if any(keys[key] % ranks for key in ("heads", "kv_heads", "vocabulary") if key in keys):
        return None
    if "batches" in keys:
        keys["seq"] = "/".join(str(draw.choice([256, 512, 1024, 2000])) for _ in keys["batches"].split("/"))
        return keys
    keys["batch"], length = draw_lengths(draw, family, keys)
    is_wide, grouped = keys["precision"] == "fp32", keys.get("kv_heads", keys["heads"]) != keys["heads"]
    if "cp" in keys and is_wide and grouped:
        return None
    keys["seq"] = max(512, length // 512 * 512) if "cp" in keys or "products" in keys else length
    return keys
