"""What random_jobs.py can draw: a function for each kind of job, which gives its generator and its keys."""
import random

from draw_assisted import draw_assisted
from draw_deepspeed import draw_configured, draw_deepspeed, draw_shards
from draw_experts import draw_expert_ranks
from draw_groups import draw_cut, draw_grids, draw_groups, draw_stages, draw_tokens
from draw_mixed import draw_mixed, draw_wasteful
from draw_narrow import draw_four_bits, draw_liger, draw_narrow, draw_narrow_states
from draw_parts import GENERATING, TRAINED, draw_loop, draw_rank_shape, draw_shape, maybe
from draw_sized import draw_sized, widened


def draw_checkpoint(draw, family, keys):
    if family in ("bert", "t5"):
        if family == "bert" and draw.random() < 0.3:
            keys["checkpoint"] = "full"
        return
    if draw.random() < 0.4:
        keys["checkpoint"] = "full"
        maybe(draw, 0.3, keys, reentrant=1)
        maybe(draw, 0.3, keys, checkpoint_every=2)
    if "checkpoint" in keys or draw.random() < 0.5:
        keys["kv_cache"] = "none"


def draw_targets(draw, family, keys, dropout_share):
    """What adapters have besides their rank."""
    maybe(draw, dropout_share, keys, lora_dropout=1)
    if family in ("llama", "qwen2.5", "qwen3") and draw.random() < 0.5:
        keys["lora_targets"] = draw.choice(["attention", "mlp", "all"])


def draw_adapters(draw, family, keys):
    if family in ("t5", "phi") or keys["precision"] == "fp16_autocast" or draw.random() < 0.75:
        return
    keys["lora"] = draw.choice([4, 8, 16])
    if keys["precision"] == "bf16_autocast" and draw.random() < 0.5:
        keys["precision"] = "bf16_weights_autocast"
    draw_targets(draw, family, keys, 0.4)


def draw_training(draw):
    """Training on one device."""
    model = draw.choice(TRAINED)
    family, keys = draw_shape(draw, model)
    lengths = [33, 64, 100, 128, 255, 256, 512]
    keys.update(batch=draw.choice([1, 2, 3, 4, 8]), seq="/".join(str(draw.choice(lengths)) for _ in range(draw.choice([1, 1, 1, 3]))))
    if family == "t5":
        keys["target"] = draw.choice([16, 40, 64])
    keys.update(steps=3, precision=draw.choice(["bf16_autocast", "bf16_autocast", "bf16", "fp32", "fp16_autocast"]),
                optimizer=draw.choice(["adamw", "adamw_fused", "adamw_loop", "sgd", "sgd_momentum"]),
                attention=draw.choice(["fused", "fused", "eager"]))
    draw_loop(draw, keys, 0.3)
    draw_checkpoint(draw, family, keys)
    if family != "t5" and draw.random() < 0.4:
        keys["attention_mask"] = draw.choice(["ones", "padding"])
    if draw.random() < 0.25 and "/" not in keys["seq"]:
        keys.update(eval_every=draw.choice([1, 2]), eval_batches=draw.choice([1, 2, 3]), eval_batch=draw.choice([1, 2, 4, 8]))
        if "autocast" in keys["precision"]:
            keys["eval_autocast"] = draw.choice(["batch", "loop"])
    draw_adapters(draw, family, keys)
    return f"train:{model}", keys


# For which families `draw_ways` may choose what.
CAUSAL = "gpt2", "llama", "qwen2.5", "qwen3", "mixtral", "phi", "gemma"
WAYS = {
    "loss_chunks": CAUSAL, "packed": ("gpt2", "llama", "qwen2.5", "qwen3", "mixtral"), "window": ("llama", "qwen2.5", "qwen3", "phi", "gemma"),
    "selective": ("bert", *CAUSAL),
    "lora_phi": ("phi",), "lora_trains": ("llama", "qwen2.5", "qwen3", "phi", "mixtral"), "keep_losses": ("bert", "t5", *CAUSAL),
    "keep_outputs": ("bert", *CAUSAL), "eval_grad": ("bert", *CAUSAL), "offload": ("bert", "t5", *CAUSAL), "save": ("bert", "t5", *CAUSAL),
    "resume": ("bert", "t5", *CAUSAL), "mask": ("t5",),
}


