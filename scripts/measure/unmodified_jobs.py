"""Programs as people write them, for unmodified_card.py: training, inference, search for a batch size, with PyTorch's libraries below.
Each is a function without arguments; they need PyTorch, most transformers. A program that returns a number is judged by it, too."""
import contextlib
import os

from unmodified_reads import READING, language_model

# Programs whose memory hangs on values that kernels compute, or on how long they take. simcuda computes no values, and its kernels take no
# time: they are run to show what becomes of them.
BY_VALUES = {
    "masked_rows": "the number of rows that a mask keeps is a kernel's result",
    "half_with_scaler": "the scaler skips steps by the values of gradients",
    "convolutions_timed": "cuDNN times its algorithms and takes the quickest",
}
ENVIRONMENTS = {
    "qwen_expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "qwen_max_split": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"},
}


def small_qwen():
    return language_model("qwen2", hidden_size=896, intermediate_size=4864, num_hidden_layers=12, num_attention_heads=14, num_key_value_heads=2,
                          vocab_size=151936, tie_word_embeddings=True)


def train_language_model(model, batch, length, steps=3, context=contextlib.nullcontext):
    import torch

    model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ids = torch.randint(0, 1000, (batch, length), device="cuda")
    for _ in range(steps):
        with context():
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def qwen_train():
    train_language_model(small_qwen(), 2, 1024)


qwen_expandable = qwen_max_split = qwen_train


def qwen_checkpointed():
    model = small_qwen()
    model.gradient_checkpointing_enable()
    model.train()
    train_language_model(model, 8, 1024)


def gpt2_autocast():
    import torch

    train_language_model(language_model("gpt2", dtype=torch.float32), 8, 512, context=lambda: torch.autocast("cuda", torch.bfloat16))


def half_with_scaler():
    import torch

    model = language_model("gpt2", dtype=torch.float32)
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda", init_scale=2.0**40)
    ids = torch.randint(0, 1000, (4, 512), device="cuda")
    for _ in range(2):
        with torch.autocast("cuda", torch.float16):
            loss = model(input_ids=ids, labels=ids).loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def llama_decode():
    """Token after token. transformers' generate() asks the device whether a sequence has ended."""
    import torch
    from transformers import DynamicCache

    model = language_model("llama", hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                           vocab_size=128256).eval()
    ids, cache = torch.randint(0, 1000, (8, 700), device="cuda"), DynamicCache(config=model.config)
    with torch.inference_mode():
        for _ in range(60):
            ids = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1:].argmax(-1)


