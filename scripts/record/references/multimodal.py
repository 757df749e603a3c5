"""Images and text in one model, as LLaVA has them: a ViT's patches go through a projector to where the text has place holders."""
from references.models import device_model

IMAGE_TOKEN = 31999


def llava(layers, **text):
    from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, ViTConfig
    vision = ViTConfig(image_size=224, patch_size=16)
    words = LlamaConfig(**{"vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": layers,
                           "num_attention_heads": 16, "num_key_value_heads": 4, **text})
    return LlavaForConditionalGeneration(LlavaConfig(vision_config=vision, text_config=words, image_token_index=IMAGE_TOKEN,
                                                     image_token_id=IMAGE_TOKEN, attn_implementation="sdpa"))


def prompt(batch, length, patches=196):
    """Token ids of which those after the first are an image's."""
    import torch
    ids = torch.randint(10, IMAGE_TOKEN, (batch, length), device="cuda")
    ids[:, 1:1 + patches].fill_(IMAGE_TOKEN)
    return ids


def train_llava(recording, model, optimizer, autocast, steps, batch, length):
    import contextlib

    import torch
    dtype = next(model.parameters()).dtype
    for step in range(steps):
        recording.mark(f"step{step}")
        ids = prompt(batch, length)
        images = torch.randn(batch, 3, 224, 224, device="cuda", dtype=dtype)
        with torch.autocast("cuda", dtype=autocast) if autocast else contextlib.nullcontext():
            loss = model(input_ids=ids, pixel_values=images, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def llava_frozen_bf16(recording):
    """LLaVA of a frozen ViT-base and a Llama of 6 x 1024 (16 heads, 4 kv), batch 4 x 512 of which 196 are an image, bf16, no KV
    cache, AdamW (fused), 3 steps."""
    import torch
    model = device_model(llava(6, use_cache=False), torch.bfloat16)
    model.model.vision_tower.requires_grad_(False)
    train_llava(recording, model, torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), fused=True), None, 3, 4, 512)


def llava_whole_amp(recording):
    """LLaVA of a ViT-base and a Llama of 4 x 1024 (16 heads, 4 kv), all trained, batch 2 x 400 of which 196 are an image, bf16
    autocast, no KV cache, AdamW (foreach), 3 steps."""
    import torch
    model = device_model(llava(4, use_cache=False))
    train_llava(recording, model, torch.optim.AdamW(model.parameters()), torch.bfloat16, 3, 2, 400)


def llava_generate(recording):
    """LLaVA of a ViT-base and a Llama of 6 x 1024 (16 heads, 4 kv), bf16, 2 batches of 4 prompts of 300 and 240 tokens of which
    196 are an image, 16 new tokens each."""
    import torch
    model = device_model(llava(6), torch.bfloat16).eval()
    for index, length in enumerate([300, 240]):
        recording.mark(f"batch{index}")
        ids = prompt(4, length)
        images = torch.randn(4, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            result = model.generate(input_ids=ids, pixel_values=images, attention_mask=torch.ones_like(ids), max_new_tokens=16,
                                    do_sample=False, pad_token_id=0)
        del result
    recording.mark("end")


PROGRAMS = (llava_frozen_bf16, llava_whole_amp, llava_generate)
