"""Inference: generation in several ways, encoders, embeddings."""
from references.models import device_model, generate, gpt2, llama, mixtral, padded, t5, vit


def gpt2_generate(recording):
    """GPT-2 124M, bf16, sdpa attention, batch 8, prompt 64, 64 new tokens."""
    import torch
    model = device_model(gpt2("sdpa"), torch.bfloat16).eval()
    generate(recording, model, 50257, 8, [64], 64)


def llama_generate(recording):
    """Llama-shaped 8 x 2048 (16 heads, 4 kv), bf16, sdpa attention, growing cache, batch 4, prompt 200, 128 new tokens."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16).eval()
    generate(recording, model, 32000, 4, [200], 128)


def vit_infer(recording):
    """ViT-base, bf16, no_grad, sdpa attention, batches of 64, 17, 1, 32, 64 images."""
    import torch
    model = device_model(vit("sdpa"), torch.bfloat16).eval()
    for index, batch in enumerate([64, 17, 1, 32, 64]):
        recording.mark(f"batch{index}")
        with torch.no_grad():
            result = model(pixel_values=torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.bfloat16)).logits
        del result
    recording.mark("end")


def t5_generate(recording):
    """T5-small, bf16, batch 8, 128 tokens in, 48 new tokens, growing cache."""
    import torch
    model = device_model(t5(), torch.bfloat16).eval()
    generate(recording, model, 32128, 8, [128], 48)


def mixtral_generate(recording):
    """Mixtral-shaped 4 x 1024, bf16, sdpa, batch 4, prompt 100, 48 new tokens."""
    import torch
    model = device_model(mixtral("sdpa"), torch.bfloat16).eval()
    generate(recording, model, 32000, 4, [100], 48)


def gpt2_beam(recording):
    """GPT-2 124M, bf16, sdpa, batch 4, 4 beams, prompts 64 and 40, 32 new tokens."""
    import torch
    model = device_model(gpt2("sdpa"), torch.bfloat16).eval()
    for index, length in enumerate([64, 40]):
        recording.mark(f"batch{index}")
        ids = torch.randint(10, 50257, (4, length), device="cuda")
        with torch.no_grad():
            result = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, num_beams=4,
                                    do_sample=False, pad_token_id=0)
        del result
    recording.mark("end")


def llama_sample_padded(recording):
    """Llama-shaped 8 x 2048, bf16, sdpa, sampling (top-k 50, top-p 0.9), left-padded batch of 4, prompts 120 and 300, 40 new."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16).eval()
    for index, length in enumerate([120, 300]):
        recording.mark(f"batch{index}")
        inputs = padded(32000, 4, length, left=True)()
        with torch.no_grad():
            result = model.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=40,
                                    min_new_tokens=40, do_sample=True, top_k=50, top_p=0.9, pad_token_id=0)
        del result, inputs
    recording.mark("end")


def llama_assisted(recording):
    """Llama-shaped 8 x 2048 with a draft of 2 x 512, bf16, sdpa, batch 1, prompt 100, 48 new tokens, 5 drafted at a time."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16).eval()
    draft = device_model(llama("sdpa", hidden_size=512, intermediate_size=1408, num_hidden_layers=2,
                               num_attention_heads=8), torch.bfloat16).eval()
    draft.generation_config.num_assistant_tokens = 5
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    recording.mark("batch0")
    ids = torch.randint(10, 32000, (1, 100), device="cuda")
    with torch.no_grad():
        result = model.generate(ids, attention_mask=torch.ones_like(ids), assistant_model=draft, max_new_tokens=48,
                                do_sample=False, pad_token_id=0)
    del result
    recording.mark("end")


def llama_static_cache(recording):
    """Llama-shaped 8 x 2048, bf16, sdpa, static (preallocated) cache, batch 4, prompt 200, 32 new tokens, not compiled."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16).eval()
    recording.mark("batch0")
    ids = torch.randint(10, 32000, (4, 200), device="cuda")
    with torch.no_grad():
        result = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, do_sample=False,
                                pad_token_id=0, cache_implementation="static", disable_compile=True)
    del result
    recording.mark("end")


def bert_embed_fp16(recording):
    """Sentence embedding: BERT-base encoder, fp16 weights, inference_mode, sdpa, mean pooling and normalising, padded batches
    of 32 x 128, 32 x 64, 7 x 200, 32 x 33, 1 x 12, 16 x 512; each result goes to the host."""
    import torch
    from transformers import BertConfig, BertModel
    model = device_model(BertModel(BertConfig(attn_implementation="sdpa")), torch.float16).eval()
    for index, (batch, length) in enumerate([(32, 128), (32, 64), (7, 200), (32, 33), (1, 12), (16, 512)] * 2):
        recording.mark(f"batch{index}")
        inputs = padded(30522, batch, length)()
        inputs.pop("labels")
        with torch.inference_mode():
            hidden = model(**inputs).last_hidden_state
            mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            pooled = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
        result = pooled.cpu()
        del hidden, mask, pooled, inputs, result
    recording.mark("end")


def bert_padded_infer(recording):
    """BERT-base masked-LM, fp32, no_grad, eager attention, padded batches of 16 x 128, 5 x 250, 16 x 77, 2 x 500."""
    import torch
    from transformers import BertConfig, BertForMaskedLM
    model = device_model(BertForMaskedLM(BertConfig(attn_implementation="eager"))).eval()
    for index, (batch, length) in enumerate([(16, 128), (5, 250), (16, 77), (2, 500)] * 2):
        recording.mark(f"batch{index}")
        inputs = padded(30522, batch, length)()
        inputs.pop("labels")
        with torch.no_grad():
            result = model(**inputs).logits
        del result, inputs
    recording.mark("end")


PROGRAMS = (gpt2_generate, llama_generate, vit_infer, t5_generate, mixtral_generate, gpt2_beam, llama_sample_padded, llama_assisted,
            llama_static_cache, bert_embed_fp16, bert_padded_infer)
