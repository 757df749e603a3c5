"""A rank of many that share every product, a model of transformers with the plan of PyTorch's tensor parallel tutorial, or the experts. The
other ranks are not there."""
from described_models import checkpoint, without_data


def plan_of_block(shares_tokens):
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel
    columns, rows = ColwiseParallel(), RowwiseParallel(output_layouts=Shard(1)) if shares_tokens else RowwiseParallel()
    plan = {f"self_attn.{name}_proj": columns for name in ("q", "k", "v")}
    plan.update({"self_attn.o_proj": rows, "mlp.gate_proj": columns, "mlp.up_proj": columns, "mlp.down_proj": rows})
    if shares_tokens:
        from torch.distributed.tensor import Replicate
        gathers = {"desired_input_kwarg_layouts": {"hidden_states": Replicate()}, "input_kwarg_layouts": {"hidden_states": Shard(1)}}
        plan.update({"input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel(),
                     "self_attn": PrepareModuleInput(**gathers),
                     "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))})
    return plan


def mesh_of(sides):
    """`sides`: ranks along each side, by its name."""
    from torch.distributed.device_mesh import init_device_mesh
    return init_device_mesh("cuda", tuple(sides.values()), mesh_dim_names=tuple(sides))


def cut(keys, mesh, model):
    """Every product of a model, or of what a stage of a pipeline has of it."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
    shares_tokens = bool(keys.number("sp"))
    tokens = Shard(1) if shares_tokens else Replicate()
    plan = {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=tokens),
            "lm_head": ColwiseParallel(input_layouts=tokens, output_layouts=Replicate())}
    if shares_tokens:
        plan["model.norm"] = SequenceParallel()
    names = {name for name, _ in model.named_modules()}
    parallelize_module(model, mesh, {name: way for name, way in plan.items() if name in names})
    for block in model.model.layers:
        parallelize_module(block, mesh, plan_of_block(shares_tokens))
    return model


def shared(keys, mesh):
    model = without_data(keys).train()
    checkpoint(keys, model)
    cut(keys, mesh, model)
    if keys.number("tied"):
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


def answering(keys):
    """A rank's part by transformers' own plan."""
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism
    mesh = mesh_of({"tp": keys.number("tp")})
    model = without_data(keys)
    return on_device(keys, apply_tensor_parallelism(model, mesh))


def on_device(keys, model):
    if keys.number("tied"):
        model.lm_head.weight = None  # else there would be two
    model.to_empty(device="cuda")
    model.tie_weights()
    return model


def with_own_experts(keys, mesh):
    """A rank has some experts of each block, and all tokens, by transformers' own plan."""
    from transformers.distributed.configuration_utils import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism
    model = without_data(keys).train()
    checkpoint(keys, model)
    model.config.distributed_config = DistributedConfig(enable_expert_parallel=True)
    return apply_tensor_parallelism(model, mesh)
