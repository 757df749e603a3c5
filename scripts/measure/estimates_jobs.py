"""The jobs of estimates_card.py: a model's config.json each, and the keys of `allocmark estimate` that say what is done with it.

The same table is read by the prediction and by the program, so both mean one job.
"""


def llama(layers, hidden, ffn, heads, kv_heads, vocabulary, kind="llama", **more):
    return {"model_type": kind, "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": ffn, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "vocab_size": vocabulary, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
            "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False, **more}


def gemma(layers, hidden, ffn, heads, kv_heads, vocabulary, window):
    return llama(layers, hidden, ffn, heads, kv_heads, vocabulary, "gemma3_text", head_dim=256, sliding_window=window, sliding_window_pattern=6,
                 tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=256, rms_norm_eps=1e-6,
                 layer_types=["full_attention" if (layer + 1) % 6 == 0 else "sliding_attention" for layer in range(layers)])


def bert(layers, hidden, ffn, heads):
    return {"model_type": "bert", "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": ffn, "num_attention_heads": heads,
            "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu"}


def gpt2(layers, hidden, heads):
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "n_positions": 1024, "n_ctx": 1024,
            "vocab_size": 50257, "activation_function": "gelu_new"}


MODELS = {
    "Llama-3.2-1B": llama(16, 2048, 8192, 32, 8, 128256, head_dim=64, tie_word_embeddings=True),
    "Llama-3.2-3B": llama(28, 3072, 8192, 24, 8, 128256, head_dim=128, tie_word_embeddings=True),
    "Llama-3.1-8B": llama(32, 4096, 14336, 32, 8, 128256),
    "TinyLlama-1.1B": llama(22, 2048, 5632, 32, 4, 32000),
    "SmolLM2-360M": llama(32, 960, 2560, 15, 5, 49152, tie_word_embeddings=True),
    "Mistral-7B-v0.3": llama(32, 4096, 14336, 32, 8, 32768, "mistral", sliding_window=None, head_dim=128),
    "Qwen2.5-0.5B": llama(24, 896, 4864, 14, 2, 151936, "qwen2", tie_word_embeddings=True, use_sliding_window=False, max_window_layers=24),
    "Qwen2.5-1.5B": llama(28, 1536, 8960, 12, 2, 151936, "qwen2", tie_word_embeddings=True, use_sliding_window=False, max_window_layers=28),
    "Qwen3-0.6B": llama(28, 1024, 3072, 16, 8, 151936, "qwen3", head_dim=128, tie_word_embeddings=True, use_sliding_window=False),
    "Qwen3-4B": llama(36, 2560, 9728, 32, 8, 151936, "qwen3", head_dim=128, tie_word_embeddings=True, use_sliding_window=False),
    "gemma-3-1b": gemma(26, 1152, 6912, 4, 1, 262144, 512),
    "gemma-3-4b": gemma(34, 2560, 10240, 8, 4, 262208, 1024),
    "Phi-3-mini": llama(32, 3072, 8192, 32, 32, 32064, "phi3", sliding_window=None, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "Qwen3-30B-A3B, 4 blocks": llama(4, 2048, 6144, 32, 4, 151936, "qwen3_moe", head_dim=128, num_experts=128, num_experts_per_tok=8,
                                     moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True),
    "Mixtral-8x7B, 2 blocks": llama(2, 4096, 14336, 32, 8, 32000, "mixtral", num_local_experts=8, num_experts_per_tok=2,
                                    sliding_window=None),
    "DeepSeek-V3, 4 narrow blocks": llama(4, 2048, 6144, 16, 16, 129280, "deepseek_v3", q_lora_rank=768, kv_lora_rank=512, qk_nope_head_dim=128,
                                          qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=32, num_experts_per_tok=8, n_shared_experts=1,
                                          moe_intermediate_size=1024, first_k_dense_replace=1, n_group=8, topk_group=4,
                                          routed_scaling_factor=2.5, norm_topk_prob=True, scoring_func="sigmoid"),
    "bert-large": bert(24, 1024, 4096, 16),
    "gpt2-large": gpt2(36, 1280, 20),
    "gpt2-xl": gpt2(48, 1600, 25),
}

# Name: model, and the keys. `train` has batch, seq, precision and optimizer always, so that no preset decides.
JOBS = {
    "full_1b": ("Llama-3.2-1B", "train", "batch=4,seq=2048,precision=bf16,optimizer=adamw_fused"),
    "full_1b_checkpoint": ("Llama-3.2-1B", "train", "batch=8,seq=2048,precision=bf16,optimizer=adamw_fused,checkpoint=full"),
    "full_1b_autocast": ("Llama-3.2-1B", "train", "batch=2,seq=2048,precision=bf16_autocast,optimizer=adamw"),
    "full_3b_checkpoint": ("Llama-3.2-3B", "train", "batch=2,seq=4096,precision=bf16,optimizer=adamw,checkpoint=full,clip=1"),
    "lora_3b": ("Llama-3.2-3B", "train", "batch=2,seq=2048,precision=bf16,optimizer=adamw,lora=32,lora_targets=all"),
    "lora_8b_checkpoint": ("Llama-3.1-8B", "train", "batch=2,seq=4096,precision=bf16,optimizer=adamw,lora=16,checkpoint=full"),
    "lora_mistral": ("Mistral-7B-v0.3", "train", "batch=1,seq=4096,precision=bf16,optimizer=adamw,lora=8,lora_targets=attention"),
    "tinyllama_accumulate": ("TinyLlama-1.1B", "train", "batch=4,seq=1024,precision=bf16_autocast,optimizer=adamw,accumulate=4,clip=1"),
    "smollm_fp32": ("SmolLM2-360M", "train", "batch=8,seq=1024,precision=fp32,optimizer=adamw"),
    "qwen2.5_0.5b": ("Qwen2.5-0.5B", "train", "batch=4,seq=2048,precision=bf16,optimizer=adamw"),
    "qwen2.5_1.5b": ("Qwen2.5-1.5B", "train", "batch=4,seq=1024,precision=bf16_autocast,optimizer=adamw_fused,checkpoint=full"),
    "qwen3_0.6b": ("Qwen3-0.6B", "train", "batch=8,seq=1024,precision=bf16,optimizer=adamw_fused"),
    "qwen3_4b_lora": ("Qwen3-4B", "train", "batch=2,seq=2048,precision=bf16,optimizer=adamw,lora=16,lora_targets=all,checkpoint=full"),
    "gemma3_1b": ("gemma-3-1b", "train", "batch=4,seq=1024,precision=bf16,optimizer=adamw"),
    "gemma3_1b_autocast": ("gemma-3-1b", "train", "batch=2,seq=2048,precision=bf16_autocast,optimizer=adamw,checkpoint=full"),
    "gemma3_4b_checkpoint": ("gemma-3-4b", "train", "batch=1,seq=4096,precision=bf16,optimizer=adamw_fused,checkpoint=full"),
    "phi3_checkpoint": ("Phi-3-mini", "train", "batch=2,seq=2048,precision=bf16,optimizer=adamw,checkpoint=full"),
    "qwen3_moe": ("Qwen3-30B-A3B, 4 blocks", "train", "batch=2,seq=2048,precision=bf16,optimizer=adamw"),
    "mixtral": ("Mixtral-8x7B, 2 blocks", "train", "batch=2,seq=2048,precision=bf16,optimizer=sgd_momentum"),
    "deepseek": ("DeepSeek-V3, 4 narrow blocks", "train", "batch=2,seq=2048,precision=bf16,optimizer=adamw_fused"),
    "bert_fp16": ("bert-large", "train", "batch=16,seq=512,precision=fp16_autocast,optimizer=adamw"),
    "gpt2_large": ("gpt2-large", "train", "batch=4,seq=1024,precision=bf16_autocast,optimizer=adamw,attention=eager"),
    "gpt2_xl_checkpoint": ("gpt2-xl", "train", "batch=8,seq=1024,precision=bf16_autocast,optimizer=adamw_fused,checkpoint=full"),
    "compiled_1b": ("Llama-3.2-1B", "train", "batch=4,seq=2048,precision=bf16,optimizer=adamw_fused,kv_cache=none,compile=inductor"),
    "compiled_1b_autocast": ("Llama-3.2-1B", "train", "batch=2,seq=1024,precision=bf16_autocast,optimizer=adamw,kv_cache=none,compile=inductor"),
    "compiled_1b_checkpoint": ("Llama-3.2-1B", "train",
                               "batch=4,seq=2048,precision=bf16,optimizer=adamw_fused,checkpoint=full,kv_cache=none,compile=inductor"),
    "compiled_1b_layers": ("Llama-3.2-1B", "train", "batch=4,seq=2048,precision=bf16,optimizer=adamw_fused,kv_cache=none,compile=inductor_layers"),
    "compiled_tinyllama": ("TinyLlama-1.1B", "train", "batch=4,seq=1024,precision=bf16,optimizer=adamw,kv_cache=none,compile=inductor_layers"),
    "compiled_smollm": ("SmolLM2-360M", "train", "batch=8,seq=1024,precision=bf16,optimizer=adamw_fused,kv_cache=none,compile=inductor"),
    "compiled_qwen2.5_0.5b": ("Qwen2.5-0.5B", "train", "batch=2,seq=2048,precision=bf16,optimizer=adamw_fused,kv_cache=none,compile=inductor"),
    "compiled_qwen3_0.6b": ("Qwen3-0.6B", "train", "batch=4,seq=1024,precision=bf16,optimizer=adamw_fused,kv_cache=none,compile=inductor"),
    "compiled_qwen3_layers": ("Qwen3-0.6B", "train",
                              "batch=4,seq=2048,precision=bf16,optimizer=adamw_fused,checkpoint=full,kv_cache=none,compile=inductor_layers"),
    "generate_1b": ("Llama-3.2-1B", "infer", "requests=12,batches=8/4,seq=1024/2048,answers=64/32,precision=bf16"),
    "generate_8b": ("Llama-3.1-8B", "infer", "requests=8,batches=8,seq=2048,answers=48,precision=bf16"),
    "generate_qwen3": ("Qwen3-4B", "infer", "requests=16,batches=16,seq=512,answers=64,precision=bf16"),
}
