"""Draws ranks that train with DeepSpeed."""

from draw_parts import draw_loop, draw_rank_shape, drawn_recipe, maybe


def draw_deepspeed(draw):
    """Ranks that share states or gradients as DeepSpeed's ZeRO does."""
    model, family, keys = draw_rank_shape(draw)
    ranks = draw.choice([2, 3, 4, 8])
    keys.update(steps=3, **drawn_recipe(draw))
    keys.update(precision=draw.choice(["bf16", "bf16", "fp32"]), dp=ranks, rank=draw.randrange(ranks), zero=draw.choice([1, 2]),
                reduce_elements=draw.choice([100_000, 500_000, 1_000_000, 4_000_000, 500_000_000]))
    if family != "bert":
        keys["kv_cache"] = "none"
    if family not in ("bert", "t5"):
        maybe(draw, 0.3, keys, checkpoint="full")
    if family not in ("t5", "phi", "gemma"):
        maybe(draw, 0.15, keys, lora=draw.choice([4, 8]))
    draw_loop(draw, keys, 0.2, ("accumulate", "keep_batch", "clip"))
    if "accumulate" not in keys and "clip" not in keys:
        maybe(draw, 0.2, keys, offload="states")
    return f"train:{model}", keys


def draw_shards(draw):
    """Ranks that share the model as ZeRO's third stage does, made as a whole first. Not BERT's head, T5's blocks and adapters, whose modules
    are taken in another order, nor experts, which are taken in no order."""
    generator = ":bert"
    while generator.split(":")[1].split("-")[0] in ("bert", "t5", "mixtral"):
        generator, keys = draw_deepspeed(draw)
    keys.pop("lora", None)
    return generator, {**keys, "zero": 3, "initialize": "whole"}


def draw_configured(draw):
    """The same with a config of one's own: the numbers that the Trainer fills in, others, streams, or one rank alone."""
    generator, keys = draw.choice([draw_deepspeed, draw_shards])(draw)
    keys.pop("reduce_elements")
    maybe(draw, 0.4, keys, zero_presets="trainer")
    maybe(draw, 0.3, keys, reduce_elements=draw.choice([100_000, 1_000_000, 20_000_000]))
    maybe(draw, 0.4, keys, overlap=0 if keys["zero"] == 3 else 1)
    maybe(draw, 0.3, keys, dp=1, rank=0)
    maybe(draw, 0.2, keys, offload="states", clip=draw.choice([0, 1]))
    if keys["zero"] == 3:
        for key, least, most in (("prefetch_elements", 0, 7), ("persistent_elements", 0, 7), ("live_elements", 4, 8), ("reuse_elements", 0, 8),
                                 ("group_elements", 4, 8)):
            maybe(draw, 0.3, keys, **{key: round(10 ** draw.uniform(least, most))})
        if keys.get("offload") and "reuse_elements" not in keys:
            keys["offload"] = draw.choice(["states", "parameters"])
    return generator, keys
