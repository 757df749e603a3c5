#!/usr/bin/env python3
"""Runs the PyTorch program that a text of `train` or `infer` describes, with random weights.

usage: described_job.py TEXT           e.g. train:llama-3-8b,layers=2,hidden=256,heads=4,...

For one device and the keys that random_jobs.py draws; other keys are refused. Widths and counts are all given in the text, since
presets of the model are not known here. Marks `part0`, `part1`, ... are set where the generator's steps or batches begin. The
last line says the most bytes that were requested and reserved at once. Needs PyTorch and transformers, for `lora` also peft.
"""
import contextlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import record_pytorch

FAMILIES = {"llama": "Llama", "qwen2.5": "Qwen2", "qwen3": "Qwen3", "mixtral": "Mixtral", "phi": "Phi3", "gemma": "Gemma3Text"}
ATTENTION = "q_proj", "k_proj", "v_proj", "o_proj"
MLP = "gate_proj", "up_proj", "down_proj"
TARGETS = {"qv": ("q_proj", "v_proj"), "attention": ATTENTION, "mlp": MLP, "all": ATTENTION + MLP}


class Keys:
    """The text's keys. One that nobody asked for is an error at the end."""

    def __init__(self, text):
        self.generator, rest = text.split(":", 1)
        self.model, *pairs = rest.split(",")
        self.family = self.model.split("-")[0]
        self.values = dict(pair.split("=", 1) for pair in pairs)
        self.asked = set()

    def word(self, key, preset=""):
        self.asked.add(key)
        return self.values.get(key, preset)

    def number(self, key, preset=0):
        return int(self.word(key, preset))

    def numbers(self, key, preset):
        return [int(one) for one in self.word(key, preset).split("/")]

    def check(self):
        left = sorted(set(self.values) - self.asked)
        if left:
            sys.exit(f"described_job.py: no program for these keys of {self.generator}: {', '.join(left)}")


def llama_like(keys, common):
    import transformers
    name = FAMILIES[keys.family]
    common.update(hidden_size=keys.number("hidden"), num_hidden_layers=keys.number("layers"), num_attention_heads=keys.number("heads"),
                  num_key_value_heads=keys.number("kv_heads"), intermediate_size=keys.number("ffn"), head_dim=keys.number("head_size"),
                  max_position_embeddings=4096, pad_token_id=0, tie_word_embeddings=bool(keys.number("tied")))
    if keys.family == "mixtral":
        common.update(num_local_experts=keys.number("expert_count"), num_experts_per_tok=keys.number("experts_per_token"))
    if keys.family == "gemma":
        common["sliding_window"] = 512
    if keys.family == "phi":
        common["sliding_window"] = None
    config = getattr(transformers, f"{name}Config")(**common)
    return getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config)


def make_model(keys):
    import transformers
    vocabulary, hidden, layers, heads = (keys.number(key) for key in ("vocabulary", "hidden", "layers", "heads"))
    # No text ends before its time: that word has the least score of equal ones.
    common = {"attn_implementation": "sdpa" if keys.word("attention", "fused") == "fused" else "eager", "vocab_size": vocabulary,
              "use_cache": keys.word("kv_cache", "default") == "default", "eos_token_id": vocabulary - 1}
    if keys.family != "t5":
        common["bos_token_id"] = 1
    if keys.family == "gpt2":
        config = transformers.GPT2Config(n_layer=layers, n_embd=hidden, n_head=heads, n_inner=keys.number("ffn"), **common)
        return transformers.GPT2LMHeadModel(config)
    if keys.family == "bert":
        config = transformers.BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                                         intermediate_size=keys.number("ffn"), **common)
        return transformers.BertForMaskedLM(config)
    if keys.family == "t5":
        config = transformers.T5Config(decoder_start_token_id=0, d_model=hidden, d_kv=64, d_ff=keys.number("ffn"), num_layers=layers,
                                       num_heads=heads, **common)
        return transformers.T5ForConditionalGeneration(config)
    return llama_like(keys, common)


def checkpoint(keys, model):
    if keys.word("checkpoint", "none") == "none":
        return
    reentrant, every = bool(keys.number("reentrant")), keys.number("checkpoint_every", 1)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    if every > 1:
        for index, block in enumerate(model.transformer.h if keys.family == "gpt2" else model.model.layers):
            block.gradient_checkpointing = index % every == 0
    if reentrant:
        model.enable_input_require_grads()


def with_adapters(keys, model):
    rank = keys.number("lora")
    if rank == 0:
        return model
    from peft import LoraConfig, get_peft_model
    own = {"gpt2": ("c_attn",), "bert": ("query", "value")}
    targets = own.get(keys.family) or TARGETS[keys.word("lora_targets", "qv")]
    config = LoraConfig(r=rank, lora_alpha=16, lora_dropout=0.05 if keys.number("lora_dropout") else 0.0,
                        target_modules=list(targets), fan_in_fan_out=keys.family == "gpt2")
    return get_peft_model(model, config)


def make_optimizer(keys, parameters):
    import torch
    name = keys.word("optimizer", "adamw")
    if name.startswith("sgd"):
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9 if name == "sgd_momentum" else 0)
    return torch.optim.AdamW(parameters, **{"adamw_fused": {"fused": True}, "adamw_loop": {"foreach": False}}.get(name, {}))