def keys_of_way(draw, way, family):
    """What makes the job one that is written that way."""
    lora = {"lora": draw.choice([4, 8, 16]), "precision": draw.choice(["bf16", "bf16_weights_autocast", "fp32"])}
    if family != "mixtral":
        lora["lora_targets"] = draw.choice(["qv", "attention", "mlp", "all"])
    ways = {
        "loss_chunks": {"loss_chunks": draw.choice([2, 3, 8])},
        "packed": {"packed": 1, "kv_cache": "none"},
        "window": {"window": draw.choice([16, 64, 200])},
        "selective": {"checkpoint": "selective"},
        "lora_phi": lora,
        "lora_trains": {**lora, "lora_trains": "embeddings", "tied": 0},
        "keep_losses": {"keep_losses": 1},
        "keep_outputs": {"keep_outputs": 1},
        "eval_grad": {"eval_every": 1, "eval_batches": draw.choice([1, 2, 3]), "eval_grad": 1, "keep_eval_losses": draw.choice([0, 1])},
        "offload": {"offload": draw.choice(["states", "gradients"])},
        "save": {"save_every": draw.choice([1, 2]), "save": "cast"},
        "resume": {"resume": draw.choice(["host", "device"]), "resume_at": draw.choice([1, 2])},
        "mask": {"attention_mask": draw.choice(["ones", "padding"])},
    }
    if family in ("qwen2.5", "qwen3", "gemma"):
        ways["window"]["window_every"] = draw.choice([2, 3])
    return ways[way]


def draw_ways(draw):
    """Training with ways to save memory or to waste it."""
    way = draw.choice(list(WAYS))
    model = draw.choice([model for model in TRAINED if model.split("-")[0] in WAYS[way]])
    family, keys = draw_shape(draw, model)
    keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([64, 100, 128, 255, 256]))
    if family == "t5":
        keys["target"] = draw.choice([16, 40, 64])
    keys.update(steps=3, precision=draw.choice(["bf16_autocast", "bf16_autocast", "bf16", "fp32", "fp16_autocast"]),
                optimizer=draw.choice(["adamw", "adamw_fused", "sgd", "sgd_momentum"]), attention=draw.choice(["fused", "fused", "eager"]))
    keys.update(keys_of_way(draw, way, family))
    # Sums of small_values.py's losses leave the range of fp16.
    if way in ("offload", "loss_chunks") and keys["precision"] == "fp16_autocast":
        keys["precision"] = "bf16_autocast"
    if way == "save" and keys["precision"] == "bf16":
        keys["precision"] = "fp32"
    draw_loop(draw, keys, 0.2, without=("clip", "zero_grad") if keys.get("offload") == "gradients" else ())
    if "checkpoint" not in keys and family not in ("bert", "t5") and way not in ("keep_outputs", "eval_grad") and draw.random() < 0.3:
        keys.update(checkpoint="full", kv_cache="none")
    return f"train:{model}", keys


