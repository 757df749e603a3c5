"""Training steps of every family: the operators, in several precisions and with both attentions."""
from references.models import device_model, gpt2, images, llama, mixtral, pairs, t5, tokens, train, vit

VIT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
T5_BASE = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}


def gpt2_medium_amp(recording):
    """GPT-2 355M, batch 4 x 1024, bf16 autocast, AdamW (foreach), eager attention, 3 steps."""
    import torch
    model = device_model(gpt2("eager", n_embd=1024, n_layer=24, n_head=16))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(50257, 4, 1024)] * 3, torch.bfloat16)


def gpt2_bf16_sgd(recording):
    """GPT-2 124M, batch 8 x 512, pure bf16, SGD without momentum, sdpa attention, 4 steps."""
    import torch
    model = device_model(gpt2("sdpa"), torch.bfloat16)
    train(recording, model, torch.optim.SGD(model.parameters(), lr=1e-3), [tokens(50257, 8, 512)] * 4)


def gpt2_accum_fp32(recording):
    """GPT-2 124M, 3 micro steps of 4 x 256, fp32, AdamW (foreach), eager attention, no KV cache, 2 steps."""
    import torch
    model = device_model(gpt2("eager", use_cache=False))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(50257, 4, 256)] * 2, accumulate=3)


def gpt2_large_amp(recording):
    """GPT-2 774M, batch 2 x 512, bf16 autocast, AdamW (fused), sdpa attention, no KV cache, 2 steps."""
    import torch
    model = device_model(gpt2("sdpa", n_embd=1280, n_layer=36, n_head=20, use_cache=False))
    train(recording, model, torch.optim.AdamW(model.parameters(), fused=True), [tokens(50257, 2, 512)] * 2, torch.bfloat16)


def gpt2_single_amp(recording):
    """GPT-2 124M, batch 1 x 512, bf16 autocast, AdamW (foreach), eager attention, 3 steps."""
    import torch
    model = device_model(gpt2("eager"))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(50257, 1, 512)] * 3, torch.bfloat16)


def bert_mlm_fp32(recording):
    """BERT-base masked-LM, batch 16 x 128, fp32, AdamW (foreach), eager attention, attention mask given, 4 steps."""
    import torch
    from transformers import BertConfig, BertForMaskedLM
    model = device_model(BertForMaskedLM(BertConfig(attn_implementation="eager")))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(30522, 16, 128, mask=True)] * 4)


def bert_large_bf16(recording):
    """BERT-large masked-LM, batch 8 x 384, pure bf16, AdamW (foreach), sdpa attention, no mask, 3 steps."""
    import torch
    from transformers import BertConfig, BertForMaskedLM
    model = device_model(BertForMaskedLM(BertConfig(attn_implementation="sdpa", hidden_size=1024, num_hidden_layers=24,
                                                    num_attention_heads=16, intermediate_size=4096)), torch.bfloat16)
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(30522, 8, 384)] * 3)


def llama_bf16_fused(recording):
    """Llama-shaped 8 x 2048 (16 heads, 4 kv), batch 4 x 1024, pure bf16, AdamW (fused), sdpa attention, 4 steps."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    train(recording, model, optimizer, [tokens(32000, 4, 1024)] * 4)


def llama_single_bf16(recording):
    """Llama-shaped 8 x 2048, batch 1 x 1024, pure bf16, AdamW (fused), sdpa attention, no KV cache, 3 steps."""
    import torch
    model = device_model(llama("sdpa", use_cache=False), torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    train(recording, model, optimizer, [tokens(32000, 1, 1024)] * 3)


def llama_eager_amp(recording):
    """Llama-shaped 6 x 1024 (16 heads, 4 kv), batch 4 x 512, bf16 autocast, AdamW (foreach), eager attention, no KV
    cache, 3 steps."""
    import torch
    model = device_model(llama("eager", use_cache=False, hidden_size=1024, intermediate_size=2816,
                               num_hidden_layers=6))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(32000, 4, 512)] * 3, torch.bfloat16)


def llama_ckpt_amp(recording):
    """Llama-shaped 8 x 2048 (16 heads, 4 kv), batch 2 x 2048, bf16 autocast, checkpointing of every block, AdamW
    (foreach), sdpa attention, 3 steps."""
    import torch
    model = device_model(llama("sdpa"))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(32000, 2, 2048)] * 3, torch.bfloat16)


def vit_amp(recording):
    """ViT-base, 32 images of 224 x 224, bf16 autocast, AdamW (foreach), sdpa attention, 4 steps."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification
    model = device_model(ViTForImageClassification(ViTConfig(attn_implementation="sdpa", num_labels=1000)))

    def images():
        return {"pixel_values": torch.randn(32, 3, 224, 224, device="cuda"),
                "labels": torch.randint(0, 1000, (32,), device="cuda")}

    train(recording, model, torch.optim.AdamW(model.parameters()), [images] * 4, torch.bfloat16)


