"""Programs that train and run language models: transformers' classes with random weights."""
from programs.job import adamw, update


def gpt2_varlen(job):
    """GPT-2 124M, batch 12 of varying length, bf16 autocast, AdamW, eager attention."""
    model = job.gpt2().train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        tokens = job.ids(12, job.length(490, 0.5, 128, 1024), 50257)
        with job.amp():
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        update(optimizer)


def gpt2_accumulate(job):
    """GPT-2 124M, four micro batches a step, gradients clipped, the loss read every step."""
    import torch
    model = job.gpt2("sdpa").train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        total = 0.0
        for _ in range(4):
            tokens = job.ids(8, job.length(450, 0.5, 96, 1024), 50257)
            with job.amp():
                loss = model(input_ids=tokens, labels=tokens).loss / 4
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update(optimizer)
        total.item()


def gpt2_fp32_sgd(job):
    """GPT-2 124M in float32, SGD with momentum, batch 8 of varying length."""
    import torch
    model = job.gpt2("sdpa").train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in job.steps():
        yield
        tokens = job.ids(8, job.length(400, 0.4, 128, 1024), 50257)
        model(input_ids=tokens, labels=tokens).loss.backward()
        update(optimizer)


class LowRank:
    """A linear layer that is frozen, with a trained product of two thin ones beside it."""

    @staticmethod
    def wrap(model, names, rank):
        import torch

        class Lora(torch.nn.Module):
            def __init__(self, base):
                super().__init__()
                self.base = base
                place = {"device": base.weight.device, "dtype": base.weight.dtype}
                self.down = torch.nn.Parameter(torch.randn(rank, base.in_features, **place) * 0.01)
                self.up = torch.nn.Parameter(torch.zeros(base.out_features, rank, **place))

            def forward(self, hidden):
                return self.base(hidden) + (hidden @ self.down.t()) @ self.up.t()

        for parameter in model.parameters():
            parameter.requires_grad_(False)
        for module in list(model.modules()):
            for name in names:
                if isinstance(getattr(module, name, None), torch.nn.Linear):
                    setattr(module, name, Lora(getattr(module, name)))
        return model


def llama_lora(job):
    """Llama of 16 layers in bf16, LoRA on queries and values, checkpointing, four micro batches a step."""
    import torch
    model = job.llama(16, 2048).to(torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model = LowRank.wrap(model, ("q_proj", "v_proj"), 16).train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        for _ in range(4):
            tokens = job.ids(2, job.length(490, 0.6, 64, 2048))
            (model(input_ids=tokens, labels=tokens).loss / 4).backward()
        update(optimizer)


def llama_checkpoint(job):
    """Llama of 12 layers, all parameters trained, checkpointing, bf16 autocast, fused AdamW."""
    model = job.llama(12, 1280, attention="eager").train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = adamw(model, fused=True)
    for _ in job.steps():
        yield
        tokens = job.ids(4, job.length(700, 0.5, 128, 2048))
        with job.amp():
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        update(optimizer)


def llama_adafactor(job):
    """Llama of 12 layers in bf16, Adafactor, batch of 6."""
    import torch
    model = job.llama(12, 1024).to(torch.bfloat16).train()
    optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-3)
    for _ in job.steps():
        yield
        tokens = job.ids(6, job.length(600, 0.5, 128, 2048))
        model(input_ids=tokens, labels=tokens).loss.backward()
        update(optimizer)


def fused_loss(job):
    """Llama with a vocabulary of 128k whose loss is computed in chunks of tokens, each recomputed in the backward pass."""
    import torch
    from torch.utils.checkpoint import checkpoint
    model = job.llama(8, 1024, vocabulary=128256).to(torch.bfloat16).train()
    optimizer = adamw(model, foreach=False)

    def chunk_loss(hidden, labels):
        return torch.nn.functional.cross_entropy(model.lm_head(hidden).float(), labels, reduction="sum")

    for _ in job.steps():
        yield
        tokens = job.ids(4, job.length(900, 0.5, 256, 2048), 128256)
        hidden = model.model(input_ids=tokens).last_hidden_state[:, :-1].flatten(0, 1)
        labels = tokens[:, 1:].flatten()
        loss = sum(checkpoint(chunk_loss, part, wanted, use_reentrant=False) for part, wanted in zip(hidden.split(1024), labels.split(1024)))
        (loss / labels.numel()).backward()
        update(optimizer)


def long_context(job):
    """Llama of 10 layers, one text of up to 12,288 tokens, sdpa attention, checkpointing, bf16."""
    import torch
    model = job.llama(10, 1024).to(torch.bfloat16).train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        tokens = job.ids(1, job.length(6000, 0.5, 2048, 12288))
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        update(optimizer)
        loss.item()


def growing_batch(job):
    """Llama of 8 layers whose batch grows by two texts a step, fp32 parameters, bf16 autocast."""
    model = job.llama(8, 768).train()
    optimizer = adamw(model)
    for step in job.steps():
        yield
        tokens = job.ids(2 + 2 * step, job.length(400, 0.3, 128, 768))
        with job.amp():
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        update(optimizer)


def mixtral_experts(job):
    """Mixtral of 6 layers with 8 experts, two a token, batch 4 of varying length, bf16 autocast."""
    from transformers import MixtralConfig, MixtralForCausalLM
    hidden = job.of(768, 64)
    config = MixtralConfig(vocab_size=job.of(32000, 97), hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=job.of(6, 2),
                           num_attention_heads=hidden // 64, num_key_value_heads=max(1, hidden // 192), num_local_experts=8, num_experts_per_tok=2,
                           attn_implementation="eager")
    with job.on_device():
        model = MixtralForCausalLM(config).train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        tokens = job.ids(4, job.length(400, 0.4, 128, 1024))
        with job.amp():
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        update(optimizer)


