"""Draws ranks that share the experts of every block."""

from draw_parts import draw_loop, draw_shape, maybe


def draw_expert_ranks(draw, draw_latent):
    """The shape is Mixtral's, Qwen 3's mixture's, or what `draw_latent` gives for DeepSeek. Half of Qwen's are not shared."""
    model = draw.choice(["mixtral-8x7b", "qwen3-30b-a3b", "qwen3-30b-a3b", "deepseek-v3"])
    if model == "deepseek-v3":
        _, keys = draw_latent(draw)
        keys = {key: value for key, value in keys.items() if key not in ("checkpoint", "clip", "accumulate", "zero_grad", "keep_batch")}
    else:
        _, keys = draw_shape(draw, "mixtral-8x7b")
        keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([33, 64, 100, 128, 255]), steps=3, kv_cache="none",
                    precision=draw.choice(["bf16_autocast", "bf16", "fp32"]), attention=draw.choice(["fused", "fused", "eager"]))
    if model == "qwen3-30b-a3b":
        keys.update(expert_count=draw.choice([8, 16, 32]), experts_per_token=draw.choice([1, 2, 4, 8]))
    keys["optimizer"] = "adamw_loop"
    maybe(draw, 0.4, keys, checkpoint="full")
    draw_loop(draw, keys, 0.3, ("accumulate", "keep_batch", "zero_grad"))
    if draw.random() < 0.25:
        keys.update(eval_every=1, eval_batches=2, eval_batch=draw.choice([1, 2, 4]))
    if model != "qwen3-30b-a3b" or draw.random() < 0.5:
        keys["ep"] = draw.choice([count for count in (2, 4, 8) if keys["expert_count"] % count == 0])
    return f"train:{model}", keys
