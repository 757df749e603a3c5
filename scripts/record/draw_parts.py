"""What draws of several kinds have in common: shapes of models, loops, batches of prompts."""

LLAMA_LIKE = "llama-3-8b", "qwen2.5-0.5b", "qwen3-0.6b", "mixtral-8x7b", "phi-4"
TRAINED = ("gpt2-124m", "bert-base", "t5-small", "gemma-3-1b", *LLAMA_LIKE)
GENERATING = ("gpt2-124m", "t5-small", *LLAMA_LIKE)


def draw_shape(draw, model):
    family = model.split("-")[0]
    head = 64 if family == "t5" else draw.choice([32, 64, 64, 128])
    heads = draw.choice([2, 4, 6, 8])
    keys = {"layers": draw.choice([6, 7]) if family == "gemma" else draw.randint(2, 4), "hidden": head * heads, "heads": heads}
    keys["ffn"] = draw.choice([2, 3, 4]) * keys["hidden"]
    if family not in ("gpt2", "bert", "t5"):
        keys["kv_heads"] = draw.choice([count for count in (1, 2, 3, 4, 6, 8) if heads % count == 0])
        keys["head_size"] = head
        keys["tied"] = draw.choice([0, 1])
    if family == "mixtral":
        keys.update(expert_count=draw.choice([4, 8]), experts_per_token=draw.choice([1, 2]))
    keys["vocabulary"] = draw.choice([1000, 5003, 8192, 32000, 50257])
    return family, keys


def draw_rank_shape(draw):
    """A model that ranks train, with its lengths."""
    model = draw.choice(TRAINED)
    family, keys = draw_shape(draw, model)
    keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([64, 100, 128, 255, 256]))
    if family == "t5":
        keys["target"] = draw.choice([16, 40, 64])
    return model, family, keys


def drawn_recipe(draw):
    return {"precision": draw.choice(["fp32", "bf16", "bf16_autocast"]), "optimizer": draw.choice(["adamw", "adamw_fused", "sgd_momentum"]),
            "attention": draw.choice(["fused", "fused", "eager"])}


def maybe(draw, share, keys, **more):
    keys.update(more if draw.random() < share else {})


# What the training loop may do besides.
LOOP = {"clip": [1], "accumulate": [2, 3], "zero_grad": ["before_backward", "zeros", "never"], "keep_batch": [0]}


def draw_loop(draw, keys, share, names=tuple(LOOP), without=()):
    for name in names:
        if draw.random() < share and name not in without:
            keys[name] = draw.choice(LOOP[name])


def draw_answers(draw, keys):
    """Batches, prompts and answers of one job."""
    batches = [draw.choice([1, 2, 3, 4, 8]) for _ in range(draw.choice([1, 2, 3]))]
    keys.update(requests=sum(batches), batch=max(batches), batches="/".join(map(str, batches)),
                seq="/".join(str(draw.choice([17, 33, 64, 100, 128, 255])) for _ in batches),
                answers="/".join(str(draw.choice([1, 3, 8, 20])) for _ in batches),
                precision=draw.choice(["bf16", "bf16", "fp32"]), attention=draw.choice(["fused", "eager"]))
