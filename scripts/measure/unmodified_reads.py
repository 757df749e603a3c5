"""More programs for unmodified_card.py, as people write them: those that branch on what they read from the device."""


def language_model(kind, **keys):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("cuda"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **keys), dtype=keys.get("dtype", torch.bfloat16))


def small_llama():
    return language_model("llama", hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16, num_key_value_heads=4,
                          vocab_size=32000)


def padded_texts(batch, length, side):
    """Tokens and mask of texts of several lengths, padded at one side."""
    import torch

    torch.manual_seed(5)
    lengths = torch.randint(length // 4, length + 1, (batch,)).tolist()
    mask = torch.zeros(batch, length, dtype=torch.long)
    for row, count in zip(mask, lengths, strict=True):
        row[slice(length - count, None) if side == "left" else slice(count)] = 1
    return torch.randint(5, 32000, (batch, length)) * mask, mask


def generate(**options):
    model = small_llama().eval()
    ids, mask = (tensor.cuda() for tensor in padded_texts(8, 400, "left"))
    made = model.generate(ids, attention_mask=mask, max_new_tokens=48, pad_token_id=0, **options)
    return list(made.shape)


def generated():
    return generate(do_sample=False)


def sampled():
    return generate(do_sample=True, top_k=50, top_p=0.9)


def beams():
    return generate(do_sample=False, num_beams=4)


def static_cache():
    return generate(do_sample=False, cache_implementation="static", disable_compile=True)


def train_batches(model, batches):
    """batches: of keyword arguments on the host."""
    import torch

    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for batch in batches:
        model(**{name: tensor.cuda() for name, tensor in batch.items()}).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()
        optimizer.zero_grad()


def padded_train():
    ids, mask = padded_texts(8, 512, "right")
    train_batches(small_llama(), 3 * [{"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}])


def packed_train():
    """Texts in a row, told apart by their positions alone."""
    import torch

    torch.manual_seed(6)
    positions = torch.cat([torch.arange(count) for count in (700, 300, 900, 148)])[None].repeat(2, 1)
    ids = torch.randint(5, 32000, positions.shape)
    train_batches(small_llama(), 3 * [{"input_ids": ids, "position_ids": positions, "labels": ids}])


def chosen_tokens():
    """A head over the tokens that have a label alone, as trainers of masked language models have it."""
    import torch
    from torch import nn

    torch.manual_seed(7)
    table, head = nn.Embedding(30522, 768).cuda(), nn.Linear(768, 30522).cuda()
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True).cuda()
    for _ in range(3):
        ids = torch.randint(0, 30522, (32, 256))
        labels = ids.masked_fill(torch.rand(ids.shape) > 0.15, -100).cuda()
        hidden = layer(table(ids.cuda()))
        chosen = labels != -100
        nn.functional.cross_entropy(head(hidden[chosen]), labels[chosen]).backward()


READING = [generated, sampled, beams, static_cache, padded_train, packed_train, chosen_tokens]
