"""Steps of the language model of Stanford's course CS336 (assignment 2): what record_without_gpu.py records.

usage: course_steps.py WIDTH,INNER,LAYERS,HEADS --context N --work inference|no_grad|forward|backward|step [...]

The model is the course's own. Its package cs336_basics must be on PYTHONPATH with einops, einx and jaxtyping; nothing of it is here.
Without a GPU nothing is computed, so weights are not filled: the model is moved to the device as Module.to() moves it.
"""
import argparse
import contextlib

import torch


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", help="width, width of the feed-forward layer, layers, heads")
    parser.add_argument("--context", type=int, required=True, help="tokens of a row")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=10000)
    parser.add_argument("--work", choices=("inference", "no_grad", "forward", "backward", "step"), required=True,
                        help="inference: in inference_mode, where autocast keeps no cast weights")
    parser.add_argument("--loss", choices=("cross_entropy", "sum", "last"), default="cross_entropy",
                        help="last: the cross entropy of each row's last token")
    parser.add_argument("--autocast", choices=("none", "model", "loss", "all"), default="none", help="bf16, up to where")
    parser.add_argument("--zero", choices=("never", "before", "between", "after"), default="before",
                        help="when gradients go: before the forward, between the two passes, after the step")
    parser.add_argument("--count", type=int, default=6, help="steps in all")
    parser.add_argument("--rows", type=int, default=1, help="batches that are on the device")
    parser.add_argument("--fresh", action="store_true", help="a new batch on the device in each step")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def make_model(asked):
    from cs336_basics.model import BasicsTransformerLM
    width, inner, layers, heads = map(int, asked.size.split(","))
    with torch.device("meta"):
        model = BasicsTransformerLM(vocab_size=asked.vocabulary, context_length=asked.context, d_model=width, num_layers=layers,
                                    num_heads=heads, d_ff=inner, rope_theta=10000.0)
    model.to_empty(device="cuda")
    if asked.compile:
        model.compile()
    return model


class Steps:
    def __init__(self, asked):
        from cs336_basics.nn_utils import cross_entropy
        from cs336_basics.optimizer import AdamW
        self.asked, self.cross_entropy = asked, cross_entropy
        self.model = make_model(asked)
        self.optimizer = AdamW(self.model.parameters())
        self.inputs, self.targets = self.batches(asked.rows), self.batches(asked.rows)
        self.logits = self.loss = None

    def batches(self, count):
        shape = (count, self.asked.batch, self.asked.context)
        return torch.zeros(shape, dtype=torch.int64).to("cuda")

    def loss_of(self, index):
        if self.asked.loss == "sum":
            return self.logits.sum()
        targets = self.targets[index % self.asked.rows]
        if self.asked.loss == "last":
            return self.cross_entropy(self.logits[:, -1], targets[:, -1])
        return self.cross_entropy(self.logits, targets)

    def precision(self, *reaches):
        return torch.autocast("cuda", dtype=torch.bfloat16) if self.asked.autocast in reaches else contextlib.nullcontext()

    def run(self, index):
        asked = self.asked
        if asked.fresh:
            self.inputs, self.targets = self.batches(1), self.batches(1)
        if asked.zero == "before":
            self.optimizer.zero_grad()
        with self.precision("all"):
            with self.precision("model", "loss"), torch.set_grad_enabled(asked.work not in ("inference", "no_grad")):
                self.logits = self.model(self.inputs[index % asked.rows])
            if asked.work in ("inference", "no_grad", "forward"):
                if asked.work != "forward" or asked.count > 1:
                    self.logits = None
                return
            with self.precision("loss"):
                self.loss = self.loss_of(index)
            if asked.zero == "between":
                self.optimizer.zero_grad()
            self.loss.backward()
            if asked.work == "step":
                self.optimizer.step()
        if asked.zero == "after":
            self.optimizer.zero_grad()


def main():
    asked = parse()
    with torch.inference_mode(asked.work == "inference"):
        steps = Steps(asked)
        for index in range(asked.count):
            steps.run(index)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
