"""Programs of other kinds: recurrent nets, speech, graphs, embeddings, compiled code, several streams, several GPUs."""
from programs.job import adamw, update


def lstm_varlen(job):
    """A language model of three LSTM layers, packed texts of varying length, float32, gradients clipped, the loss read."""
    import torch
    from torch import nn
    width = job.of(1536, 32)
    with job.on_device():
        embedding = nn.Embedding(job.of(32000, 97), width)
        layers = nn.LSTM(width, width, 3, batch_first=True, dropout=0.1)
        head = nn.Linear(width, job.of(32000, 97))
    model = nn.ModuleList([embedding, layers, head]).train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        lengths = sorted((job.length(90, 0.5, 16, 256) for _ in range(job.of(48, 2))), reverse=True)
        tokens = job.ids(48, lengths[0])
        packed = nn.utils.rnn.pack_padded_sequence(embedding(tokens), torch.tensor(lengths), batch_first=True)
        hidden = nn.utils.rnn.pad_packed_sequence(layers(packed)[0], batch_first=True)[0]
        loss = nn.functional.cross_entropy(head(hidden).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update(optimizer)
        loss.item()


def speech_ctc(job):
    """Speech of 2 to 30 s: convolutions over sound, a transformer, CTC over letters; batch 16, padded to the longest."""
    import torch
    from torch import nn
    width = job.of(512, 32)
    strides = (5, 4, 4, 4)
    layers, inputs = [], 1
    for stride in strides:
        layers += [nn.Conv1d(inputs, width, 2 * stride, stride), nn.GELU()]
        inputs = width
    with job.on_device():
        sound = nn.Sequential(*layers).to(job.device)
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, activation="gelu"), job.of(10, 2))
        head = nn.Linear(width, 32)
    model = nn.ModuleList([sound, encoder, head]).train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        samples = job.of(16000, 800) * job.longest(16, 9, 0.5, 2, 30)
        hidden = torch.randn(job.of(16, 2), 1, samples, device=job.device)
        with job.amp():
            letters = head(encoder(sound(hidden).transpose(1, 2)))
        letters = nn.functional.log_softmax(letters.float(), -1).transpose(0, 1)
        batch, frames = letters.shape[1], letters.shape[0]
        texts = torch.randint(1, 32, (batch, max(1, frames // 8)), device=job.device)
        loss = nn.functional.ctc_loss(letters, texts, [frames] * batch, [texts.shape[1]] * batch)
        loss.backward()
        update(optimizer)


def graph_messages(job):
    """Messages along the edges of a random graph whose nodes and edges change every step; index_add gathers them."""
    import torch
    from torch import nn
    width = job.of(256, 16)
    with job.on_device():
        model = nn.ModuleList([nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(6)]).train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        nodes = job.length(30_000, 0.4, 8_000, 80_000)
        edges = nodes * job.random.choice([6, 8, 10])
        state = torch.randn(nodes, width, device=job.device)
        ends = torch.randint(0, nodes, (2, edges), device=job.device)
        for layer in model:
            message = layer(torch.cat([state[ends[0]], state[ends[1]]], -1))
            state = state + torch.zeros_like(state).index_add(0, ends[1], message)
        state.square().mean().backward()
        update(optimizer)


def embeddings(job):
    """Recommendation: 12 tables of embeddings with sparse gradients, bags of varying size, a dense net, the loss read."""
    import torch
    from torch import nn
    width = job.of(128, 8)
    with job.on_device():
        tables = nn.ModuleList([nn.EmbeddingBag(job.of(400_000, 100), width, mode="sum", sparse=True) for _ in range(12)])
        dense = nn.Sequential(nn.Linear(12 * width, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 2048), nn.ReLU(),
                              nn.Linear(2048, 1)).train()
    makers = [torch.optim.SparseAdam(list(tables.parameters()), lr=1e-3), adamw(dense)]
    batch = job.of(32768, 16)
    for _ in job.steps():
        yield
        bags = []
        for table in tables:
            each = job.random.randint(4, 24)
            bags.append(table(torch.randint(0, table.num_embeddings, (batch, each), device=job.device)))
        loss = nn.functional.softplus(dense(torch.cat(bags, -1))).mean()
        loss.backward()
        for maker in makers:
            update(maker)
        loss.item()


def compiled(job):
    """torch.compile of a transformer's layers, two lengths of text that take turns, bf16 autocast."""
    import torch
    from torch import nn
    width = job.of(1024, 32)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.thin = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, hidden):
            batch, length, _ = hidden.shape
            query, key, value = self.mix(self.norms[0](hidden)).view(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            hidden = hidden + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return hidden + self.thin(nn.functional.gelu(self.wide(self.norms[1](hidden))))

    with job.on_device():
        embedding, layers, head = nn.Embedding(job.of(32000, 97), width), nn.ModuleList([Layer() for _ in range(job.of(12, 2))]), \
            nn.Linear(width, job.of(32000, 97))
    model = nn.ModuleList([embedding, layers, head]).train()
    optimizer = adamw(model)
    run = [layer if job.tiny else torch.compile(layer, dynamic=False) for layer in layers]
    for step in job.steps():
        yield
        tokens = job.ids(16, job.of((512, 768)[step % 2], 8))
        with job.amp():
            hidden = embedding(tokens)
            for layer in run:
                hidden = layer(hidden)
            loss = nn.functional.cross_entropy(head(hidden).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        update(optimizer)


def two_streams(job):
    """Batches come on a stream of their own, and a second model runs on a side stream; record_stream says so."""
    import torch
    main = torch.cuda.current_stream()
    copying, aside = torch.cuda.Stream(), torch.cuda.Stream()
    model, helper = job.gpt2("sdpa", 10).train(), job.llama(4, 768).to(torch.bfloat16).eval()
    optimizer = adamw(model)

    def fetch():
        tokens = torch.randint(0, 32000, (10, job.length(450, 0.5, 96, 1024))).pin_memory()
        with torch.cuda.stream(copying):
            return tokens.to("cuda", non_blocking=True)

    coming = fetch()
    for _ in job.steps():
        yield
        main.wait_stream(copying)
        tokens, coming = coming, fetch()
        tokens.record_stream(main)
        aside.wait_stream(main)
        with torch.cuda.stream(aside), torch.no_grad():
            tokens.record_stream(aside)
            weight = helper(input_ids=tokens, use_cache=False).logits.float().logsumexp(-1)
        with job.amp():
            logits = model(input_ids=tokens).logits
        main.wait_stream(aside)
        weight.record_stream(main)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten(), reduction="none")
        (loss * torch.sigmoid(weight.flatten())).mean().backward()
        update(optimizer)


def ddp_gpt2(job):
    """GPT-2 124M on two GPUs under DistributedDataParallel, texts of varying length, the same on both."""
    import torch
    model = torch.nn.parallel.DistributedDataParallel(job.gpt2("sdpa").train(), device_ids=[torch.cuda.current_device()])
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        tokens = job.ids(12, job.length(490, 0.5, 128, 1024), 50257)
        with job.amp():
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        update(optimizer)
        loss.item()


PROGRAMS = [lstm_varlen, speech_ctc, graph_messages, embeddings, compiled, two_streams, ddp_gpt2]
CUDA_ONLY = {"two_streams", "ddp_gpt2"}
RANKS = {"ddp_gpt2": 2}
