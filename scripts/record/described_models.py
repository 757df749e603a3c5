"""The models that texts of `train` and `infer` describe, with random weights, and what training adds to them: checkpoints, adapters.

Keys is such a text. Widths and counts are all given in it, since presets of the models are not known here.
"""
import sys

import described_images
from references.low_bits import fp8_linear, nf4_linear, quantized_linear, with_products
from references.models import recompute_attention, saved_products

FAMILIES = {"llama": "Llama", "qwen2.5": "Qwen2", "qwen3": "Qwen3", "mixtral": "Mixtral", "phi": "Phi3", "gemma": "Gemma3Text"}
ATTENTION = "q_proj", "k_proj", "v_proj", "o_proj"
MLP = "gate_proj", "up_proj", "down_proj"
TARGETS = {"qv": ("q_proj", "v_proj"), "attention": ATTENTION, "mlp": MLP, "all": ATTENTION + MLP}
PHI_TARGETS = {"qv": ("qkv_proj",), "attention": ("qkv_proj", "o_proj"), "mlp": ("gate_up_proj", "down_proj")}
PHI_TARGETS["all"] = PHI_TARGETS["attention"] + PHI_TARGETS["mlp"]


class Keys:
    """The text's keys. One that nobody asked for is an error at the end."""

    def __init__(self, text):
        self.generator, rest = text.split(":", 1)
        self.model, *pairs = (f"unet,{rest}" if self.generator == "unet" else rest).split(",")
        self.family = self.model.split("-")[0]
        self.values = dict(pair.split("=", 1) for pair in pairs)
        self.asked = set()

    def word(self, key, preset=""):
        self.asked.add(key)
        return self.values.get(key, preset)

    def number(self, key, preset=0):
        return int(self.word(key, preset))

    def numbers(self, key, preset):
        return [int(one) for one in self.word(key, preset).split("/")]

    def check(self):
        left = sorted(set(self.values) - self.asked)
        if left:
            sys.exit(f"described_job.py: no program for these keys of {self.generator}: {', '.join(left)}")


def dtype_of(keys):
    """Of weights; None for four bytes."""
    import torch
    preset = "bf16" if keys.generator == "infer" or "lora" in keys.values else "bf16_autocast"
    return torch.bfloat16 if keys.word("precision", preset) in ("bf16", "bf16_weights_autocast") else None


def llama_like(keys, common):
    import transformers
    name = "Qwen3Moe" if keys.model.startswith("qwen3-30b") else FAMILIES[keys.family]
    common.update(hidden_size=keys.number("hidden"), num_hidden_layers=keys.number("layers"), num_attention_heads=keys.number("heads"),
                  num_key_value_heads=keys.number("kv_heads"), intermediate_size=keys.number("ffn"), head_dim=keys.number("head_size"),
                  max_position_embeddings=4096, pad_token_id=0, tie_word_embeddings=bool(keys.number("tied")))
    if "expert_count" in keys.values:
        common.update(num_local_experts=keys.number("expert_count"), num_experts_per_tok=keys.number("experts_per_token"))
    if name == "Qwen3Moe":
        common.update(moe_intermediate_size=keys.number("ffn"), norm_topk_prob=True, decoder_sparse_step=1)
    window, every = keys.number("window", 512 if keys.family == "gemma" else 0), keys.number("window_every", 6 if keys.family == "gemma" else 0)
    if keys.family == "phi":
        common["sliding_window"] = window or None
    elif window and keys.family == "llama":
        name = "Mistral"
        common["sliding_window"] = window
    elif window:
        layers = range(1, keys.number("layers") + 1)
        common.update(sliding_window=window, use_sliding_window=True,
                      layer_types=["full_attention" if every and layer % every == 0 else "sliding_attention" for layer in layers])
    config = getattr(transformers, f"{name}Config")(**common)
    if keys.word("vision", "none") != "none":
        return described_images.llava(keys, config, common["attn_implementation"])
    return getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config)


def deepseek(keys, common):
    import transformers
    number, rope = keys.number, keys.number("rope_size")
    return transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(
        hidden_size=number("hidden"), num_hidden_layers=number("layers"), num_attention_heads=number("heads"), num_key_value_heads=number("heads"),
        moe_intermediate_size=number("ffn"), n_shared_experts=number("shared_ffn") // number("ffn"), n_routed_experts=number("expert_count"),
        num_experts_per_tok=number("experts_per_token"), first_k_dense_replace=number("dense_layers"), intermediate_size=number("dense_ffn"),
        q_lora_rank=number("query_rank") or None, kv_lora_rank=number("key_rank"), qk_rope_head_dim=rope,
        qk_nope_head_dim=number("head_size") - rope, v_head_dim=number("value_size"), **common))


