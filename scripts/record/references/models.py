"""What the recorded programs are made of: models from their configuration with random weights, batches of random tokens, and the
loops around them. Needs PyTorch and transformers only when a function is called."""
import contextlib
import functools


def device_model(model, dtype=None):
    model = model.to("cuda") if dtype is None else model.to(device="cuda", dtype=dtype)
    return model.train()


def train(recording, model, optimizer, batches, autocast=None, accumulate=1):
    """`batches` makes the inputs of one micro step."""
    import torch
    for step, make_batch in enumerate(batches):
        recording.mark(f"step{step}")
        for _ in range(accumulate):
            inputs = make_batch()
            context = torch.autocast("cuda", dtype=autocast) if autocast else contextlib.nullcontext()
            with context:
                loss = model(**inputs).loss
            (loss / accumulate).backward() if accumulate > 1 else loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def saved_products():
    """PyTorch's selective policy: products and attention keep their results, everything else is computed anew."""
    import torch
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
    aten = torch.ops.aten
    kept = {aten.mm.default, aten.addmm.default, aten._scaled_dot_product_flash_attention.default,
            aten._scaled_dot_product_cudnn_attention.default, aten._scaled_dot_product_efficient_attention.default}

    def policy(context, operator, *arguments, **options):
        return CheckpointPolicy.MUST_SAVE if operator in kept else CheckpointPolicy.PREFER_RECOMPUTE

    return functools.partial(create_selective_checkpoint_contexts, policy)


def recompute_attention(module, is_fused):
    """Only the attention core of the models in transformers' `module` is checkpointed, as Megatron-LM's selective recomputation does."""
    from torch.utils.checkpoint import checkpoint
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    core = ALL_ATTENTION_FUNCTIONS["sdpa"] if is_fused else module.eager_attention_forward

    def recomputed(block, query, key, value, mask, **options):
        return checkpoint(lambda *inputs: core(block, *inputs, mask, **options), query, key, value, use_reentrant=False)

    if is_fused:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = recomputed
    else:
        module.eager_attention_forward = recomputed


def generate(recording, model, vocabulary, batch, prompts, new_tokens):
    import torch
    for index, length in enumerate(prompts):
        recording.mark(f"batch{index}")
        ids = torch.randint(10, vocabulary, (batch, length), device="cuda")
        with torch.no_grad():
            result = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens,
                                    do_sample=False, pad_token_id=0)
        del result
    recording.mark("end")


def tokens(vocabulary, batch, length, mask=False):
    """Makes token ids that are their own labels; `mask` adds an attention mask without padding."""
    import torch

    def make():
        ids = torch.randint(0, vocabulary, (batch, length), device="cuda")
        inputs = {"input_ids": ids, "labels": ids}
        if mask:
            inputs["attention_mask"] = torch.ones_like(ids)
        return inputs

    return make


def padded(vocabulary, batch, length, left=False):
    """Token ids with a mask of ones whose rows end (or begin) at different places; padding has label -100."""
    import torch

    def make():
        ids = torch.randint(10, vocabulary, (batch, length), device="cuda")
        mask = torch.ones_like(ids)
        for row in range(batch):
            pad = (row * length) // (2 * batch)
            if pad:
                mask[row, :pad] = 0 if left else mask[row, :pad]
                if not left:
                    mask[row, -pad:] = 0
        labels = ids.masked_fill(mask == 0, -100)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    return make


def images(batch):
    import torch

    def make():
        return {"pixel_values": torch.randn(batch, 3, 224, 224, device="cuda"),
                "labels": torch.randint(0, 1000, (batch,), device="cuda")}

    return make


def pairs(batch, source, target):
    import torch

    def make():
        return {"input_ids": torch.randint(2, 32128, (batch, source), device="cuda"),
                "labels": torch.randint(2, 32128, (batch, target), device="cuda")}

    return make


# As most programs do, the models keep a KV cache in training too unless they are told not to: it copies keys and values.
def gpt2(attention, **shape):
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(attn_implementation=attention, **shape))


def llama(attention, **shape):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(**{"vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 8,
                            "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 4096,
                            "attn_implementation": attention, **shape})
    return LlamaForCausalLM(config)


def vit(attention, **shape):
    from transformers import ViTConfig, ViTForImageClassification
    return ViTForImageClassification(ViTConfig(attn_implementation=attention, num_labels=1000, **shape))


def t5(**shape):
    from transformers import T5Config, T5ForConditionalGeneration
    return T5ForConditionalGeneration(T5Config(decoder_start_token_id=0, **shape))


def mixtral(attention, **shape):
    from transformers import MixtralConfig, MixtralForCausalLM
    config = MixtralConfig(**{"vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 3584,
                              "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4,
                              "max_position_embeddings": 4096, "attn_implementation": attention, **shape})
    return MixtralForCausalLM(config)