def vit_large_eager_amp(recording):
    """ViT-large, 16 images of 224 x 224, bf16 autocast, AdamW (foreach), eager attention, 3 steps."""
    import torch
    model = device_model(vit("eager", **VIT_LARGE))
    train(recording, model, torch.optim.AdamW(model.parameters()), [images(16)] * 3, torch.bfloat16)


def vit_fp32_momentum(recording):
    """ViT-base, 16 images, fp32, SGD with momentum 0.9 (foreach), sdpa attention, 4 steps."""
    import torch
    model = device_model(vit("sdpa"))
    train(recording, model, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9), [images(16)] * 4)


def t5_small_amp(recording):
    """T5-small, batch 16, 256 tokens in, 64 out, bf16 autocast, AdamW (foreach), 3 steps."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration
    config = T5Config(use_cache=False, decoder_start_token_id=0)
    model = device_model(T5ForConditionalGeneration(config))

    def pairs():
        return {"input_ids": torch.randint(2, 32128, (16, 256), device="cuda"),
                "labels": torch.randint(2, 32128, (16, 64), device="cuda")}

    train(recording, model, torch.optim.AdamW(model.parameters()), [pairs] * 3, torch.bfloat16)


def t5_base_bf16(recording):
    """T5-base, batch 8, 512 tokens in, 128 out, pure bf16, AdamW (fused), KV cache kept, 3 steps."""
    import torch
    model = device_model(t5(**T5_BASE), torch.bfloat16)
    train(recording, model, torch.optim.AdamW(model.parameters(), fused=True), [pairs(8, 512, 128)] * 3)


def t5_small_fp32(recording):
    """T5-small, batch 8, 128 tokens in, 32 out, fp32, AdamW (foreach), no KV cache, 2 micro steps, 3 steps."""
    import torch
    model = device_model(t5(use_cache=False))
    train(recording, model, torch.optim.AdamW(model.parameters()), [pairs(8, 128, 32)] * 3, accumulate=2)


def mixtral_amp(recording):
    """Mixtral-shaped 4 x 1024 (8 experts of 3584, top 2), batch 2 x 512, bf16 autocast, AdamW (foreach), sdpa, 3 steps."""
    import torch
    model = device_model(mixtral("sdpa"))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(32000, 2, 512)] * 3, torch.bfloat16)


def mixtral_bf16_eager(recording):
    """Mixtral-shaped 4 x 1024, experts one by one (eager), batch 4 x 256, pure bf16, AdamW (fused), eager attention,
    no KV cache, 3 steps."""
    import torch
    model = device_model(mixtral("eager", use_cache=False, experts_implementation="eager"), torch.bfloat16)
    train(recording, model, torch.optim.AdamW(model.parameters(), fused=True), [tokens(32000, 4, 256)] * 3)


PROGRAMS = (gpt2_medium_amp, gpt2_bf16_sgd, gpt2_accum_fp32, gpt2_large_amp, bert_mlm_fp32, bert_large_bf16, llama_bf16_fused,
            llama_eager_amp, llama_ckpt_amp, vit_amp, vit_large_eager_amp, vit_fp32_momentum, t5_small_amp,
            t5_base_bf16, t5_small_fp32, mixtral_amp, mixtral_bf16_eager, gpt2_single_amp, llama_single_bf16)
