"""What the programs of pools_card.py share: their list, their marks, a decoder, its graphs."""
MIB, GIB = 1 << 20, 1 << 30
BATCHES = [1, 2, 4, *range(8, 129, 8)]
LENGTH_MAX = 512
PROGRAMS = {}
ROWS = []
STATE = {"alone": False}


def program(confs=("unset", "expandable"), alone=False):
    """A program, the config strings it runs under (names of CONFS or strings), and whether it needs the card for itself."""
    def add(function):
        PROGRAMS[function.__name__] = (function, confs, alone)
        return function
    return add


def pools_now():
    """{pool: {reserved, live, stranded}} of the segments of private pools."""
    import torch
    pools = {}
    for segment in torch.cuda.memory_snapshot():
        pool = tuple(segment["segment_pool_id"])
        if pool != (0, 0):
            held = pools.setdefault(f"{pool[0]}.{pool[1]}", {"reserved": 0, "live": 0, "stranded": 0})
            held["reserved"] += segment["total_size"]
            for block in segment["blocks"]:
                held["live"] += block["size"] * (block["state"] != "inactive")
                held["stranded"] += block["size"] * (block["state"] == "inactive")
    return pools


def mark(name, **more):
    import torch
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    ROWS.append({"mark": name, "allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
                 "device": total - free if STATE["alone"] else None, "pools": pools_now(), **more})


def limit(size_bytes):
    import torch
    torch.cuda.set_per_process_memory_fraction(size_bytes / torch.cuda.get_device_properties(0).total_memory)


def try_request(size_bytes):
    """The tensor, or None, and the first line of what failed."""
    import torch
    try:
        return torch.empty(size_bytes, dtype=torch.uint8, device="cuda"), ""
    except RuntimeError as failure:
        return None, str(failure).split("\n", maxsplit=1)[0]


class Decoder:
    """A decoder of Llama's kind with a cache of fixed size: 16 layers of width 2048, 0.9 G weights in bf16."""

    def __init__(self, layers=16, width=2048, heads=16, ffn=5632, vocabulary=32000):
        self.layers, self.width, self.heads, self.ffn, self.vocabulary = layers, width, heads, ffn, vocabulary
        self.weights, self.cache = [], None

    def shapes(self):
        width, ffn = self.width, self.ffn
        return [(self.vocabulary, width)] + [shape for _ in range(self.layers)
                                             for shape in ((3 * width, width), (width, width), (2 * ffn, width), (width, ffn))]

    def load(self, convert=False):
        """Makes the weights; `convert`: each comes in fp32 first, as a checkpoint's would, and is cast."""
        import torch
        for shape in self.shapes():
            if convert:
                whole = torch.empty(shape, dtype=torch.float32, device="cuda").fill_(0.01)
                self.weights.append(whole.to(torch.bfloat16))
                del whole
            else:
                self.weights.append(torch.empty(shape, dtype=torch.bfloat16, device="cuda").fill_(0.01))

    def make_cache(self, batch, length=LENGTH_MAX):
        import torch
        self.cache = [torch.zeros(2, batch, self.heads, length, self.width // self.heads, dtype=torch.bfloat16, device="cuda")
                      for _ in range(self.layers)]

    def step(self, tokens, position=7):
        """Logits of one token for each row of `tokens`."""
        import torch
        from torch.nn import functional
        batch = tokens.shape[0]
        x = functional.embedding(tokens, self.weights[0])
        for layer in range(self.layers):
            qkv, out, up, down = self.weights[1 + 4 * layer:5 + 4 * layer]
            y = functional.rms_norm(x, (self.width,))
            q, k, v = (y @ qkv.t()).view(batch, 3, self.heads, 1, -1).unbind(1)
            cache = self.cache[layer]
            cache[0, :batch, :, position:position + 1] = k
            cache[1, :batch, :, position:position + 1] = v
            mixed = functional.scaled_dot_product_attention(q, cache[0, :batch], cache[1, :batch])
            x = x + mixed.reshape(batch, self.width) @ out.t()
            gate, value = (functional.rms_norm(x, (self.width,)) @ up.t()).chunk(2, dim=-1)
            x = x + (functional.silu(gate) * value) @ down.t()
        return torch.softmax((x @ self.weights[0].t()).float(), dim=-1)


def capture(decoder, batch, tokens, pool):
    """One decode graph, after a run without a graph, as servers do it."""
    import torch
    inputs = tokens[:batch]
    decoder.step(inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        out = decoder.step(inputs)
    return graph, out
