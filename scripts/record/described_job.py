#!/usr/bin/env python3
"""Runs the PyTorch program that a text of `train` or `infer` describes, with random weights.

usage: described_job.py TEXT           e.g. train:llama-3-8b,layers=2,hidden=256,heads=4,...

For one device and the keys that random_jobs.py draws; other keys are refused. Marks `part0`, `part1`, ... are set where the
generator's steps or batches begin. The last line says the most bytes that were requested and reserved at once. Needs PyTorch and
transformers, for `lora` also peft.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import described_images
import described_tensor
import record_pytorch
from described_assisted import assisted
from described_models import Keys, dtype_of, make_model, narrowed
from described_ranks import join
from described_stages import train_stage
from described_training import make_optimizer, train


def padded_mask(ids, is_left):
    """All but the last row's ends, or the beginnings, are hidden."""
    import torch
    mask, (count, length) = torch.ones_like(ids), ids.shape
    for row in range(count - 1):
        hidden = max((row + 1) * length // (2 * count), min(1, length - 1))
        mask[row, :hidden] = 0 if is_left else mask[row, :hidden]
        if not is_left:
            mask[row, length - hidden:] = 0
    return mask


def generation(keys):
    """Answers one batch."""
    import torch
    model = described_tensor.answering(keys) if keys.number("tp", 1) > 1 else narrowed(keys, make_model(keys)).to("cuda", dtype_of(keys))
    model = model.eval()
    answers, is_padded = keys.numbers("answers", "1"), keys.number("padding")
    options = {"do_sample": False, "num_beams": keys.number("beams", 1)}
    if keys.number("sample"):
        options = {"do_sample": True, "top_k": 50, "top_p": 0.9}
    if keys.word("kv", "concat") == "preallocated":
        options.update(cache_implementation="static", disable_compile=True)

    def run(index, ids):
        answer = answers[index % len(answers)]
        mask = padded_mask(ids, is_left=True) if is_padded else torch.ones_like(ids)
        if "top_k" in options:
            options["min_new_tokens"] = answer
        with torch.no_grad():
            result = model.generate(ids, attention_mask=mask, max_new_tokens=answer, pad_token_id=0, **options)
        del result

    return run


def encoding(keys):
    """Encodes one batch. Pooled states are the caller's until it has others."""
    import torch
    model, kind = make_model(keys), "embeddings" if keys.number("embeddings") else keys.word("head", "pooled")
    if kind != "words":
        from transformers import BertModel
        model = BertModel(model.config, add_pooling_layer=True)
    model = model.to("cuda", dtype_of(keys)).eval()
    is_padded, kept = keys.number("padding"), []

    def run(index, ids):
        inputs = {"input_ids": ids}
        if is_padded:
            inputs["attention_mask"] = padded_mask(ids, is_left=False)
        with torch.no_grad():
            out = model(**inputs)
        if kind == "embeddings":
            hidden, mask = out.last_hidden_state, inputs["attention_mask"].unsqueeze(-1)
            mask = mask.to(hidden.dtype)
            torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).cpu()
        elif kind == "pooled":
            kept.append(out)

    def run_alone(index, ids):
        kept.clear()
        run(index, ids)

    return run_alone


def infer(keys):
    import torch
    answering = assisted if keys.word("draft", "none") != "none" else generation
    run = (encoding if keys.family == "bert" else answering)(keys)
    lengths = keys.numbers("seq", "64")
    shapes = list(zip(keys.numbers("batches", "/".join("1" * len(lengths))), lengths))
    vocabulary = keys.number("vocabulary")
    keys.asked.update(("requests", "batch"))  # said by `batches`
    keys.check()
    for index, (batch, length) in enumerate(shapes):
        record_pytorch.mark(f"part{index}")
        # A prompt that ends with the word that ends a text is none.
        run(index, torch.randint(2, vocabulary - 1, (batch, length), device="cuda"))


def main():
    if len(sys.argv) != 2 or ":" not in sys.argv[1]:
        sys.exit(__doc__)
    import torch
    torch.manual_seed(1)
    keys = Keys(sys.argv[1])
    if keys.generator not in ("train", "infer", "unet"):
        sys.exit(f"described_job.py: {keys.generator}: wanted train, infer or unet")
    group = join(keys)
    if keys.family in ("dit", "unet"):
        described_images.train_noise(keys, dtype_of(keys), make_optimizer)
    elif keys.generator == "train" and keys.number("pp", 1) > 1:
        train_stage(keys, make_optimizer)
    elif keys.generator == "train":
        train(keys)
    elif keys.family == "vit":
        described_images.classify(keys, dtype_of(keys))
    else:
        infer(keys)
    record_pytorch.mark("end")
    del group
    facts = torch.cuda.memory_stats()
    if os.environ.get("RANK", keys.word("rank", "0")) == keys.word("rank", "0"):
        print("requested", facts["requested_bytes.all.peak"], "reserved", facts["reserved_bytes.all.peak"])


if __name__ == "__main__":
    main()
