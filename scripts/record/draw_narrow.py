"""Draws jobs whose products have fewer than sixteen bits, and jobs with Liger-Kernel's operators."""

from draw_parts import TRAINED, draw_answers, draw_loop, draw_shape, drawn_recipe, maybe


def draw_narrow_weights(draw, keys):
    """Weights of a model that answers, in groups of 128."""
    head = draw.choice([64, 128])
    heads = draw.choice([4, 6, 8])
    keys.update(heads=heads, head_size=head, hidden=head * heads, kv_heads=draw.choice([count for count in (2, 4, heads) if heads % count == 0]))
    keys.update(ffn=draw.choice([2, 3, 4]) * keys["hidden"], quantize=draw.choice(["int8", "int4"]), precision="bf16")


def draw_float8(draw, keys):
    """Training with products in float8."""
    head, heads = draw.choice([32, 64, 128]), draw.choice([2, 4, 8])
    keys.update(heads=heads, head_size=head, hidden=head * heads, kv_heads=draw.choice([count for count in (1, 2, 4) if heads % count == 0]),
                vocabulary=draw.choice([1000, 8192, 32000]))
    keys.update(ffn=draw.choice([2, 3, 4]) * keys["hidden"], products="fp8", precision="bf16", seq=draw.choice([64, 128, 256, 48]))


def draw_narrow(draw):
    """Weights of eight and four bits, products in float8, several lengths of T5's targets."""
    kind = draw.choice(["weights", "weights", "float8", "targets"])
    model = {"weights": draw.choice(["llama-3-8b", "qwen2.5-0.5b", "qwen3-0.6b"]), "float8": "llama-3-8b", "targets": "t5-small"}[kind]
    _, keys = draw_shape(draw, model)
    if kind == "weights":
        draw_answers(draw, keys)
        draw_narrow_weights(draw, keys)
        return f"infer:{model}", {**keys, "padding": draw.choice([0, 1])}
    keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([33, 64, 100, 128, 255]), steps=4, kv_cache="none",
                **drawn_recipe(draw))
    if kind == "float8":
        draw_float8(draw, keys)
        maybe(draw, 0.4, keys, checkpoint="full")
    else:
        keys["target"] = "/".join(str(draw.choice([16, 40, 64, 96])) for _ in range(draw.choice([2, 3])))
    draw_loop(draw, keys, 0.2, ("clip", "accumulate", "keep_batch"))
    return f"train:{model}", keys


def draw_liger(draw):
    """Liger-Kernel's operators; needs liger-kernel 0.8.5."""
    model = draw.choice(["llama-3-8b", "qwen2.5-0.5b"])
    _, keys = draw_shape(draw, model)
    keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([33, 64, 100, 128, 256]), steps=3, liger=draw.choice(["blocks", "all"]),
                optimizer=draw.choice(["adamw", "adamw_fused", "sgd_momentum"]), attention=draw.choice(["fused", "fused", "eager"]))
    keys["precision"] = draw.choice(["fp32", "bf16", *["bf16_autocast"] * (keys["liger"] == "blocks")])
    if draw.random() < 0.4:
        keys.update(checkpoint="full", kv_cache="none")
    elif draw.random() < 0.5:
        keys["kv_cache"] = "none"
    draw_loop(draw, keys, 0.2, ("clip", "accumulate", "keep_batch"))
    return f"train:{model}", keys


def draw_narrow_states(draw):
    """Training whose optimizer is bitsandbytes'; needs bitsandbytes 0.49.2."""
    model = draw.choice(TRAINED)
    family, keys = draw_shape(draw, model)
    keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([33, 64, 100, 128, 255]), steps=3, **drawn_recipe(draw))
    if family == "t5":
        keys["target"] = draw.choice([16, 40, 64])
    keys["optimizer"] = draw.choice(["adamw_8bit", "adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit"])
    if family not in ("bert", "t5") and draw.random() < 0.5:
        keys.update(kv_cache="none", **draw.choice([{}, {"checkpoint": "full"}]))
    if family != "t5" and draw.random() < 0.3:
        keys.update(lora=draw.choice([4, 16, 64]), precision=draw.choice(["bf16", "bf16_weights_autocast"]))
    if draw.random() < 0.2 and "lora" not in keys:
        keys.update(resume="host" if "paged" in keys["optimizer"] else draw.choice(["host", "device"]), resume_at=draw.choice([1, 2]))
    draw_loop(draw, keys, 0.2)
    return f"train:{model}", keys


def draw_four_bits(draw):
    """Weights in four bits as bitsandbytes keeps them, with adapters in training; needs bitsandbytes 0.49.2."""
    model = draw.choice(["llama-3-8b", "qwen2.5-0.5b", "qwen3-0.6b"])
    _, keys = draw_shape(draw, model)
    head, heads = draw.choice([64, 128]), draw.choice([2, 4, 6])
    keys.update(heads=heads, head_size=head, hidden=head * heads, kv_heads=draw.choice([count for count in (1, 2, heads) if heads % count == 0]))
    keys["ffn"] = draw.choice([2, 3]) * keys["hidden"]
    if draw.random() < 0.4:
        draw_answers(draw, keys)
        return f"infer:{model}", {**keys, "precision": "bf16", "padding": draw.choice([0, 1]), "quantize": "nf4"}
    keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([33, 64, 100, 128, 255]), steps=3, kv_cache="none", **drawn_recipe(draw))
    keys.update(precision=draw.choice(["bf16", "bf16_weights_autocast"]), lora=draw.choice([8, 16]),
                lora_targets=draw.choice(["qv", "attention", "mlp", "all"]), quantize="nf4")
    maybe(draw, 0.5, keys, checkpoint="full")
    maybe(draw, 0.3, keys, lora_dropout=1)
    if draw.random() < 0.3:
        keys.update(eval_every=1, eval_batches=2, eval_batch=draw.choice([1, 2, 4]))
    draw_loop(draw, keys, 0.2, ("clip", "accumulate", "keep_batch"))
    return f"train:{model}", keys