def t5_varlen(job):
    """T5 of 8 layers, texts and answers of varying length, batch 8, bf16 autocast."""
    from transformers import T5Config, T5ForConditionalGeneration
    width = job.of(768, 64)
    config = T5Config(vocab_size=job.of(32128, 97), d_model=width, d_kv=64, d_ff=4 * width, num_layers=job.of(8, 2), num_heads=width // 64,
                      decoder_start_token_id=0)
    with job.on_device():
        model = T5ForConditionalGeneration(config).train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        text, answer = job.ids(8, job.length(330, 0.6, 32, 1024)), job.ids(8, job.length(80, 0.4, 16, 256))
        with job.amp():
            loss = model(input_ids=text, labels=answer).loss
        loss.backward()
        update(optimizer)


def bert_eval_save(job):
    """BERT-base, padded batches of 24; every fourth step an evaluation and a copy of the weights to the host."""
    import torch
    from transformers import BertConfig, BertForMaskedLM
    width = job.of(768, 64)
    config = BertConfig(vocab_size=job.of(30522, 97), hidden_size=width, num_hidden_layers=job.of(12, 2), num_attention_heads=width // 64,
                        intermediate_size=4 * width, attn_implementation="eager")
    with job.on_device():
        model = BertForMaskedLM(config).train()
    optimizer = adamw(model)
    for step in job.steps():
        yield
        tokens = job.ids(24, job.longest(24, 120, 0.6, 16, 512), 30522)
        with job.amp():
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        update(optimizer)
        if step % 4 == 3:
            model.eval()
            with torch.no_grad():
                tokens = job.ids(48, job.longest(48, 120, 0.6, 16, 512), 30522)
                model(input_ids=tokens, labels=tokens).loss.item()
            model.train()
            copies = {name: value.clone() for name, value in model.state_dict().items()}
            for value in copies.values():
                value.cpu()
            del copies


def dpo_reference(job):
    """Preferences: a trained Llama beside a frozen one in bf16, three pairs of padded texts a step."""
    import torch
    model = job.llama(8, 1152).train()
    reference = job.llama(8, 1152).to(torch.bfloat16).eval()
    optimizer = adamw(model)

    def likelihood(one, tokens):
        return torch.log_softmax(one(input_ids=tokens).logits.float(), -1).gather(-1, tokens.unsqueeze(-1)).sum((1, 2))

    for _ in job.steps():
        yield
        tokens = job.ids(6, job.longest(6, 270, 0.6, 64, 1024))
        with torch.no_grad():
            expected = likelihood(reference, tokens)
        with job.amp():
            got = likelihood(model, tokens)
        gain = got - expected
        half = gain.shape[0] // 2
        loss = -torch.nn.functional.logsigmoid(0.01 * (gain[:half] - gain[half:])).mean()
        loss.backward()
        update(optimizer)
        loss.item()


def distill(job):
    """A frozen GPT-2 355M teaches one of 124M by the divergence of their predictions."""
    import torch
    from torch.nn import functional
    teacher = job.gpt2("sdpa", 24, 1024).to(torch.bfloat16).eval()
    student = job.gpt2("sdpa").train()
    optimizer = adamw(student)
    for _ in job.steps():
        yield
        tokens = job.ids(6, job.length(420, 0.5, 96, 1024), 50257)
        with torch.no_grad():
            wanted = functional.log_softmax(teacher(input_ids=tokens).logits.float(), -1)
        with job.amp():
            logits = student(input_ids=tokens).logits
        loss = functional.kl_div(functional.log_softmax(logits.float(), -1), wanted, log_target=True, reduction="batchmean")
        loss.backward()
        update(optimizer)


def generate_cache(job):
    """Generation by a Llama of 12 layers in bf16: 1 to 24 prompts of varying length, 4 to 10 new tokens, a growing cache."""
    import torch
    model = job.llama(12, 2048).to(torch.bfloat16).eval()
    for _ in job.steps():
        yield
        tokens = job.ids(job.random.choice([1, 4, 8, 16, 24]), job.length(500, 0.8, 32, 2048))
        with torch.no_grad():
            model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=job.random.randint(4, 10), do_sample=False,
                           pad_token_id=0)


def rollout_update(job):
    """Reinforcement: a Llama writes 8 tokens behind each of 12 prompts, then is trained on what it wrote."""
    import torch
    model = job.llama(8, 1024).to(torch.bfloat16)
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        prompts = job.ids(12, job.length(300, 0.5, 64, 1024))
        model.eval()
        with torch.no_grad():
            written = model.generate(prompts, attention_mask=torch.ones_like(prompts), min_new_tokens=8, max_new_tokens=8, do_sample=True,
                                     pad_token_id=0)
        model.train()
        logits = model(input_ids=written, use_cache=False).logits[:, :-1].float()
        chosen = torch.log_softmax(logits, -1).gather(-1, written[:, 1:].unsqueeze(-1)).squeeze(-1)
        reward = torch.randn(written.shape[0], 1, device=job.device)
        (-(chosen[:, -8:] * reward).mean()).backward()
        update(optimizer)


PROGRAMS = [gpt2_varlen, gpt2_accumulate, gpt2_fp32_sgd, llama_lora, llama_checkpoint, llama_adafactor, fused_loss, long_context, growing_batch,
            mixtral_experts, t5_varlen, bert_eval_save, dpo_reference, distill, generate_cache, rollout_update]