def convolutions(size=160, timed=False):
    import torch
    from torch import nn

    torch.backends.cudnn.benchmark = timed
    layers, channels = [], 3
    for wide in (64, 128, 256, 512):
        layers += [nn.Conv2d(channels, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        channels = wide
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        images, labels = torch.randn(64, 3, size, size, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def convolutions_timed():
    convolutions(timed=True)


def volumes_half():
    import torch
    from torch import nn

    model = nn.Sequential(nn.Conv3d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv3d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
                          nn.ConvTranspose3d(64, 32, 2, stride=2), nn.ReLU(), nn.Conv3d(32, 1, 1)).cuda().to(memory_format=torch.channels_last_3d)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(torch.randn(4, 1, 64, 64, 64, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def vit_infer():
    import torch
    from transformers import ViTConfig, ViTModel

    model = ViTModel(ViTConfig()).cuda().half().eval()
    with torch.inference_mode():
        for batch in (64, 256, 128):
            model(torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.half))


def bert_pinned():
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    rows = torch.utils.data.TensorDataset(torch.randint(0, 1000, (96, 384)), torch.randint(0, 2, (96,)))
    model = BertForSequenceClassification(BertConfig()).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for ids, labels in torch.utils.data.DataLoader(rows, batch_size=32, num_workers=1, pin_memory=True):
        loss = model(input_ids=ids.cuda(non_blocking=True), labels=labels.cuda(non_blocking=True)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def recurrent():
    import torch
    from torch import nn

    model, head = nn.LSTM(512, 1024, num_layers=3, batch_first=True).cuda(), nn.Linear(1024, 512).cuda()
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    for _ in range(3):
        out, _ = model(torch.randn(64, 200, 512, device="cuda"))
        head(out).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def algebra():
    import torch

    one = torch.randn(8, 512, 512, device="cuda")
    torch.linalg.svd(one)
    torch.linalg.solve(one, torch.randn(8, 512, 64, device="cuda"))
    torch.linalg.qr(one)
    torch.einsum("bij,bkj->bik", one.double(), one.double())


def fourier():
    import torch

    torch.fft.rfft2(torch.randn(64, 1000, 1000, device="cuda")).abs().sum()


def compiled():
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)
    model = torch.compile(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(torch.randn(16, 512, 512, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def captured_step():
    """A whole step in a graph, as PyTorch's documentation has it."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(4096, 2048), nn.GELU(), nn.Linear(2048, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = torch.randn(512, 4096, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            model(given).sum().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        model(given).sum().backward()
        optimizer.step()
    for _ in range(5):
        given.copy_(torch.randn(512, 4096, device="cuda"))
        graph.replay()


def largest_batch():
    """The search for a batch size that many training scripts begin with, in 8 GiB."""
    import torch

    torch.cuda.set_per_process_memory_fraction((8 << 30) / torch.cuda.get_device_properties(0).total_memory)
    model = language_model("gpt2", dtype=torch.float32).cuda()
    served = 0
    for batch in range(1, 64):
        try:
            ids = torch.randint(0, 1000, (batch, 512), device="cuda")
            model(input_ids=ids, labels=ids).loss.backward()
            model.zero_grad()
            served = batch
        except torch.OutOfMemoryError:
            break
    return served


def masked_rows():
    import torch

    rows = torch.randn(1 << 20, 64, device="cuda")
    kept = rows[rows[:, 0] > 0]
    return (kept * 2).numel() > 0


def rank(index, shards, queue):
    import torch
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    os.environ.update(RANK=str(index), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29577"))
    torch.cuda.set_device(index)
    torch.distributed.init_process_group("nccl")
    model = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)) for _ in range(4))).cuda()
    if shards:
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
    else:
        # The check that all ranks have the same model reads what a kernel of NCCL wrote.
        model = nn.parallel.DistributedDataParallel(model, init_sync=False)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(256, 2048, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    queue.put([index, *(stats[name] for name in ("requested_bytes.all.peak", "reserved_bytes.all.peak", "allocation.all.allocated"))])
    torch.distributed.destroy_process_group()


def on_two(shards):
    """Two processes on two GPUs, which meet by NCCL: what each counted."""
    import torch

    if torch.cuda.device_count() < 2:
        raise RuntimeError("needs two GPUs")
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    ranks = [context.Process(target=rank, args=(index, shards, queue)) for index in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    if any(process.exitcode != 0 for process in ranks):
        raise RuntimeError("a rank failed")
    return sorted(queue.get() for _ in ranks)


def data_parallel():
    return on_two(shards=False)


def fully_sharded():
    return on_two(shards=True)


JOBS = [qwen_train, qwen_checkpointed, gpt2_autocast, llama_decode, convolutions, volumes_half, vit_infer, bert_pinned, recurrent,
        algebra, fourier, compiled, captured_step, largest_batch, masked_rows, data_parallel, fully_sharded, half_with_scaler,
        convolutions_timed, *READING]
NAMED = {**{one.__name__: one for one in JOBS}, "qwen_expandable": qwen_train, "qwen_max_split": qwen_train}


def run(name):
    """What PyTorch says at the end, as plain numbers, and what the device has in use."""
    os.environ.update(ENVIRONMENTS.get(name, {}))
    import torch

    returned = NAMED[name]()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return {
        "returned": returned,
        "live": stats["requested_bytes.all.peak"],
        "allocated": stats["allocated_bytes.all.peak"],
        "reserved": stats["reserved_bytes.all.peak"],
        "requests": stats["allocation.all.allocated"],
        "segments": stats["segment.all.allocated"],
        "used_at_end": total_bytes - free_bytes,
    }
