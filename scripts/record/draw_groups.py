"""Draws ranks in groups: states shared by PyTorch's ZeroRedundancyOptimizer, replicas of shards, shared sequences, stages,
products cut by heads and columns."""

from draw_parts import draw_answers, draw_loop, draw_rank_shape, draw_shape, drawn_recipe, maybe


def draw_group_keys(draw, family, keys):
    """Which groups there are."""
    can_share = family in ("gpt2", "llama", "qwen2.5", "qwen3", "mixtral")
    way = draw.choice(["zero", "replicate", "replicate", *["sequences", "sequences"] * can_share])
    if way == "zero":
        ranks = draw.choice([2, 3, 4])
        keys.update(dp=ranks, rank=draw.randrange(ranks), zero=1, sharder="torch")
        if draw.random() < 0.3:
            keys["bucket_view"] = 1
        return
    if way == "replicate":
        ranks = draw.choice([4, 6, 8])
        keys.update(dp=ranks, rank=draw.randrange(ranks), replicate=draw.choice([2, ranks // 2]), fsdp=draw.choice([1, 2]))
        keys["initialize"] = draw.choice(["deferred", "whole"]) if keys["fsdp"] == 2 else "whole"
    else:
        keys.update(cp=draw.choice([2, 2, 4]), dp=draw.choice([1, 1, 2]), rotate=draw.choice(["allgather", "alltoall"]), attention="fused",
                    initialize=draw.choice(["deferred", "whole"]))
        keys["rank"] = draw.randrange(keys["cp"] * keys["dp"])
        keys["seq"] = draw.choice([256, 512, 768] if keys["precision"] == "fp32" else [64, 128, 256, 512, 320, 1000])
        if family == "gpt2":
            keys["attention_mask"] = "ones"
        if keys["precision"] == "fp32" and "kv_heads" in keys:
            keys["kv_heads"] = keys["heads"]
    if keys["precision"] == "fp32":
        keys["gathered"] = draw.choice(["same", "bf16", "bf16"])
    if draw.random() < 0.2:
        keys["reshard"] = 0


def draw_stage_keys(draw, keys):
    """Stages of a pipeline, some with other numbers of blocks."""
    stages = draw.choice([2, 2, 3, 4])
    counts = [draw.choice([1, 1, 2, 3]) for _ in range(stages)]
    keys.update(layers=sum(counts), tied=0, pp=stages, rank=draw.randrange(stages))
    if draw.random() < 0.3:
        chunks = draw.choice([2, 2, 3])
        keys.update(layers=stages * chunks * draw.choice([1, 2]), virtual=chunks, micro_batches=stages * draw.choice([1, 2, 3]))
    else:
        keys["stage_layers"] = "/".join(map(str, counts))
    if "virtual" not in keys and draw.random() < 0.6:
        keys["micro_batches"] = stages + draw.choice([1, 2, 4])
    if draw.random() < 0.4:
        keys["return_outputs"] = 0


def cut_by_ranks(draw, keys):
    """Heads, columns and words are shared by ranks."""
    ranks = draw.choice([2, 2, 4])
    keys["heads"] = ranks * draw.choice([1, 2, 3])
    keys["kv_heads"] = draw.choice([count for count in (ranks, 2 * ranks) if keys["heads"] % count == 0])
    keys["hidden"] = keys["heads"] * keys["head_size"]
    keys.update(ffn=draw.choice([2, 3, 4]) * keys["hidden"], vocabulary=draw.choice([1000, 8192, 32000, 50256]), tp=ranks)


def draw_groups(draw):
    """Ranks in groups: states shared by ZeroRedundancyOptimizer, replicas of shards, shared sequences."""
    model, family, keys = draw_rank_shape(draw)
    keys.update(steps=3, **drawn_recipe(draw))
    if family != "bert":
        keys["kv_cache"] = "none"
    draw_group_keys(draw, family, keys)
    if family not in ("bert", "t5") and draw.random() < 0.4:
        keys["checkpoint"] = "full"
    draw_loop(draw, keys, 0.2, ("clip", "accumulate"))
    return f"train:{model}", keys


def draw_stages(draw):
    """A stage of a pipeline of ranks."""
    model = draw.choice(["llama-3-8b", "qwen2.5-0.5b", "qwen3-0.6b"])
    _, keys = draw_shape(draw, model)
    keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([33, 64, 100, 128, 256]), steps=3, kv_cache="none",
                **drawn_recipe(draw))
    draw_stage_keys(draw, keys)
    maybe(draw, 0.4, keys, checkpoint="full")
    maybe(draw, 0.3, keys, clip=1)
    return f"train:{model}", keys


def draw_cut(draw):
    """Ranks that share every product."""
    trains = draw.random() < 0.5
    model = draw.choice(["llama-3-8b", "qwen2.5-0.5b", "qwen3-0.6b", *["mixtral-8x7b"] * (not trains)])
    _, keys = draw_shape(draw, model)
    cut_by_ranks(draw, keys)
    if not trains:
        draw_answers(draw, keys)
        return f"infer:{model}", {**keys, "padding": draw.choice([0, 1])}
    keys.update(tied=0, rank=draw.randrange(keys["tp"]), batch=draw.choice([1, 2, 4]), seq=draw.choice([33, 64, 100, 128, 256]), steps=3, kv_cache="none",
                precision=draw.choice(["fp32", "bf16", "bf16_autocast"]), optimizer="adamw_loop", attention=draw.choice(["fused", "fused", "eager"]))
    maybe(draw, 0.4, keys, checkpoint="full")
    draw_loop(draw, keys, 0.2, ("accumulate", "keep_batch"))
    return f"train:{model}", keys


def draw_tokens(draw):
    """Ranks that share every product, and between products the tokens."""
    _, keys = draw_shape(draw, "llama-3-8b")
    cut_by_ranks(draw, keys)
    keys.update(tied=0, sp=1, rank=draw.randrange(keys["tp"]), batch=draw.choice([1, 2, 4]), seq=draw.choice([32, 64, 100, 128, 256]), steps=3,
                kv_cache="none", precision=draw.choice(["fp32", "bf16", "bf16_autocast"]), optimizer="adamw_loop",
                attention="fused")
    maybe(draw, 0.4, keys, checkpoint="full")
    draw_loop(draw, keys, 0.2, ("accumulate", "keep_batch"))
    return "train:llama-3-8b", keys


def draw_grids(draw, draw_expert_ranks):
    """Ranks that share every product or the experts along one side, and data along the other."""
    way = draw.choice(["cut", "tokens", "experts", "stages"])
    if way == "stages":
        return draw_stage_grid(draw)
    if way == "experts":
        generator, keys = draw_expert_ranks(draw)
        keys.setdefault("ep", 2)
    else:
        generator = ""
        while not generator.startswith("train"):
            generator, keys = (draw_cut if way == "cut" else draw_tokens)(draw)
    ranks = draw.choice([2, 2, 3, 4])
    keys.update(dp=ranks, rank=draw.randrange(ranks * keys.get("tp", keys.get("ep"))))
    if way != "experts" and draw.random() < 0.4:
        keys["optimizer"] = draw.choice(["adamw", "adamw_fused", "sgd_momentum"])  # parameters are no DTensors
        maybe(draw, 0.2, keys, zero=1, sharder="torch")
        maybe(draw, 0.2, keys, bucket_view=1)
        maybe(draw, 0.3, keys, clip=1)
        return generator, keys
    keys.update(fsdp=2, initialize=draw.choice(["deferred", "whole"]))
    if "deepseek" not in generator:
        keys["tied"] = draw.choice([0, 1])
    if keys["precision"] == "fp32":
        keys["gathered"] = draw.choice(["same", "bf16"])
    maybe(draw, 0.2, keys, reshard=0)
    maybe(draw, 0.3 if way == "tokens" else 0, keys, clip=1)
    maybe(draw, 0.2 if ranks == 4 else 0, keys, replicate=2)
    return generator, keys


def draw_stage_grid(draw):
    """Stages whose ranks share data, products or both."""
    generator, keys = draw_stages(draw)
    sides = draw.choice([("dp",), ("dp",), ("tp",), ("tp", "dp")])
    if "tp" in sides:
        cut_by_ranks(draw, keys)
        keys["optimizer"] = "adamw_loop" if sides == ("tp",) else keys["optimizer"]
        keys.pop("clip", None)
    if "dp" in sides:
        keys["dp"] = draw.choice([2, 3])
    keys["rank"] = draw.randrange(keys["pp"] * keys.get("tp", 1) * keys.get("dp", 1))
    return generator, keys