def draw_ranks(draw):
    """One of several ranks that share data, and with fsdp the model."""
    model, family, keys = draw_rank_shape(draw)
    ranks = draw.choice([2, 3, 4, 8])
    keys.update(steps=3, optimizer=draw.choice(["adamw", "adamw_fused", "sgd_momentum"]), attention=draw.choice(["fused", "fused", "eager"]),
                kv_cache="none", dp=ranks, rank=draw.randrange(ranks), fsdp=draw.choice([0, 1, 2, 2]))
    if family == "bert":
        del keys["kv_cache"]
    keys["precision"] = draw.choice(["fp32", "bf16", "bf16_autocast"])
    if keys["fsdp"] == 0:
        del keys["fsdp"]
        if draw.random() < 0.3:
            keys["bucket_mb"] = draw.choice([1, 5, 100])
        maybe(draw, 0.3, keys, bucket_view=1)
    else:
        keys["initialize"] = draw.choice(["deferred", "whole"]) if keys["fsdp"] == 2 else "whole"
        if keys["precision"] == "fp32":
            keys["gathered"] = draw.choice(["same", "bf16", "bf16"])
        maybe(draw, 0.2, keys, reshard=0)
    if family not in ("bert", "t5") and draw.random() < 0.4:
        keys["checkpoint"] = "full"
    draw_loop(draw, keys, 0.2, ("clip", "accumulate", "keep_batch"))
    return f"train:{model}", keys


def draw_shared(draw):
    """Ranks whose jobs also have adapters, evaluations, scaled losses, masks, or unsynchronised micro steps."""
    generator, keys = draw_ranks(draw)
    family = generator.removeprefix("train:").split("-")[0]
    way = draw.choice(["adapters", "adapters", "evaluation", "scale", "mask", "no_sync"])
    if way == "adapters" and family not in ("t5", "phi") and keys.get("fsdp") != 1:
        keys["lora"] = draw.choice([4, 8, 16])
        draw_targets(draw, family, keys, 0.3)
    elif way == "evaluation":
        keys.update(eval_every=draw.choice([1, 2]), eval_batches=draw.choice([1, 2]), eval_batch=draw.choice([1, 2, 8]))
    elif way == "scale" and "fsdp" not in keys:
        keys["precision"] = "fp16_autocast"
    elif way == "no_sync" and "fsdp" not in keys:
        keys.update(accumulate=draw.choice([2, 3]), no_sync=1)
    elif family != "t5":
        keys["attention_mask"] = draw.choice(["ones", "padding"])
    return generator, keys


def draw_encoding(draw):
    """What draw_inference leaves out: encoders, sampling, caches of the longest length."""
    model = draw.choice(("bert-base", *GENERATING))
    family, keys = draw_shape(draw, model)
    batches = [draw.choice([1, 2, 3, 4, 8]) for _ in range(draw.choice([1, 2, 3]))]
    keys.update(requests=sum(batches), batch=max(batches), batches="/".join(map(str, batches)),
                seq="/".join(str(draw.choice([17, 33, 64, 100, 128, 255])) for _ in batches),
                precision=draw.choice(["bf16", "bf16", "fp32"]), attention=draw.choice(["fused", "eager"]))
    if family == "bert":
        keys["padding"] = draw.choice([0, 1])
        keys.update(draw.choice([{"head": "words"}, {"head": "pooled"}, {"embeddings": 1, "padding": 1}]))
        return f"infer:{model}", keys
    keys["answers"] = "/".join(str(draw.choice([1, 3, 8, 20])) for _ in batches)
    if family != "t5":
        keys["padding"] = draw.choice([0, 1])
    if family == "t5" or draw.random() < 0.5:
        keys["sample"] = 1
    else:
        keys["kv"] = "preallocated"
    return f"infer:{model}", keys


def draw_inference(draw):
    """Greedy generation, with and without beams."""
    model = draw.choice(GENERATING)
    family, keys = draw_shape(draw, model)
    batches = [draw.choice([1, 2, 3, 4, 8]) for _ in range(draw.choice([1, 2, 3]))]
    keys.update(requests=sum(batches), batch=max(batches), batches="/".join(map(str, batches)),
                seq="/".join(str(draw.choice([17, 33, 64, 100, 128, 255])) for _ in batches),
                answers="/".join(str(draw.choice([1, 3, 8, 20])) for _ in batches),
                precision=draw.choice(["bf16", "bf16", "fp32"]), attention=draw.choice(["fused", "eager"]))
    if family != "t5" and draw.random() < 0.4:
        keys["padding"] = 1
    if family != "t5" and draw.random() < 0.25:
        keys["beams"] = draw.choice([2, 4])
    return f"infer:{model}", keys


