"""What accelerate's and DeepSpeed's estimators say of the models of published rows, as CSV: model, parameters, bytes.

usage: estimators.py ROWS.csv estimators.csv

accelerate: what `accelerate estimate-memory` prints for training with Adam, in fp32 or with bf16. DeepSpeed:
estimate_zero2_model_states_mem_needs for one device and nothing on the host. Both know the model alone: neither batch, length,
adapters, nor checkpoints. Models are made on PyTorch's meta device, so this needs neither a GPU nor weights.
"""
import argparse
import csv
from types import SimpleNamespace

import torch


def language(words):
    import language_steps
    import transformers
    config, kind, sizes = language_steps.MODELS[words[0]]
    return getattr(transformers, kind)(getattr(transformers, config)(**sizes)), 4


def vision(words):
    import vision_steps
    library = words[words.index("--library") + 1] if "--library" in words else "timm"
    return vision_steps.make_model(SimpleNamespace(model=words[0], library=library, image=None)), 4


def llama(_):
    import peft_steps
    import transformers
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**peft_steps.LLAMA)), 2


def flux(_):
    import flux_steps
    from diffusers import Flux2Transformer2DModel
    return Flux2Transformer2DModel(**flux_steps.KLEIN), 2


MAKERS = {"language_steps.py": language, "vision_steps.py": vision, "peft_steps.py": llama, "flux_steps.py": flux}


def model_of(program):
    """A row's model, named by what decides it: the options that follow do not."""
    script, *words = program.split()
    return script if script in ("peft_steps.py", "flux_steps.py") else f"{script} {words[0]}", words


def accelerate_bytes(model, width):
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes
    return max(estimate_training_usage(calculate_maximum_sizes(model)[0], "float32" if width == 4 else "bfloat16").values())


def deepspeed_bytes(count):
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs
    return estimate_zero2_model_states_mem_needs(count, num_gpus_per_node=1, num_nodes=1, cpu_offload=False)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("out")
    asked = parser.parse_args()
    with open(asked.rows, newline="") as file:
        programs = [row["program"] for row in csv.DictReader(file) if row["program"]]
    models = {}
    for name, words in map(model_of, programs):
        models.setdefault(name, words)
    with open(asked.out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "parameters", "accelerate_bytes", "deepspeed_bytes"])
        for name, words in models.items():
            with torch.device("meta"):
                model, width = MAKERS[name.split()[0]](words)
            count = sum(parameter.numel() for parameter in model.parameters())
            writer.writerow([name, count, accelerate_bytes(model, width), deepspeed_bytes(count)])


if __name__ == "__main__":
    main()
