"""Training on two GPUs, as rank 0 sees it. Calls of record_stream in NCCL and in PyTorch's C++ are not in recordings."""
from references.models import device_model, gpt2, llama, tokens, train


def ddp_gpt2_amp(recording):
    """GPT-2 124M, DistributedDataParallel on 2 GPUs, batch 4 x 512 each, bf16 autocast, AdamW (foreach), eager, 4 steps."""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    model = DistributedDataParallel(device_model(gpt2("eager", use_cache=False)), device_ids=[torch.cuda.current_device()])
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(50257, 4, 512)] * 4, torch.bfloat16)


def ddp_view_gpt2_fp32(recording):
    """As ddp_gpt2_amp, fp32 with gradient_as_bucket_view=True, batch 4 x 256, accumulate 2 with no_sync, 3 steps."""
    import contextlib

    import torch
    from torch.nn.parallel import DistributedDataParallel
    model = DistributedDataParallel(device_model(gpt2("eager", use_cache=False)), device_ids=[torch.cuda.current_device()],
                                    gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters())
    make = tokens(50257, 4, 256)
    for step in range(3):
        recording.mark(f"step{step}")
        for micro in range(2):
            with model.no_sync() if micro == 0 else contextlib.nullcontext():
                (model(**make()).loss / 2).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def zero1_gpt2_amp(recording):
    """As ddp_gpt2_amp with ZeroRedundancyOptimizer(AdamW): ZeRO-1, 3 steps."""
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel
    model = DistributedDataParallel(device_model(gpt2("eager", use_cache=False)), device_ids=[torch.cuda.current_device()])
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-4)
    train(recording, model, optimizer, [tokens(50257, 4, 512)] * 3, torch.bfloat16)


def fsdp2_llama_bf16(recording):
    """Llama-shaped 8 x 2048, fully_shard per block and at the root (FSDP2) on 2 GPUs, fp32 weights with bf16 parameters and
    fp32 reduction, batch 2 x 1024 each, AdamW (foreach), sdpa, no KV cache, 4 steps."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = device_model(llama("sdpa", use_cache=False))
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(32000, 2, 1024)] * 4)


def fsdp2_llama_ckpt(recording):
    """As fsdp2_llama_bf16 with every block checkpointed and reshard_after_forward, AdamW (fused), 3 steps."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = device_model(llama("sdpa", use_cache=False))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    train(recording, model, torch.optim.AdamW(model.parameters(), fused=True), [tokens(32000, 2, 1024)] * 3)


def fsdp1_gpt2_bf16(recording):
    """GPT-2 124M, FullyShardedDataParallel (flat parameters per block, use_orig_params) on 2 GPUs, bf16 mixed precision,
    batch 4 x 512 each, AdamW (foreach), eager, 3 steps."""
    import functools

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block
    mixed = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
    model = FullyShardedDataParallel(device_model(gpt2("eager", use_cache=False)), mixed_precision=mixed, use_orig_params=True,
                                     device_id=torch.cuda.current_device(),
                                     auto_wrap_policy=functools.partial(transformer_auto_wrap_policy,
                                                                        transformer_layer_cls={GPT2Block}))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(50257, 4, 512)] * 3)


PROGRAMS = (ddp_gpt2_amp, ddp_view_gpt2_fp32, zero1_gpt2_amp, fsdp2_llama_bf16, fsdp2_llama_ckpt, fsdp1_gpt2_bf16)
