"""Training whose ranks share every sequence (context parallelism), as rank 0 sees it: PyTorch's context_parallel() with batches as
transformers' Trainer prepares them, masks dropped as accelerate does, and parameters shared by fully_shard over the same ranks."""
from references.models import device_model, gpt2, llama
from references.recent import qwen3


def without_masks(model):
    """The ring of ranks takes causal attention only."""
    def drop(_, arguments, options):
        options.update(attention_mask=None, is_causal=True)
        return arguments, options

    for name, module in model.named_modules():
        if name.endswith("self_attn"):
            module.register_forward_pre_hook(drop, with_kwargs=True, prepend=True)


def shared(model, layers, policy=None):
    """The model after fully_shard, and the mesh of its ranks."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cuda", (torch.distributed.get_world_size(),), mesh_dim_names=("cp",))
    options = {"mesh": mesh} if policy is None else {"mesh": mesh, "mp_policy": policy}
    without_masks(model)
    for layer in layers:
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return mesh


def shifted(vocabulary, batch, length, mask=False):
    """Token ids, labels, the labels of the next token, positions."""
    import torch
    ids = torch.randint(0, vocabulary, (batch, length), device="cuda")
    inputs = {"input_ids": ids, "labels": ids.clone()}
    if mask:
        inputs["attention_mask"] = torch.ones_like(ids)
    padded = torch.nn.functional.pad(inputs["labels"], (0, 1), value=-100)
    inputs["shift_labels"] = padded[:, 1:].contiguous()
    inputs["position_ids"] = torch.arange(length, device="cuda").expand(batch, -1)
    return inputs


def train_in_pieces(recording, model, optimizer, mesh, steps, make_batch):
    from torch.distributed.tensor.experimental import context_parallel
    for step in range(steps):
        recording.mark(f"step{step}")
        inputs = make_batch()
        with context_parallel(mesh, buffers=list(inputs.values()), buffer_seq_dims=[1] * len(inputs),
                              no_restore_buffers=set(inputs.values())):
            loss = model(**inputs).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def cp2_llama_bf16(recording):
    """Llama-shaped 8 x 1536, sequences of 2 x 2048 shared by 2 GPUs (context_parallel, keys and values gathered), fp32 weights
    with bf16 parameters and fp32 reduction in fully_shard, AdamW (foreach), sdpa, no KV cache, 4 steps."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy
    model = device_model(llama("sdpa", hidden_size=1536, intermediate_size=4096, num_attention_heads=12, use_cache=False))
    mesh = shared(model, model.model.layers, MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    train_in_pieces(recording, model, torch.optim.AdamW(model.parameters()), mesh, 4, lambda: shifted(32000, 2, 2048))


def cp2_gpt2_fp32(recording):
    """GPT-2 124M, sequences of 4 x 1024 with a mask of ones shared by 2 GPUs, fp32, AdamW (foreach), sdpa, 3 steps."""
    import torch
    model = device_model(gpt2("sdpa", use_cache=False))
    mesh = shared(model, model.transformer.h)
    train_in_pieces(recording, model, torch.optim.AdamW(model.parameters()), mesh, 3,
                    lambda: shifted(50257, 4, 1024, mask=True))


def cp4_qwen3_bf16(recording):
    """Qwen3-shaped 6 x 1024, sequences of 1 x 4096 shared by 4 GPUs, keys and values passed on (alltoall), every block
    checkpointed, bf16, AdamW (fused), sdpa, 3 steps."""
    import torch
    from torch.distributed.tensor.experimental._attention import set_rotate_method
    model = device_model(qwen3(use_cache=False), torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    set_rotate_method("alltoall")
    mesh = shared(model, model.model.layers)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    train_in_pieces(recording, model, optimizer, mesh, 3, lambda: shifted(151936, 1, 4096))


PROGRAMS = (cp2_llama_bf16, cp2_gpt2_fp32, cp4_qwen3_bf16)
RANKS = {cp2_llama_bf16: 2, cp2_gpt2_fp32: 2, cp4_qwen3_bf16: 4}
