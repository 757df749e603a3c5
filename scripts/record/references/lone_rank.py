"""A process group with one rank that is there: collective operations leave their results as they are, and hold what they were
given until somebody waits, as NCCL's do. So one GPU, or none, shows what a rank of many asks of the allocator. Rank 0 of
cp2_llama_bf16 gave the same file to the byte alone on an H200 as on two with NCCL (2026-11-25)."""
import functools
import os


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

    for name in ("allgather", "_allgather_base", "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced", "alltoall", "alltoall_base",
                 "barrier", "broadcast", "gather", "reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "scatter"):
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


def stand_in(rank, size):
    """Gives this process what torchrun gives a script's, and makes every group that the script asks for one of the lone rank. One device is
    seen, so LOCAL_RANK is 0. What objects the other ranks would send is this rank's. Returns what must live as long."""
    import torch.distributed
    from torch.distributed import device_mesh, distributed_c10d
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK="0", LOCAL_WORLD_SIZE=str(size), GROUP_RANK="0", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29500", TORCHELASTIC_RUN_ID="lone")
    held, own_init, own_group = [], distributed_c10d.init_process_group, distributed_c10d.new_group

    @functools.wraps(own_init)
    def init_process_group(backend=None, *options, **named):
        if backend == "lone":
            own_init(backend, *options, **named)
        else:
            held.append(join(rank, size))

    @functools.wraps(own_group)
    def new_group(ranks=None, *_, **named):
        return own_group(ranks, group_desc=named.get("group_desc"))

    def fill(listed, given):
        if listed is not None:
            listed[:] = [given] * len(listed)

    def all_gather_object(object_list, obj, group=None):
        fill(object_list, obj)

    def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
        fill(object_gather_list, obj)

    def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, *_, **__):
        scatter_object_output_list[0] = scatter_object_input_list[rank] if scatter_object_input_list else None

    def nothing(*_, **__):
        pass

    given = {"broadcast_object_list": nothing, "monitored_barrier": nothing}
    given |= {one.__name__: one for one in (init_process_group, new_group, all_gather_object, gather_object, scatter_object_list)}
    for module in (torch.distributed, distributed_c10d, device_mesh):
        for name, function in given.items():
            if hasattr(module, name):
                setattr(module, name, function)
    # DistributedDataParallel compares the numbers of parameters, which the others do not send.
    torch.nn.parallel.distributed._verify_param_shape_across_processes = lambda *_: True
    return held