def draw_deepseek(draw):
    """DeepSeek: narrow latent rows, experts beside a MLP that all tokens share."""
    rope, heads, ffn = draw.choice([16, 32, 64]), draw.choice([2, 4, 8]), draw.choice([64, 128, 256])
    keys = {"layers": draw.randint(2, 4), "hidden": draw.choice([128, 256, 384, 512]), "heads": heads, "ffn": ffn,
            "head_size": rope + draw.choice([16, 32, 64]), "rope_size": rope, "value_size": draw.choice([16, 32, 64, 128]),
            "query_rank": draw.choice([0, 64, 96, 128]), "key_rank": draw.choice([32, 64, 128]), "shared_ffn": ffn * draw.choice([1, 1, 2]),
            "dense_layers": draw.choice([0, 1, 2]), "dense_ffn": draw.choice([256, 512, 1000]), "expert_count": draw.choice([16, 32, 64]),
            "experts_per_token": draw.choice([2, 4, 8]), "vocabulary": draw.choice([1000, 5003, 8192, 32000])}
    keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([33, 64, 100, 128, 255, 256]), steps=3,
                precision=draw.choice(["bf16_autocast", "bf16_autocast", "bf16", "fp32"]), optimizer=draw.choice(["adamw", "adamw_fused", "sgd_momentum"]),
                attention=draw.choice(["fused", "fused", "eager"]), kv_cache="none")
    maybe(draw, 0.4, keys, checkpoint="full")
    draw_loop(draw, keys, 0.2)
    return "train:deepseek-v3", keys


def draw_llava(draw):
    """Text with an image in each sequence."""
    model = draw.choice(["llama-3-8b", "qwen2.5-0.5b"])
    _, keys = draw_shape(draw, model)
    keys.update(batch=draw.choice([1, 2, 4]), seq=draw.choice([210, 256, 300]), steps=3, precision=draw.choice(["bf16_autocast", "bf16", "fp32"]),
                optimizer=draw.choice(["adamw", "adamw_fused", "sgd_momentum"]), attention=draw.choice(["fused", "fused", "eager"]),
                kv_cache=draw.choice(["none", "default"]), vision="vit-base", vision_frozen=draw.choice([0, 1]))
    draw_loop(draw, keys, 0.2)
    return f"train:{model}", keys


def draw_vit(draw):
    heads, head = draw.choice([2, 3, 4, 6, 8]), draw.choice([32, 64, 64, 80])
    side, patch = draw.choice([(64, 8), (96, 16), (224, 16), (224, 16), (224, 32), (384, 16), (224, 14), (160, 16)])
    keys = {"layers": draw.randint(2, 4), "hidden": heads * head, "heads": heads, "ffn": draw.choice([2, 4]) * heads * head, "image": side,
            "patch": patch, "classes": draw.choice([10, 100, 1000])}
    if draw.random() < 0.25:
        batches = [draw.choice([1, 2, 4, 8, 17, 32]) for _ in range(draw.choice([1, 2, 3]))]
        keys.update(requests=sum(batches), batch=max(batches), batches="/".join(map(str, batches)), precision=draw.choice(["bf16", "fp32"]),
                    attention=draw.choice(["fused", "eager"]))
        return "infer:vit-base", keys
    keys.update(batch=draw.choice([1, 2, 4, 8, 16, 32]), steps=3, precision=draw.choice(["bf16_autocast", "bf16_autocast", "bf16", "fp32", "fp16_autocast"]),
                optimizer=draw.choice(["adamw", "adamw_fused", "sgd_momentum"]))
    if draw.random() < 0.3 and keys["precision"] != "fp16_autocast":
        keys.update(implementation="timm")
    else:
        keys["attention"] = draw.choice(["fused", "fused", "eager"])
        maybe(draw, 0.25, keys, checkpoint="full")
    draw_loop(draw, keys, 0.2)
    return "train:vit-base", keys


