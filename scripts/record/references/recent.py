"""Programs of newer families and of ways to save memory: what users ask about now."""
from references.models import device_model, gpt2, llama, mixtral, pairs, t5, tokens, train


def qwen2(**shape):
    from transformers import Qwen2Config, Qwen2ForCausalLM
    return Qwen2ForCausalLM(Qwen2Config(**{"vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
                                           "num_hidden_layers": 8, "num_attention_heads": 14, "num_key_value_heads": 2,
                                           "tie_word_embeddings": True, **shape}))


def qwen3(**shape):
    from transformers import Qwen3Config, Qwen3ForCausalLM
    return Qwen3ForCausalLM(Qwen3Config(**{"vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
                                           "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 8,
                                           "head_dim": 128, "tie_word_embeddings": True, **shape}))


def qwen2_bf16(recording):
    """Qwen2.5-shaped 8 x 896 (14 heads, 2 kv), batch 2 x 512, pure bf16, AdamW (fused), attention as it comes, 3 steps."""
    import torch
    model = device_model(qwen2(), torch.bfloat16)
    train(recording, model, torch.optim.AdamW(model.parameters(), fused=True), [tokens(151936, 2, 512)] * 3)


def qwen3_ckpt_amp(recording):
    """Qwen3-shaped 6 x 1024 (16 heads of 128, 8 kv), batch 2 x 1024, bf16 autocast, every block checkpointed, AdamW
    (foreach), 3 steps."""
    import torch
    model = device_model(qwen3())
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(151936, 2, 1024)] * 3, torch.bfloat16)


def qwen2_lora(recording):
    """As qwen2_bf16 with peft's LoRA of rank 16 on q and v (adapters in fp32), AdamW (foreach), 4 steps."""
    import torch
    from peft import LoraConfig, get_peft_model
    config = LoraConfig(r=16, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)
    model = get_peft_model(device_model(qwen2(), torch.bfloat16), config)
    train(recording, model, torch.optim.AdamW(p for p in model.parameters() if p.requires_grad), [tokens(151936, 2, 512)] * 4)


def qwen2_generate(recording):
    """Qwen2.5-shaped 8 x 896, bf16, batch 4, prompts of 120 and 50 tokens with 40 and 24 new ones."""
    import torch
    model = device_model(qwen2(), torch.bfloat16).eval()
    for index, (prompt, new_tokens) in enumerate([(120, 40), (50, 24)]):
        recording.mark(f"batch{index}")
        ids = torch.randint(10, 151936, (4, prompt), device="cuda")
        with torch.no_grad():
            result = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens,
                                    do_sample=False, pad_token_id=0)
        del result
    recording.mark("end")