def make_model(keys):
    import transformers
    use_liger(keys)
    if keys.family == "vit":
        return described_images.vit(keys)
    vocabulary, hidden, layers, heads = (keys.number(key) for key in ("vocabulary", "hidden", "layers", "heads"))
    # No text ends before its time: that word has the least score of equal ones.
    common = {"attn_implementation": "sdpa" if keys.word("attention", "fused") == "fused" else "eager", "vocab_size": vocabulary,
              "use_cache": keys.word("kv_cache", "default") == "default", "eos_token_id": vocabulary - 1}
    if keys.family != "t5":
        common["bos_token_id"] = 1
    if keys.family == "gpt2":
        config = transformers.GPT2Config(n_layer=layers, n_embd=hidden, n_head=heads, n_inner=keys.number("ffn"), **common)
        return transformers.GPT2LMHeadModel(config)
    if keys.family == "bert":
        config = transformers.BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                                         intermediate_size=keys.number("ffn"), **common)
        return transformers.BertForMaskedLM(config)
    if keys.family == "t5":
        config = transformers.T5Config(decoder_start_token_id=0, d_model=hidden, d_kv=64, d_ff=keys.number("ffn"), num_layers=layers,
                                       num_heads=heads, **common)
        return transformers.T5ForConditionalGeneration(config)
    return deepseek(keys, common) if keys.family == "deepseek" else llama_like(keys, common)


def without_data(keys):
    import torch
    with torch.device("meta"):
        return make_model(keys).to(dtype=dtype_of(keys))


def narrowed(keys, model):
    """Products of the blocks with fewer than sixteen bits."""
    kind = keys.word("quantize", "none")
    if kind == "nf4":
        return with_products(model, nf4_linear)
    bits = {"none": 0, "int8": 8, "int4": 4}[kind]
    if bits > 0:
        with_products(model, lambda linear: quantized_linear(linear.in_features, linear.out_features, bits, linear.bias))
    return model


def use_liger(keys):
    """Before the model is made: its classes then have Liger-Kernel's operators."""
    kind = keys.word("liger", "none")
    if kind == "none":
        return
    import liger_kernel.transformers as liger
    apply = {"llama": liger.apply_liger_kernel_to_llama, "qwen2.5": liger.apply_liger_kernel_to_qwen2}[keys.family]
    apply(rope=True, rms_norm=True, swiglu=True, cross_entropy=False, fused_linear_cross_entropy=kind == "all")


def with_float8(keys, model):
    return with_products(model, fp8_linear) if keys.word("products", "own") == "fp8" else model


def checkpoint(keys, model, before=0):
    """`before`: blocks that this rank has in earlier chunks, for `checkpoint_every`."""
    kind = keys.word("checkpoint", "none")
    if kind == "none":
        return
    if kind == "selective":
        recompute_attention(sys.modules[type(model).__module__], keys.word("attention", "fused") == "fused")
        return
    reentrant, every = bool(keys.number("reentrant")), keys.number("checkpoint_every", 1)
    options = {"context_fn": saved_products()} if kind == "keep_products" else {}
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant, **options})
    if every > 1:
        for index, block in enumerate(model.transformer.h if keys.family == "gpt2" else model.model.layers):
            block.gradient_checkpointing = (before + index) % every == 0
    if reentrant:
        model.enable_input_require_grads()


def with_adapters(keys, model):
    rank = keys.number("lora")
    if rank == 0:
        return model
    from peft import LoraConfig, get_peft_model
    own = {"gpt2": ("c_attn",), "bert": ("query", "value")}
    targets = own.get(keys.family) or (PHI_TARGETS if keys.family == "phi" else TARGETS)[keys.word("lora_targets", "qv")]
    config = LoraConfig(r=rank, lora_alpha=16, lora_dropout=0.05 if keys.number("lora_dropout") else 0.0,
                        target_modules=list(targets), fan_in_fan_out=keys.family == "gpt2",
                        modules_to_save=["embed_tokens", "lm_head"] if keys.word("lora_trains") == "embeddings" else None)
    # Sharded parameters have one type.
    is_sharded = keys.number("fsdp") > 0 or keys.number("zero") > 0 or keys.number("cp", 1) > 1
    return get_peft_model(model, config, autocast_adapter_dtype=not is_sharded)