def draw_images(draw):
    """Images: ViT, and diffusion by a DiT or a UNet."""
    kind = draw.choice(["vit", "vit", "dit", "unet", "unet"])
    if kind == "vit":
        return draw_vit(draw)
    shared = {"batch": draw.choice([2, 4, 8, 16, 32]), "steps": 3, "precision": draw.choice(["bf16_autocast", "fp32"]),
              "optimizer": draw.choice(["adamw", "adamw_fused", "sgd"])}
    if kind == "dit":
        heads, head = draw.choice([2, 4, 6, 8]), draw.choice([32, 64, 72])
        keys = {"layers": draw.randint(2, 4), "hidden": heads * head, "heads": heads, "ffn": 4 * heads * head, "image": draw.choice([16, 32, 64]),
                "patch": draw.choice([2, 4, 8]), "classes": 1000}
        return "train:dit-s", {**keys, **shared}
    widths = draw.choice([[64, 128], [128, 128], [64, 64, 128], [128, 256, 256], [64, 128, 256], [128, 256, 512], [64, 128, 256, 256], [320, 640],
                          [192, 384], [128, 128, 256, 512]])
    keys = {"channels": "/".join(map(str, widths)), "attention": "/".join(str(draw.choice([0, 0, 1])) if index else "0" for index in range(len(widths))),
            "image": draw.choice([32, 64, 64, 128]), "blocks": draw.choice([1, 2, 2])}
    return "unet", {**keys, **shared}


def draw_wide(draw):
    """Ranks in groups, stages, shared and narrow products, of the width of models in use."""
    while True:
        generator, keys = draw.choice([draw_groups, draw_groups, draw_stages, draw_stages, draw_cut, draw_cut, draw_narrow])(draw)
        family = generator.split(":")[1].split("-")[0]
        wide = widened(draw, family, keys)
        if wide:
            return generator, wide


def draw_experts(draw):
    """Ranks that share the experts of every block."""
    return draw_expert_ranks(draw, draw_deepseek)


def draw_grid_ranks(draw):
    """Ranks in a grid: products or experts shared along one side, data along the other."""
    return draw_grids(draw, draw_experts)


def draw_wasting(draw):
    """Ranks whose jobs waste memory."""
    return draw_wasteful(draw, draw_ranks)


DRAWS = {"train": draw_training, "infer": draw_inference, "ways": draw_ways, "ranks": draw_ranks, "shared": draw_shared, "encode": draw_encoding,
         "images": draw_images, "deepseek": draw_deepseek, "llava": draw_llava, "sized": draw_sized, "groups": draw_groups, "stages": draw_stages,
         "cut": draw_cut, "narrow": draw_narrow, "wide": draw_wide, "liger": draw_liger,
         "mixed": draw_mixed, "assisted": draw_assisted, "experts": draw_experts, "tokens": draw_tokens, "grids": draw_grid_ranks,
         "deepspeed": draw_deepspeed, "shards": draw_shards, "configured": draw_configured, "wasting": draw_wasting,
         "four_bits": draw_four_bits, "narrow_states": draw_narrow_states}


def add_counts(parser, seed, presets):
    """The options by which `drawn` knows what to draw."""
    parser.add_argument("--seed", type=int, default=seed)
    for name, function in DRAWS.items():
        parser.add_argument(f"--{name}", type=int, default=presets.get(name, 0), metavar="N", help=function.__doc__)


def drawn(arguments):
    for name, function in DRAWS.items():
        for index in range(getattr(arguments, name)):
            generator, keys = function(random.Random(f"{function.__name__} {arguments.seed} {index}"))
            begin = generator + ("," if ":" in generator else ":")
            yield begin + ",".join(f"{key}={value}" for key, value in keys.items())
