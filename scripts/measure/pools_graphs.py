"""Programs that capture decode graphs: of a small decoder, and of a server of Llama-3-8B's sizes."""
import ctypes
import gc

from pools_common import BATCHES, MIB, Decoder, capture, mark, program


def serve_with_graphs(order, shared):
    import torch
    with torch.no_grad():
        decoder = Decoder()
        decoder.load()
        mark("loaded")
        decoder.make_cache(max(BATCHES))
        tokens = torch.zeros(max(BATCHES), dtype=torch.long, device="cuda")
        mark("cache")
        decoder.step(tokens)
        mark("warmed")
        pool = torch.cuda.graph_pool_handle() if shared else None
        captured = [capture(decoder, batch, tokens, pool) for batch in sorted(BATCHES, reverse=order == "descending")]
        mark("captured")
        for graph, _ in captured:
            graph.replay()
        mark("replayed")
        del captured, graph
        gc.collect()
        torch.cuda.empty_cache()
        mark("graphs_deleted")


@program(alone=True)
def graphs_shared_descending():
    """Decode graphs of 19 batches in one pool, largest first, as vLLM and SGLang capture."""
    serve_with_graphs("descending", shared=True)


@program(alone=True)
def graphs_shared_ascending():
    """The same, smallest first."""
    serve_with_graphs("ascending", shared=True)


@program(alone=True)
def graphs_own_pools():
    """The same, a pool for each graph."""
    serve_with_graphs("descending", shared=False)


class Server:
    """Llama-3-8B as a server runs it: fused projections, residuals added in place; what `serve:llama-3-8b` asks for, tensor by
    tensor. Attention and activations copy instead of computing, into tensors of the right sizes."""

    HIDDEN, KV, FFN, WORDS, LAYERS = 4096, 1024, 14336, 128256, 32

    def __init__(self):
        import torch
        hidden, kv, ffn = self.HIDDEN, self.KV, self.FFN

        def make(*shape):
            return torch.full(shape, 0.01, dtype=torch.bfloat16, device="cuda")

        self.words = make(self.WORDS, hidden)
        self.layers = [(make(hidden + 2 * kv, hidden), make(hidden, hidden), make(2 * ffn, hidden), make(hidden, ffn))
                       for _ in range(self.LAYERS)]
        self.cache = [torch.empty(512 * MIB, dtype=torch.uint8, device="cuda") for _ in range(self.LAYERS)]

    def step(self, tokens):
        import torch
        rows = tokens.shape[0]

        def copied(source, columns):
            return torch.empty(rows, columns, dtype=torch.bfloat16, device="cuda").copy_(source[:, :columns])

        residual = torch.nn.functional.embedding(tokens, self.words)
        hidden = copied(residual, self.HIDDEN)
        for qkv, out, up, down in self.layers:
            joint = hidden @ qkv.t()
            mixed = copied(joint, self.HIDDEN)
            summed = mixed @ out.t()
            del mixed, joint
            hidden = summed
            del summed
            residual.add_(hidden)
            inner = hidden @ up.t()
            inner = copied(inner, self.FFN)
            summed = inner @ down.t()
            del inner
            hidden = summed
            del summed
            residual.add_(hidden)


def graph_sizes(largest):
    return [1, 2, 4] + list(range(8, min(largest, 255) + 1, 8)) + list(range(256, largest + 1, 16))


def nodes_of(graph):
    """Nodes of a graph that was made with keep_graph."""
    count = ctypes.c_size_t()
    ctypes.CDLL("libcudart.so.13").cudaGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count))
    return count.value


def server_graphs(order, shared, largest=512):
    """Each graph's row says what the device and the allocator held more after its capture, as vLLM's profile measures it."""
    import torch
    with torch.no_grad():
        server, side = Server(), torch.cuda.Stream()
        tokens = torch.zeros(largest, dtype=torch.long, device="cuda")
        mark("cache")
        server.step(tokens)
        mark("warmed")
        pool = torch.cuda.graph_pool_handle() if shared else None
        graphs, added = [], []
        with torch.cuda.stream(side):
            for size in sorted(graph_sizes(largest), reverse=order == "descending"):
                server.step(tokens[:size])
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
                before = torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()
                graph = torch.cuda.CUDAGraph(keep_graph=True)
                with torch.cuda.graph(graph, pool=pool, stream=side):
                    server.step(tokens[:size])
                graph.instantiate()
                torch.cuda.synchronize()
                added.append([size, before[0] - torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved() - before[1], nodes_of(graph)])
                graphs.append(graph)
        mark("captured", added=added)
        for graph in graphs:
            graph.replay()
        mark("replayed")


@program(alone=True)
def server_shared_descending():
    """51 graphs of Llama-3-8B, 1 to 512 tokens, in one pool, largest first."""
    server_graphs("descending", shared=True)


@program(alone=True)
def server_shared_ascending():
    """The same, smallest first."""
    server_graphs("ascending", shared=True)


@program(alone=True)
def server_own_pools():
    """The same, a pool for each graph."""
    server_graphs("descending", shared=False)


@program(confs=("unset",), alone=True)
def server_shared_128():
    """19 graphs, 1 to 128 tokens, in one pool, largest first."""
    server_graphs("descending", shared=True, largest=128)


@program(confs=("unset",), alone=True)
def graph_nodes():
    """What a graph costs outside the allocator: graphs of so many small kernels."""
    import torch
    buffer = torch.zeros(1024, device="cuda")
    buffer.add_(1)
    kept = []
    for nodes, copies in ((1, 8), (100, 8), (100, 56), (1000, 4), (1000, 12), (4000, 2), (4000, 6), (20_000, 1)):
        torch.cuda.synchronize()
        before = torch.cuda.mem_get_info()[0]
        for _ in range(copies):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(nodes):
                    buffer.add_(1)
            kept.append(graph)
        torch.cuda.synchronize()
        captured = torch.cuda.mem_get_info()[0]
        for graph in kept[-copies:]:
            graph.replay()
        torch.cuda.synchronize()
        mark(f"{copies}_of_{nodes}", captured=before - captured, replayed=captured - torch.cuda.mem_get_info()[0])
