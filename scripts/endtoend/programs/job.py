"""What a program is told of the run that it is in, and where its batches come from. Everything is drawn from fixed seeds.

A program is a generator function of a Job: it builds its model, and yields before every step. Its docstring says what it does."""
import contextlib
import math
import random


class Job:
    """`tiny` shrinks a program so far that a CPU runs it in a second, to try the program itself."""

    def __init__(self, device="cuda", step_count=8, tiny=False, rank=0):
        import torch
        self.device, self.step_count, self.tiny, self.rank = device, step_count, tiny, rank
        self.random = random.Random(1)
        torch.manual_seed(0)

    def steps(self):
        return range(self.step_count)

    def of(self, full, tiny):
        return tiny if self.tiny else full

    def length(self, median, spread, low, high):
        """A length drawn from a lognormal distribution."""
        drawn = max(low, min(high, int(self.random.lognormvariate(math.log(median), spread))))
        return max(8, drawn // 16) if self.tiny else drawn

    def longest(self, count, *distribution):
        """The longest of a batch: what its padding reaches."""
        return max(self.length(*distribution) for _ in range(count))

    def ids(self, batch, length, vocabulary=32000):
        import torch
        return torch.randint(0, self.of(vocabulary, 97), (self.of(batch, min(batch, 2)), length), device=self.device)

    def images(self, batch, channels, *sides):
        import torch
        return torch.randn(self.of(batch, 2), channels, *(self.of(side, max(32, side // 8)) for side in sides), device=self.device)

    def amp(self):
        import torch
        return torch.autocast(self.device, dtype=torch.bfloat16)

    @contextlib.contextmanager
    def on_device(self):
        """Parameters are made on the device at once."""
        import torch
        with torch.device(self.device):
            yield

    def llama(self, layers, hidden, vocabulary=32000, attention="sdpa", **options):
        from transformers import LlamaConfig, LlamaForCausalLM
        layers, hidden = self.of(layers, 2), self.of(hidden, 64)
        heads = max(1, hidden // 64)
        config = LlamaConfig(vocab_size=self.of(vocabulary, 97), hidden_size=hidden, intermediate_size=hidden * 8 // 3 // 64 * 64,
                             num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads, max_position_embeddings=16384,
                             attn_implementation=attention, **options)
        with self.on_device():
            return LlamaForCausalLM(config)

    def gpt2(self, attention="eager", layers=12, hidden=768):
        from transformers import GPT2Config, GPT2LMHeadModel
        layers, hidden = self.of(layers, 2), self.of(hidden, 64)
        config = GPT2Config(n_layer=layers, n_embd=hidden, n_head=hidden // 64, vocab_size=self.of(50257, 97), attn_implementation=attention)
        with self.on_device():
            return GPT2LMHeadModel(config)


def adamw(model, **options):
    import torch
    return torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4, **options)


def update(optimizer):
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
