"""Draws answers with a draft model."""

from draw_parts import draw_shape


def draw_assisted(draw):
    """Answers with a draft model that guesses."""
    model, draft = draw.choice([("gpt2-124m", "gpt2-124m"), ("llama-3-8b", "llama-3.2-1b"), ("llama-3-8b", "llama-3-8b")])
    _, keys = draw_shape(draw, model)
    count = draw.choice([1, 2, 3])
    keys.update(requests=count, batch=1, seq="/".join(str(draw.choice([17, 33, 64, 100, 128, 255])) for _ in range(count)),
                answers="/".join(str(draw.choice([1, 2, 8, 20, 40])) for _ in range(count)), precision=draw.choice(["bf16", "bf16", "fp32"]),
                attention=draw.choice(["fused", "eager"]), draft=draft, draft_tokens=draw.choice([1, 3, 5, 8]),
                accept_percent=draw.choice([0, 100]))
    heads, head = draw.choice([2, 4]), draw.choice([32, 64])
    keys.update(draft_layers=draw.choice([1, 2]), draft_heads=heads, draft_hidden=heads * head, draft_ffn=2 * heads * head)
    if model != "gpt2-124m":
        keys["draft_kv_heads"] = draw.choice([1, 2])
    return f"infer:{model}", keys
