#!/usr/bin/env python3
"""Does a job take on the card what `allocmark estimate` said before? The jobs are those of estimates_jobs.py.

usage: estimates_card.py predict ALLOCMARK FOLDER [--only NAME,...] [--card sim:h100] [--pytorch 2.11]
                                                             writes FOLDER/predictions.json; no GPU
       estimates_card.py measure FOLDER [--only NAME,...]        runs each job; needs a GPU, PyTorch, transformers and (lora) peft
       estimates_card.py edge ALLOCMARK FOLDER [--only NAME,...]      writes FOLDER/least.json: the least memory that serves each job
       estimates_card.py measure FOLDER --edge                   runs each job with 1 MiB more than that, and with 1 MiB less
       estimates_card.py page FOLDER                             writes FOLDER/README.md from all of these

A job's model is made from its configuration with random weights. It trains three steps, or generates. Jobs run one after the other,
each in a process of its own, so that what the card has in use belongs to it. Rows go to FOLDER/measured.jsonl.
"""
import argparse
import contextlib
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

from estimates_jobs import JOBS, MODELS

MIB, GIB = 1 << 20, 1 << 30
STEPS = 3


def keys_of(text):
    return dict(part.split("=") for part in text.split(","))


def workload(name, config_file):
    _, kind, keys = JOBS[name]
    return f"{kind}:{config_file},{keys}" + (f",steps={STEPS}" if kind == "train" else "")


def wanted(arguments):
    return arguments.only.split(",") if arguments.only else list(JOBS)


def predict(arguments):
    rows = {}
    for name in wanted(arguments):
        model = JOBS[name][0]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as file:
                json.dump(MODELS[model], file)
            command = [arguments.allocmark, "estimate", workload(name, path), "--pytorch", arguments.pytorch, "-d", arguments.card, "-q",
                       "--conf", "unset", "--format", "json"]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            rows[name] = {"refused": done.stderr.strip().splitlines()[0]}
            continue
        answer = json.loads(done.stdout)
        setting = answer["settings"][0]
        rows[name] = {"live": answer["live_bytes"], "reserved": setting["reserved_bytes"], "nvidia_smi": setting["shown_bytes"],
                      "from": setting["shown_low_bytes"], "to": setting["shown_high_bytes"]}
        print(name, json.dumps(rows[name]), flush=True)
    with open(os.path.join(arguments.folder, "predictions.json"), "w") as file:
        json.dump({"card": arguments.card, "pytorch": arguments.pytorch, "jobs": rows}, file, indent=1)
        file.write("\n")


def edge(arguments):
    """By the allocator's replay in less and less memory (`allocmark fit --exact`)."""
    rows = {}
    for name in wanted(arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as file:
                json.dump(MODELS[JOBS[name][0]], file)
            command = [arguments.allocmark, "fit", workload(name, path), "--pytorch", arguments.pytorch, "-d", "sim:h200", "-q",
                       "--conf", "unset", "--exact", "--format", "json"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows[name] = json.loads(done.stdout)["settings"][0]["least_bytes"]
        print(name, rows[name], flush=True)
    with open(os.path.join(arguments.folder, "least.json"), "w") as file:
        json.dump({"pytorch": arguments.pytorch, "jobs": rows}, file, indent=1)
        file.write("\n")


def make_model(model, keys):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM
    from transformers.initialization import no_init_weights
    text = dict(MODELS[model])
    config = AutoConfig.for_model(text.pop("model_type"), **text)
    kind = AutoModelForMaskedLM if config.model_type == "bert" else AutoModelForCausalLM
    four_bytes = keys["precision"] in ("fp32", "bf16_autocast", "fp16_autocast")
    # As from_pretrained(...).to("cuda"): made on the host, moved whole, so that tied tables are on the device once.
    with no_init_weights():
        made = kind.from_config(config, dtype=torch.float32 if four_bytes else torch.bfloat16, attn_implementation=keys.get("attention", "sdpa"))
    made.tie_weights()
    made.to("cuda")
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0, 0.02)
    return made, config


def adapters(model, keys):
    from peft import LoraConfig, get_peft_model
    attention, mlp = ["q_proj", "k_proj", "v_proj", "o_proj"], ["gate_proj", "up_proj", "down_proj"]
    targets = {"qv": ["q_proj", "v_proj"], "attention": attention, "mlp": mlp, "all": attention + mlp}[keys.get("lora_targets", "qv")]
    if keys.get("checkpoint") == "full":
        model.enable_input_require_grads()
    return get_peft_model(model, LoraConfig(r=int(keys["lora"]), target_modules=targets, lora_dropout=0.0))


def optimizer_of(model, name):
    import torch
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if name.startswith("sgd"):
        return torch.optim.SGD(trained, lr=1e-4, momentum=0.9 if name == "sgd_momentum" else 0)
    # fused=False would also turn foreach off, which is PyTorch's preset.
    return torch.optim.AdamW(trained, lr=1e-5, **({"fused": True} if name == "adamw_fused" else {}))


def train(model, config, keys):
    import torch
    model.train()
    if keys.get("checkpoint") == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if "lora" in keys:
        model = adapters(model, keys)
    if keys.get("kv_cache") == "none":
        config.use_cache = False
    if keys.get("compile") == "inductor":
        model.compile()
    if keys.get("compile") == "inductor_layers":
        for layer in model.model.layers:
            layer.compile()
    optimizer = optimizer_of(model, keys["optimizer"])
    half = {"bf16_autocast": torch.bfloat16, "fp16_autocast": torch.float16}.get(keys["precision"])
    scaler = torch.amp.GradScaler("cuda", enabled=half == torch.float16)
    pieces = int(keys.get("accumulate", 1))
    for _ in range(STEPS):
        for _ in range(pieces):
            ids = torch.randint(10, config.vocab_size, (int(keys["batch"]), int(keys["seq"])), device="cuda")
            with torch.autocast("cuda", dtype=half) if half else contextlib.nullcontext():
                loss = model(input_ids=ids, labels=ids).loss
            scaler.scale(loss / pieces if pieces > 1 else loss).backward()
        if "clip" in keys:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), float(keys["clip"]))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)


