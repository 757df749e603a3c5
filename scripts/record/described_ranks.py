"""How a rank of many trains a described model: FSDP 1 and 2, DistributedDataParallel, shared sequences. The other ranks are not there
(references/lone_rank.py), unless torchrun started them: then it is what they are told to be, with NCCL."""
import functools
import math
import os

import described_tensor
from described_models import dtype_of, make_model, narrowed, without_data
from references import context, lone_rank


def join(keys):
    """The rank's process group, and what must live as long. None where there is one rank."""
    ranks, rank = math.prod(keys.number(key, 1) for key in ("dp", "cp", "pp", "tp", "ep")), keys.number("rank")
    if "WORLD_SIZE" not in os.environ:
        return lone_rank.join(rank, ranks) if ranks > 1 or keys.number("zero") else None
    import torch
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    return torch.distributed.group.WORLD


def blocks_of(keys, model):
    if hasattr(model, "peft_config"):
        model = model.get_base_model()
    if keys.family == "gpt2":
        return list(model.transformer.h)
    if keys.family == "bert":
        return list(model.bert.encoder.layer)
    if keys.family == "t5":
        return [*model.encoder.block, *model.decoder.block]
    return list(model.model.layers)


def mesh_of(keys):
    """The ranks of `dp`, `cp`, and of `tp` or `ep`, as parts of a mesh by their names; with `replicate` dp is in two parts."""
    dp, replicas = keys.number("dp", 1), keys.number("replicate", 1)
    names = {"replicate": replicas, "shard": dp // replicas} if replicas > 1 else {"dp": dp, "cp": keys.number("cp", 1)}
    names.update({name: keys.number(name) for name in ("tp", "ep") if keys.number(name, 1) > 1})
    return described_tensor.mesh_of(names)


def sharded(keys, model, mesh=None):
    """fully_shard of each block, then of the rest. `mesh`: of all ranks, where some have other parts of its products."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    options = {} if keys.number("reshard", 1) else {"reshard_after_forward": False}  # the rest never is, unless told
    shares_tokens, replicas = keys.number("cp", 1) > 1, keys.number("replicate", 1)
    if mesh is None and (shares_tokens or replicas > 1):
        mesh = mesh_of(keys)
    if shares_tokens:
        options["mesh"] = mesh["dp", "cp"]._flatten("all")
        model.sequence_mesh = mesh["cp"]
        context.without_masks(model)
    elif mesh is not None:
        options["mesh"] = mesh["replicate", "shard"] if replicas > 1 else mesh["dp"]
    if keys.word("gathered", "same") == "bf16":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in blocks_of(keys, model):
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model


def flattened(keys, model, mesh=None):
    """FullyShardedDataParallel, a flat parameter for each block."""
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    kind = {type(block) for block in blocks_of(keys, model)}
    options = {}
    if keys.word("gathered", "same") == "bf16":
        options["mixed_precision"] = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
    strategy = ShardingStrategy.FULL_SHARD if keys.number("reshard", 1) else ShardingStrategy.SHARD_GRAD_OP
    if keys.number("replicate", 1) > 1:
        strategy = ShardingStrategy.HYBRID_SHARD if keys.number("reshard", 1) else ShardingStrategy._HYBRID_SHARD_ZERO2
        options["device_mesh"] = mesh["replicate", "shard"] if mesh is not None else mesh_of(keys)
    elif mesh is not None:
        options["device_mesh"] = mesh["dp"]
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=kind)
    return FullyShardedDataParallel(model, sharding_strategy=strategy, use_orig_params=True, auto_wrap_policy=policy,
                                    device_id=torch.cuda.current_device(), **options)


def replicated(keys, model, mesh=None):
    import torch
    from torch.nn.parallel import DistributedDataParallel, distributed
    # It asks whether the ranks' parameters have the same shapes, and of nobody it gets no answer.
    distributed._verify_param_shape_across_processes = lambda *_: True
    where = {"device_ids": [torch.cuda.current_device()]} if mesh is None else {"device_mesh": mesh["dp"]}  # takes DTensors apart
    return DistributedDataParallel(model, bucket_cap_mb=keys.number("bucket_mb") or None,
                                   gradient_as_bucket_view=bool(keys.number("bucket_view")), **where)


def cut_model(keys):
    """A model whose products or experts are cut by ranks, with its data shared by others or by nobody."""
    mesh = mesh_of(keys)
    name = "tp" if keys.number("tp", 1) > 1 else "ep"
    model = (described_tensor.shared if name == "tp" else described_tensor.with_own_experts)(keys, mesh[name])
    if keys.number("dp", 1) * keys.number("cp", 1) == 1:
        return described_tensor.on_device(keys, model)
    fsdp, is_deferred = fsdp_of(keys)
    if fsdp == 2 and is_deferred:
        return described_tensor.on_device(keys, sharded(keys, model, mesh))
    model = described_tensor.on_device(keys, model)
    return {0: replicated, 1: flattened, 2: sharded}[fsdp](keys, model, mesh)


def data_group(keys):
    """Those with other data and the same parts of the model: None where these are all ranks."""
    is_cut, is_shared = (keys.number(one, 1) * keys.number(other, 1) > 1 for one, other in (("tp", "ep"), ("dp", "cp")))
    return mesh_of(keys)["dp"].get_group() if is_cut and is_shared and keys.number("replicate", 1) == 1 else None


def fsdp_of(keys):
    """Its version, 0 for none, and whether the model is made in shards."""
    return keys.number("fsdp", 2 if keys.number("cp", 1) > 1 else 0), keys.word("initialize", "deferred") == "deferred"


def device_model(keys, prepare):
    """The rank's model. `prepare` gets the model before it is wrapped."""
    if keys.number("tp", 1) > 1 or keys.number("ep", 1) > 1:
        return cut_model(keys)
    fsdp, is_deferred = fsdp_of(keys)
    if fsdp == 2 and is_deferred:
        return sharded(keys, prepare(without_data(keys).train())).to_empty(device="cuda")
    model = prepare(narrowed(keys, make_model(keys)).to("cuda", dtype_of(keys)).train())
    if keys.number("dp", 1) * keys.number("cp", 1) == 1:
        return model
    return {0: replicated, 1: flattened, 2: sharded}[fsdp](keys, model)