def llama_ckpt_varlen(recording):
    """Llama-shaped 8 x 2048 (16 heads, 4 kv), 2 micro steps of 2 sequences of 300, 700, 500, 1000, 200 and 900 tokens, pure
    bf16, every block checkpointed, AdamW (fused), 3 steps."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    lengths = iter([300, 700, 500, 1000, 200, 900])
    for step in range(3):
        recording.mark(f"step{step}")
        for _ in range(2):
            inputs = tokens(32000, 2, next(lengths))()
            (model(**inputs).loss / 2).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def gpt2_sdpa_fp32(recording):
    """GPT-2 124M, batch 4 x 384, fp32, sdpa attention, KV cache kept, SGD with momentum (foreach), 3 steps."""
    import torch
    model = device_model(gpt2("sdpa"))
    train(recording, model, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9), [tokens(50257, 4, 384)] * 3)


def mixtral_pairs_bf16(recording):
    """Mixtral-shaped 3 x 1024 (8 experts of 3584, top 2), batch 4 x 512, pure bf16, AdamW (foreach), sdpa, no KV cache, 3 steps."""
    import torch
    model = device_model(mixtral("sdpa", num_hidden_layers=3, use_cache=False), torch.bfloat16)
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(32000, 4, 512)] * 3)


def t5_targets_bf16(recording):
    """T5-small, batch 8, 100 tokens in, 40, 90 and 60 out in turn, pure bf16, no KV cache, AdamW (foreach), 6 steps."""
    import torch
    model = device_model(t5(use_cache=False), torch.bfloat16)
    train(recording, model, torch.optim.AdamW(model.parameters()), [pairs(8, 100, target) for target in [40, 90, 60] * 2])


def gpt2_offload(recording):
    """GPT-2 124M, batch 4 x 512, pure bf16, AdamW on the host: each gradient goes there once it is complete, and the step's
    parameters come back, 3 steps."""
    import torch
    model = device_model(gpt2("sdpa", use_cache=False), torch.bfloat16)
    host = {}
    for parameter in model.parameters():
        host[parameter] = parameter.detach().to("cpu", torch.float32)

    def leave(parameter):
        host[parameter].grad = parameter.grad.to("cpu").float()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(leave)
    optimizer = torch.optim.AdamW(host.values())
    make = tokens(50257, 4, 512)
    for step in range(3):
        recording.mark(f"step{step}")
        inputs = make()
        model(**inputs).loss.backward()
        optimizer.step()
        with torch.no_grad():
            for parameter, copy in host.items():
                parameter.copy_(copy.to(torch.bfloat16))
    recording.mark("end")


def llama_chunked_loss(recording):
    """Llama-shaped 4 x 1024 with 128,256 words, batch 2 x 1024, pure bf16, head and loss in 8 chunks of tokens, each
    checkpointed, AdamW (fused), 3 steps."""
    import torch
    from torch.utils.checkpoint import checkpoint
    model = device_model(llama("sdpa", use_cache=False, hidden_size=1024, intermediate_size=2816, num_hidden_layers=4,
                               vocab_size=128256), torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def loss_of(hidden, labels):
        return torch.nn.functional.cross_entropy(model.lm_head(hidden).float(), labels, reduction="sum")

    make = tokens(128256, 2, 1024)
    for step in range(3):
        recording.mark(f"step{step}")
        ids = make()["input_ids"]
        hidden = model.model(input_ids=ids).last_hidden_state.view(-1, 1024)
        labels = torch.nn.functional.pad(ids, (0, 1), value=-100)[:, 1:].reshape(-1)
        loss = 0
        for part, wanted in zip(hidden.chunk(8), labels.chunk(8)):
            loss = loss + checkpoint(loss_of, part, wanted, use_reentrant=False)
        del hidden, labels, part, wanted
        loss = loss / ids.numel()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def llama_tp4_infer(recording):
    """What one of 4 tensor parallel ranks asks for: Llama-shaped 8 x 2048 (4 of 16 heads, 1 of 4 kv, a quarter of the MLP and
    of the words), bf16, batch 4, prompt 200, 32 new tokens; sums over ranks are in place, logits are gathered and joined."""
    import torch
    model = device_model(llama("sdpa", num_attention_heads=4, num_key_value_heads=1, head_dim=128, intermediate_size=1408),
                         torch.bfloat16).eval()
    model.lm_head = torch.nn.Linear(2048, 8000, bias=False, device="cuda", dtype=torch.bfloat16)
    def join(module, inputs, output):
        pieces = torch.empty((4 * output.shape[0], *output.shape[1:]), dtype=output.dtype, device="cuda")
        return torch.cat(pieces.chunk(4), dim=-1)

    model.lm_head.register_forward_hook(join)
    recording.mark("batch0")
    ids = torch.randint(10, 32000, (4, 200), device="cuda")
    with torch.no_grad():
        result = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, do_sample=False, pad_token_id=0)
    del result
    recording.mark("end")


def gpt2_compiled(recording):
    """GPT-2 of 4 blocks, batch 4 x 512, bf16 autocast, torch.compile in its default mode, AdamW (foreach), 4 steps: generated code
    has its own plan of memory."""
    import torch
    model = device_model(gpt2("sdpa", use_cache=False, n_layer=4))
    compiled = torch.compile(model)
    train(recording, compiled, torch.optim.AdamW(model.parameters()), [tokens(50257, 4, 512)] * 4, torch.bfloat16)


PROGRAMS = (qwen2_bf16, qwen3_ckpt_amp, qwen2_lora, qwen2_generate, llama_ckpt_varlen, gpt2_sdpa_fp32, mixtral_pairs_bf16,
            t5_targets_bf16, gpt2_offload, llama_chunked_loss, llama_tp4_infer, gpt2_compiled)
