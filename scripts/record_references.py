#!/usr/bin/env python3
"""Makes reference recordings of transformers on one GPU: what real training and generation ask of the allocator.

usage: record_references.py --out FOLDER [--only NAME,NAME] [--list]

Needs PyTorch with CUDA and transformers; downloads nothing: models are made from their configuration with random weights.
Each recording is its own process, from the first parameter on; each ends after 30,000 operations at most. Out: NAME.ops.csv.gz
per recording and a line with its operations, allocs, peak of requested bytes and packed size. One that fails says why and
does not stop the others; the exit status is then 1.
"""
import argparse
import concurrent.futures
import contextlib
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import record_pytorch  # noqa: E402

OPERATIONS_MAX = 30_000
PACKED_BYTES_MAX = 150_000
SECONDS_MAX = 120  # of one recording


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


def gpt2_medium_amp(recording):
    """GPT-2 355M, batch 4 x 1024, bf16 autocast, AdamW (foreach), eager attention, 3 steps."""
    import torch
    model = device_model(gpt2("eager", n_embd=1024, n_layer=24, n_head=16))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(50257, 4, 1024)] * 3, torch.bfloat16)


def gpt2_bf16_sgd(recording):
    """GPT-2 124M, batch 8 x 512, pure bf16, SGD without momentum, sdpa attention, 4 steps."""
    import torch
    model = device_model(gpt2("sdpa"), torch.bfloat16)
    train(recording, model, torch.optim.SGD(model.parameters(), lr=1e-3), [tokens(50257, 8, 512)] * 4)


def gpt2_accum_fp32(recording):
    """GPT-2 124M, 3 micro steps of 4 x 256, fp32, AdamW (foreach), eager attention, no KV cache, 2 steps."""
    import torch
    model = device_model(gpt2("eager", use_cache=False))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(50257, 4, 256)] * 2, accumulate=3)


def gpt2_generate(recording):
    """GPT-2 124M, bf16, sdpa attention, batch 8, prompt 64, 64 new tokens."""
    import torch
    model = device_model(gpt2("sdpa"), torch.bfloat16).eval()
    generate(recording, model, 50257, 8, [64], 64)


def bert_mlm_fp32(recording):
    """BERT-base masked-LM, batch 16 x 128, fp32, AdamW (foreach), eager attention, attention mask given, 4 steps."""
    import torch
    from transformers import BertConfig, BertForMaskedLM
    model = device_model(BertForMaskedLM(BertConfig(attn_implementation="eager")))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(30522, 16, 128, mask=True)] * 4)


def llama_bf16_fused(recording):
    """Llama-shaped 8 x 2048 (16 heads, 4 kv), batch 4 x 1024, pure bf16, AdamW (fused), sdpa attention, 4 steps."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    train(recording, model, optimizer, [tokens(32000, 4, 1024)] * 4)


def llama_eager_amp(recording):
    """Llama-shaped 6 x 1024 (16 heads, 4 kv), batch 4 x 512, bf16 autocast, AdamW (foreach), eager attention, no KV
    cache, 3 steps."""
    import torch
    model = device_model(llama("eager", use_cache=False, hidden_size=1024, intermediate_size=2816,
                               num_hidden_layers=6))
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(32000, 4, 512)] * 3, torch.bfloat16)


def llama_ckpt_amp(recording):
    """Llama-shaped 8 x 2048 (16 heads, 4 kv), batch 2 x 2048, bf16 autocast, checkpointing of every block, AdamW
    (foreach), sdpa attention, 3 steps."""
    import torch
    model = device_model(llama("sdpa"))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    train(recording, model, torch.optim.AdamW(model.parameters()), [tokens(32000, 2, 2048)] * 3, torch.bfloat16)


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


def llama_generate(recording):
    """Llama-shaped 8 x 2048 (16 heads, 4 kv), bf16, sdpa attention, growing cache, batch 4, prompt 200, 128 new tokens."""
    import torch
    model = device_model(llama("sdpa"), torch.bfloat16).eval()
    generate(recording, model, 32000, 4, [200], 128)


def vit_amp(recording):
    """ViT-base, 32 images of 224 x 224, bf16 autocast, AdamW (foreach), sdpa attention, 4 steps."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification
    model = device_model(ViTForImageClassification(ViTConfig(attn_implementation="sdpa", num_labels=1000)))

    def images():
        return {"pixel_values": torch.randn(32, 3, 224, 224, device="cuda"),
                "labels": torch.randint(0, 1000, (32,), device="cuda")}

    train(recording, model, torch.optim.AdamW(model.parameters()), [images] * 4, torch.bfloat16)