def batches(keys):
    """Makes the inputs of one pass, of the preset number of sequences or of another."""
    import torch
    vocabulary, preset, lengths = keys.number("vocabulary"), keys.number("batch"), keys.numbers("seq", "64")
    mask, target, made = keys.word("attention_mask", "none"), keys.number("target", 128), 0

    def make(count=0):
        nonlocal made
        count, length = count or preset, lengths[made % len(lengths)]
        made += 1
        ids = torch.randint(2, vocabulary, (count, length), device="cuda")
        if keys.family == "t5":
            return {"input_ids": ids, "labels": torch.randint(2, vocabulary, (count, target), device="cuda")}
        inputs = {"input_ids": ids, "labels": ids}
        if mask != "none":
            inputs["attention_mask"] = torch.ones_like(ids)
        if mask == "padding":
            inputs["labels"] = ids.clone()
            for row in range(count):
                begin = length - (row + 1) * length // (2 * count + 1)
                inputs["attention_mask"][row, begin:] = 0
                inputs["labels"][row, begin:] = -100
        return inputs

    return make


class Training:
    def __init__(self, keys):
        import torch
        adapted = "lora" in keys.values
        precision = keys.word("precision", "bf16" if adapted else "bf16_autocast")
        self.autocast = {"bf16_autocast": torch.bfloat16, "bf16_weights_autocast": torch.bfloat16,
                         "fp16_autocast": torch.float16}.get(precision)
        model = make_model(keys).to("cuda", torch.bfloat16 if precision in ("bf16", "bf16_weights_autocast") else None).train()
        checkpoint(keys, model)
        self.model = with_adapters(keys, model)
        self.parameters = [one for one in self.model.parameters() if one.requires_grad]
        self.optimizer = make_optimizer(keys, self.parameters)
        # With a larger scale the first steps find infinities and are left out.
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1.0) if precision == "fp16_autocast" else None
        self.accumulate, self.clips, self.zero_grad = keys.number("accumulate", 1), keys.number("clip"), keys.word("zero_grad", "after_step")
        self.keeps_batch, self.make, self.loss, self.inputs = keys.number("keep_batch", 1), batches(keys), None, None
        self.eval_every, self.eval_batches, self.eval_batch = (keys.number(f"eval_{key}") for key in ("every", "batches", "batch"))
        self.eval_loops = keys.word("eval_autocast", "batch") == "loop"

    def context(self):
        import torch
        return torch.autocast("cuda", dtype=self.autocast) if self.autocast else contextlib.nullcontext()

    def forward(self):
        if self.keeps_batch:
            self.inputs = self.make()
            with self.context():
                self.loss = self.model(**self.inputs).loss
        else:
            with self.context():
                self.loss = self.model(**self.make()).loss

    def backward(self, is_first):
        if self.zero_grad == "before_backward" and is_first:
            self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss / self.accumulate if self.accumulate > 1 else self.loss
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def optimize(self):
        import torch
        if self.clips:
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        if self.zero_grad in ("after_step", "zeros"):
            self.optimizer.zero_grad(set_to_none=self.zero_grad == "after_step")

    def evaluate(self):
        import torch
        self.model.eval()
        total = 0.0
        with torch.no_grad(), self.context() if self.eval_loops else contextlib.nullcontext():
            for _ in range(self.eval_batches):
                with contextlib.nullcontext() if self.eval_loops else self.context():
                    total += self.model(**self.make(self.eval_batch)).loss.item()
        self.model.train()

    def step(self, index):
        record_pytorch.mark(f"part{index}")
        for micro_step in range(self.accumulate):
            self.forward()
            self.backward(micro_step == 0)
        self.optimize()
        if self.eval_every and (index + 1) % self.eval_every == 0:
            self.evaluate()


def train(keys):
    training = Training(keys)
    step_count = keys.number("steps", 4)
    keys.check()
    for step in range(step_count):
        training.step(step)


def infer(keys):
    import torch
    model = make_model(keys).to("cuda", torch.bfloat16 if keys.word("precision", "bf16") == "bf16" else None).eval()
    shapes = zip(keys.numbers("batches", "1"), keys.numbers("seq", "64"), keys.numbers("answers", "1"))
    vocabulary, is_padded, beams = keys.number("vocabulary"), keys.number("padding"), keys.number("beams", 1)
    keys.asked.update(("requests", "batch"))  # said by `batches`
    keys.check()
    for index, (batch, length, answer) in enumerate(shapes):
        record_pytorch.mark(f"part{index}")
        ids = torch.randint(2, vocabulary, (batch, length), device="cuda")
        mask = torch.ones_like(ids)
        for row in range(batch - 1 if is_padded else 0):
            mask[row, :(row + 1) * length // (2 * batch)] = 0
        with torch.no_grad():
            result = model.generate(ids, attention_mask=mask, max_new_tokens=answer, do_sample=False, pad_token_id=0, num_beams=beams)
        del result


def main():
    if len(sys.argv) != 2 or ":" not in sys.argv[1]:
        sys.exit(__doc__)
    import torch
    torch.manual_seed(1)
    keys = Keys(sys.argv[1])
    if keys.generator not in ("train", "infer"):
        sys.exit(f"described_job.py: {keys.generator}: wanted train or infer")
    (train if keys.generator == "train" else infer)(keys)
    record_pytorch.mark("end")
    facts = torch.cuda.memory_stats()
    print("requested", facts["requested_bytes.all.peak"], "reserved", facts["reserved_bytes.all.peak"])


if __name__ == "__main__":
    main()
