"""A process group with one rank that is there: collective operations leave their results as they are, and hold what they were
given until somebody waits, as NCCL's do. So one GPU, or none, shows what a rank of many asks of the allocator. Rank 0 of
cp2_llama_bf16 gave the same file to the byte alone on an H200 as on two with NCCL (2026-11-25)."""


def join(rank, size):
    """Makes it the default group of this process. `rank` of `size`."""
    import torch.distributed

    class Operation(torch.distributed._Work):
        def __init__(self, *held):
            super().__init__()
            self.held = held

        def wait(self, timeout=None):
            self.held = ()
            return True

        def get_future(self):
            done = torch.futures.Future()
            done.set_result(self.held[0] if self.held else None)
            return done

    class LoneRank(torch.distributed.ProcessGroup):
        @property
        def group_name(self):
            return torch.distributed.distributed_c10d._world.pg_names[self]

        def getBackendName(self):
            return "lone"

    def operation(_, *arguments, **__):
        return Operation(*arguments)

    for name in ("allgather", "_allgather_base", "allreduce", "alltoall_base", "broadcast", "reduce_scatter",
                 "_reduce_scatter_base", "barrier"):
        setattr(LoneRank, name, operation)
    for name in ("send", "recv"):  # in a batch, as pipelines call them, NCCL's hold nothing
        setattr(LoneRank, name, lambda *_, **__: Operation())
    def functional(result):
        def run(given, *options):
            out = result(given, *options)
            torch._C._distributed_c10d._register_work(out, Operation(given))
            return out
        return run

    def of_rows(given, count):
        return given.new_empty((count, *given.shape[1:]))

    # Functional ones, which PyTorch 2.11 asks of C++ groups alone.
    library = torch.library.Library("_c10d_functional", "IMPL")
    library.impl("all_gather_into_tensor", functional(lambda given, count, _: of_rows(given, given.shape[0] * count)), "CUDA")
    library.impl("reduce_scatter_tensor", functional(lambda given, _, count, __: of_rows(given, given.shape[0] // count)), "CUDA")
    library.impl("all_reduce", functional(lambda given, *_: given.clone(memory_format=torch.contiguous_format)), "CUDA")
    torch.distributed.Backend.register_backend("lone", lambda options, _: LoneRank(options.group_rank, options.group_size),
                                               extended_api=True, devices=["cuda"])
    torch.distributed.init_process_group("lone", store=torch.distributed.HashStore(), rank=rank, world_size=size)
    return library  # what is replaced lasts as long as this