def t5_small_amp(recording):
    """T5-small, batch 16, 256 tokens in, 64 out, bf16 autocast, AdamW (foreach), 3 steps."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration
    config = T5Config(use_cache=False, decoder_start_token_id=0)
    model = device_model(T5ForConditionalGeneration(config))

    def pairs():
        return {"input_ids": torch.randint(2, 32128, (16, 256), device="cuda"),
                "labels": torch.randint(2, 32128, (16, 64), device="cuda")}

    train(recording, model, torch.optim.AdamW(model.parameters()), [pairs] * 3, torch.bfloat16)


REFERENCES = (gpt2_medium_amp, gpt2_bf16_sgd, gpt2_accum_fp32, gpt2_generate, bert_mlm_fp32, llama_bf16_fused,
              llama_eager_amp, llama_ckpt_amp, llama_generate, vit_amp, t5_small_amp)


def record_one(name, path):
    """Runs in a process of its own: nothing that an earlier recording left is live."""
    import torch
    torch.manual_seed(0)
    with record_pytorch.record(path, name=name, operation_count_max=OPERATIONS_MAX) as recording:
        globals()[name](recording)
    torch.cuda.synchronize()
    print(record_pytorch.summary(recording.converter))


def run(name, folder):
    """Records in a child process and reports one line; returns whether it worked."""
    path = os.path.join(folder, f"{name}.ops.csv.gz")
    begin = time.monotonic()
    command = [sys.executable, os.path.abspath(__file__), "--out", path, "--only", name, "--child"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        print(f"{name}: failed: no result after {SECONDS_MAX} s", flush=True)
        return False
    if done.returncode != 0 or not os.path.exists(path):
        print(f"{name}: failed, exit status {done.returncode}\n{done.stderr[-4000:]}", flush=True)
        return False
    size_bytes = os.path.getsize(path)
    remark = f" (MORE THAN {PACKED_BYTES_MAX})" if size_bytes > PACKED_BYTES_MAX else ""
    last_line = (done.stdout.splitlines() or ["no summary"])[-1]
    print(f"{name}: {last_line}, {size_bytes} bytes packed{remark}, {time.monotonic() - begin:.1f} s", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".", help="folder for the recordings")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--jobs", type=int, default=3, help="recordings at once; they do not see each other")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="name the recordings and stop")
    arguments = parser.parse_args()
    names = [reference.__name__ for reference in REFERENCES]
    if arguments.list:
        for reference in REFERENCES:
            print(f"{reference.__name__}: {' '.join(reference.__doc__.split())}")
        return
    wanted = arguments.only.split(",") if arguments.only else names
    for name in wanted:
        if name not in names:
            sys.exit(f"record_references.py: no recording {name!r}: wanted some of {', '.join(names)}")
    if arguments.child:
        try:
            return record_one(wanted[0], arguments.out)
        except (ImportError, record_pytorch.RecordError) as error:
            sys.exit(f"record_references.py: {error}: wanted PyTorch with CUDA and transformers")
    os.makedirs(arguments.out, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        results = list(pool.map(lambda name: run(name, arguments.out), wanted))
    print(f"{sum(results)} of {len(results)} recorded", flush=True)
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
