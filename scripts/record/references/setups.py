"""Training set-ups: scaled losses, padding, checkpoints, optimizers, evaluation, leaks, resuming, adapters."""
from references.models import device_model, gpt2, llama, padded, recompute_attention, saved_products, tokens, train


def gpt2_fp16_scaler(recording):
    """GPT-2 124M, batch 8 x 512, fp16 autocast with GradScaler, AdamW (foreach), sdpa attention, clip to 1.0, 4 steps."""
    import torch
    model = device_model(gpt2("sdpa"))
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    make = tokens(50257, 8, 512)
    for step in range(4):
        recording.mark(f"step{step}")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(**make()).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def gpt2_fp16_scaler_plain(recording):
    """GPT-2 124M, batch 4 x 512, fp16 autocast with GradScaler, SGD with momentum (foreach), eager attention, 3 steps."""
    import torch
    model = device_model(gpt2("eager"))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    make = tokens(50257, 4, 512)
    for step in range(3):
        recording.mark(f"step{step}")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(**make()).loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def bert_padded_amp(recording):
    """BERT-base masked-LM, batch 16 x 256 with padding, bf16 autocast, AdamW (foreach), sdpa attention, 4 steps."""
    import torch
    from transformers import BertConfig, BertForMaskedLM
    model = device_model(BertForMaskedLM(BertConfig(attn_implementation="sdpa")))
    train(recording, model, torch.optim.AdamW(model.parameters()), [padded(30522, 16, 256)] * 4, torch.bfloat16)


def llama_padded_bf16(recording):
    """Llama-shaped 8 x 2048 (16 heads, 4 kv), batch 4 x 512 with padding, pure bf16, AdamW (foreach), sdpa, 3 steps."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16)
    train(recording, model, torch.optim.AdamW(model.parameters()), [padded(32000, 4, 512)] * 3)


def gpt2_padded_eager_fp32(recording):
    """GPT-2 124M, batch 4 x 256 with padding, fp32, AdamW (foreach), eager attention, 3 steps."""
    import torch
    model = device_model(gpt2("eager"))
    train(recording, model, torch.optim.AdamW(model.parameters()), [padded(50257, 4, 256)] * 3)


def gpt2_ckpt_every2(recording):
    """GPT-2 124M, batch 8 x 512, bf16 autocast, every second block checkpointed (non-reentrant), AdamW (foreach), eager,
    no KV cache, 3 steps."""
    import torch
    model = device_model(gpt2("eager", use_cache=False))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for index, block in enumerate(model.transformer.h):
        if index % 2:
            block.gradient_checkpointing = False
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(50257, 8, 512)] * 3, torch.bfloat16)


def gpt2_ckpt_attention(recording):
    """GPT-2 124M, batch 8 x 512, bf16 autocast, only the attention core (scores, softmax, dropout, product) checkpointed,
    as Megatron's selective recompute does, eager attention, no KV cache, AdamW (foreach), 3 steps."""
    import torch
    from transformers.models.gpt2 import modeling_gpt2
    recompute_attention(modeling_gpt2, is_fused=False)
    model = device_model(gpt2("eager", use_cache=False))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(50257, 8, 512)] * 3, torch.bfloat16)


def llama_ckpt_selective(recording):
    """Llama-shaped 8 x 2048, batch 2 x 1024, pure bf16, selective checkpointing (matrix products and attention kept),
    AdamW (fused), sdpa, 3 steps."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={
        "use_reentrant": False, "context_fn": saved_products()})
    train(recording, model, torch.optim.AdamW(model.parameters(), fused=True), [tokens(32000, 2, 1024)] * 3)


def llama_ckpt_reentrant(recording):
    """Llama-shaped 8 x 2048, batch 2 x 1024, bf16 autocast, every block checkpointed (reentrant), AdamW (foreach), 3 steps."""
    import torch
    model = device_model(llama("sdpa"))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.enable_input_require_grads()
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(32000, 2, 1024)] * 3, torch.bfloat16)


def gpt2_adamw_loop(recording):
    """GPT-2 124M, batch 4 x 256, fp32, AdamW (for loop: foreach=False), eager attention, 3 steps."""
    import torch
    model = device_model(gpt2("eager"))
    train(recording, model, torch.optim.AdamW(model.parameters(), foreach=False), [tokens(50257, 4, 256)] * 3)


def gpt2_momentum_loop(recording):
    """GPT-2 124M, batch 4 x 256, fp32, SGD with momentum (for loop), eager attention, gradients zeroed and kept, 3 steps."""
    import torch
    model = device_model(gpt2("eager"))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=False)
    make = tokens(50257, 4, 256)
    for step in range(3):
        recording.mark(f"step{step}")
        model(**make()).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    recording.mark("end")


def gpt2_clip_eval(recording):
    """GPT-2 124M, batch 4 x 512, bf16 autocast, AdamW (foreach), gradients clipped, eager attention; after every second
    step two evaluation batches of 8 x 512 under no_grad; 4 steps."""
    import torch
    model = device_model(gpt2("eager"))
    optimizer = torch.optim.AdamW(model.parameters())
    make, make_evaluation = tokens(50257, 4, 512), tokens(50257, 8, 512)
    for step in range(4):
        recording.mark(f"step{step}")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**make()).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 2:
            recording.mark(f"evaluate{step}")
            model.eval()
            total = 0.0
            with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
                for _ in range(2):
                    total += model(**make_evaluation()).loss.item()
            model.train()
    recording.mark("end")


def gpt2_leak_eval(recording):
    """GPT-2 124M, evaluation without no_grad, losses kept in a list (the graph stays alive): batch 2 x 256, bf16 autocast,
    eager attention, 6 batches."""
    import torch
    model = device_model(gpt2("eager")).eval()
    make, losses = tokens(50257, 2, 256), []
    for step in range(6):
        recording.mark(f"step{step}")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            losses.append(model(**make()).loss)
    recording.mark("end")


def gpt2_save_resume(recording):
    """GPT-2 124M, batch 4 x 256, bf16 autocast, AdamW (foreach), 2 steps, state saved to the host, then a second model
    and optimizer made from it on the device beside the first (as a resume in the same process does), 2 steps."""
    import io

    import torch
    make = tokens(50257, 4, 256)
    model = device_model(gpt2("eager"))
    optimizer = torch.optim.AdamW(model.parameters())
    train(recording, model, optimizer, [make] * 2, torch.bfloat16)
    recording.mark("save")
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    recording.mark("load")
    file.seek(0)
    state = torch.load(file, map_location="cuda")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    del state
    recording.mark("resumed")
    train(recording, model, optimizer, [make] * 2, torch.bfloat16)


def llama_peft_lora(recording):
    """Llama-shaped 8 x 2048, LoRA r=8 on q and v through peft, frozen bf16 weights, batch 4 x 512 with padding, bf16
    autocast, AdamW (foreach), sdpa, no checkpointing, 4 steps."""
    import torch
    from peft import LoraConfig, get_peft_model
    model = device_model(llama("sdpa"), torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["q_proj", "v_proj"]))
    train(recording, model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad]),
          [padded(32000, 4, 512)] * 4, torch.bfloat16)


PROGRAMS = (gpt2_fp16_scaler, gpt2_fp16_scaler_plain, bert_padded_amp, llama_padded_bf16, gpt2_padded_eager_fp32, gpt2_ckpt_every2,
            gpt2_ckpt_attention, llama_ckpt_selective, llama_ckpt_reentrant, gpt2_adamw_loop, gpt2_momentum_loop,
            gpt2_clip_eval, gpt2_leak_eval, gpt2_save_resume, llama_peft_lora)