def generate(model, config, keys):
    import torch
    model.eval()
    shapes = [[int(number) for number in keys[key].split("/")] for key in ("batches", "seq", "answers")]
    for batch, length, new_tokens in zip(*shapes, strict=True):
        ids = torch.randint(10, config.vocab_size, (batch, length), device="cuda")
        with torch.no_grad():
            made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens, do_sample=False, pad_token_id=0)
        if made.shape[1] != length + new_tokens:
            raise RuntimeError(f"a text ended early: wanted {new_tokens} new tokens, got {made.shape[1] - length}")
        del made


def device_in_use():
    import torch
    free, total = torch.cuda.mem_get_info()
    return total - free


def run_one(name, folder, record, limit_bytes=None):
    import torch
    model_name, kind, text = JOBS[name]
    keys = keys_of(text)
    torch.manual_seed(0)
    torch.cuda.init()
    row = {"job": name, "torch": torch.__version__, "gpu": torch.cuda.get_device_name(0), "date": datetime.date.today().isoformat()}
    if limit_bytes is not None:
        row["limit"] = limit_bytes
        torch.cuda.set_per_process_memory_fraction(limit_bytes / torch.cuda.get_device_properties(0).total_memory)
    if record:
        torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=1_000_000)
    try:
        model, config = make_model(model_name, keys)
        (train if kind == "train" else generate)(model, config, keys)
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        row.update(live=stats["requested_bytes.all.peak"], allocated=stats["allocated_bytes.all.peak"],
                   reserved=stats["reserved_bytes.all.peak"], nvidia_smi=device_in_use() + stats["reserved_bytes.all.peak"]
                   - stats["reserved_bytes.all.current"], retries=stats["num_alloc_retries"])
    except Exception as error:
        row["failure"] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    if record:
        torch.cuda.memory._dump_snapshot(os.path.join(folder, f"{name}.pickle"))
    with open(os.path.join(folder, "measured.jsonl" if limit_bytes is None else "edge.jsonl"), "a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def measure(arguments):
    import torch  # noqa: F401  (before the children are made, so that each has it)
    import transformers  # noqa: F401
    if arguments.edge:
        with open(os.path.join(arguments.folder, "least.json")) as file:
            least = json.load(file)["jobs"]
        runs = [(name, least[name] + more) for name in least for more in (-MIB, MIB)]
    else:
        runs = [(name, None) for name in wanted(arguments)]
    for name, limit_bytes in runs:
        child = os.fork()
        if child == 0:
            run_one(name, arguments.folder, arguments.record, limit_bytes)
            os._exit(0)
        os.waitpid(child, 0)


def notes_of(folder):
    """What is to be said by hand: the lines of FOLDER/notes.md."""
    path = os.path.join(folder, "notes.md")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [*file.read().splitlines(), ""]


def edge_lines(folder):
    """A table of the runs with little memory, where there are any."""
    if not os.path.exists(os.path.join(folder, "edge.jsonl")):
        return []
    with open(os.path.join(folder, "least.json")) as file:
        least = json.load(file)["jobs"]
    with open(os.path.join(folder, "edge.jsonl")) as file:
        runs = [json.loads(line) for line in file]
    rows, right = [], 0
    for run in runs:
        serves = run["limit"] >= least[run["job"]]
        served = "failure" not in run
        right += serves == served
        seen = f"served, {run['retries']} flushes" if served else run["failure"].split(".", maxsplit=1)[0]
        said = "+1 MiB | serves" if serves else "-1 MiB | dies"
        rows.append(f"| `{run['job']}` | {least[run['job']] / GIB:.3f} | {said} | {seen} | {'yes' if serves == served else '**no**'} |")
    return ["## At the edge", "",
            "The least memory that serves each job was said before (`allocmark fit --exact`, `least.json`). Then each job ran with a limit",
            "1 MiB above that and 1 MiB below (`torch.cuda.set_per_process_memory_fraction`).",
            f"**{right} of {len(runs)} runs ended as was said.**", "",
            "| job | least GiB | limit | said | the run | right |", "| :-- | --: | --: | :-- | :-- | :-- |", *rows, ""]


def page(arguments):
    with open(os.path.join(arguments.folder, "predictions.json")) as file:
        predicted = json.load(file)
    with open(os.path.join(arguments.folder, "measured.jsonl")) as file:
        measured = {row["job"]: row for row in map(json.loads, file)}
    rows, misses = [], {"live": [], "reserved": [], "nvidia_smi": []}
    covered = []
    for name in predicted["jobs"]:
        model, kind, keys = JOBS[name]
        said, was = predicted["jobs"][name], measured.get(name, {"failure": "not run"})
        problem = said.get("refused") or was.get("failure")
        if problem:
            rows.append(f"| `{name}` | {model} | `{kind}:{keys}` | {problem} |" + " |" * 6)
            continue
        cells = []
        for what in misses:
            misses[what].append(100 * (said[what] / was[what] - 1))
            cells.append(f"{was[what] / GIB:.2f} | {misses[what][-1]:+.2f} %")
        covered.append(said["from"] <= was["nvidia_smi"] <= said["to"])
        rows.append(f"| `{name}` | {model} | `{kind}:{keys}` | " + " | ".join(cells) + f" | {'yes' if covered[-1] else '**no**'} |")
    first = next(iter(measured.values()))
    lines = [
        f"# What `allocmark estimate` said of {len(predicted['jobs'])} jobs, and what they took on a card", "",
        "`scripts/measure/estimates_card.py` makes this page. The predictions were committed before the jobs ran",
        f"(`predictions.json`, {predicted['card']}, PyTorch {predicted['pytorch']}). Each job is a model's `config.json` and the keys of",
        "`estimate`; the program reads the same table (`estimates_jobs.py`). Models have random weights, and three steps are trained.",
        f"Measured on {first['gpu']}, PyTorch {first['torch']}, {first['date']}. Nothing is fitted to these rows.", "",
        *notes_of(arguments.folder),
        "| number | median error | worst | within 2 % | within 5 % |", "| :-- | --: | --: | --: | --: |"]
    for what, errors in misses.items():
        size = [abs(error) for error in errors]
        lines.append(f"| {what.replace('_', '-')} | {statistics.median(size):.4f} % | {max(size):.2f} % | {sum(error <= 2 for error in size)} of "
                     f"{len(size)} | {sum(error <= 5 for error in size)} of {len(size)} |")
    lines += ["", f"The printed interval held the measured `nvidia-smi` number of {sum(covered)} of {len(covered)} jobs.", "",
              "*live* is `requested_bytes.all.peak`, *reserved* `reserved_bytes.all.peak`, *nvidia-smi* what the card had in use beside nobody else,",
              "at the reserved peak. GiB, and how far the prediction is off.", "",
              "| job | model | description | live | off | reserved | off | nvidia-smi | off | within from, to |",
              "| :-- | :-- | :-- | --: | --: | --: | --: | --: | --: | :-- |", *rows, "", *edge_lines(arguments.folder)]
    with open(os.path.join(arguments.folder, "README.md"), "w") as file:
        file.write("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in (("predict", predict), ("edge", edge), ("measure", measure), ("page", page)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        if name in ("predict", "edge"):
            command.add_argument("allocmark", help="the program")
            command.add_argument("--card", default="sim:h100", help="the card to predict for [sim:h100]")
            command.add_argument("--pytorch", default="2.11", help="the release of PyTorch [2.11]")
        command.add_argument("folder", help="where predictions, rows and the page are; made where it is missing")
        if name != "page":
            command.add_argument("--only", help="names of jobs, with commas between")
        if name == "measure":
            command.add_argument("--edge", action="store_true", help="with the limits of least.json")
            command.add_argument("--record", action="store_true", help="also write a memory snapshot with history of each job")
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    arguments.function(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
