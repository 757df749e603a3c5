"""A rank of many that trains with DeepSpeed's ZeRO (zero=1, 2, 3), as its engine does. The other ranks are not there."""
import contextlib
import os

import record_pytorch
from described_models import dtype_of, make_model

# A key, its field, and what "auto" is for a model's hidden size (transformers' integrations/deepspeed.py); then those of the third stage.
REDUCE_FIELD = "reduce_elements", "reduce_bucket_size", lambda hidden: hidden * hidden
SHARD_FIELDS = (("prefetch_elements", "stage3_prefetch_bucket_size", lambda hidden: int(0.9 * hidden * hidden)),
                ("persistent_elements", "stage3_param_persistence_threshold", lambda hidden: 10 * hidden),
                ("live_elements", "stage3_max_live_parameters", None), ("reuse_elements", "stage3_max_reuse_distance", None),
                ("group_elements", "sub_group_size", None))


def zero_fields(keys):
    """Fields that the text sets, by its keys or by its presets."""
    fills_in, hidden = keys.word("zero_presets") == "trainer", keys.number("hidden")
    for key, field, automatic in (REDUCE_FIELD, *(SHARD_FIELDS if keys.number("zero") == 3 else ())):
        if keys.word(key):
            yield field, keys.number(key)
        elif fills_in and automatic:
            yield field, automatic(hidden)
    if keys.word("overlap"):
        yield "overlap_comm", keys.number("overlap") == 1


def config_of(keys):
    zero = {"stage": keys.number("zero"), **dict(zero_fields(keys))}
    offload = keys.word("offload", "none")
    if offload != "none":
        zero["offload_optimizer"] = {"device": "cpu"}
    if offload == "parameters":
        zero["offload_param"] = {"device": "cpu"}
    return {"train_micro_batch_size_per_gpu": keys.number("batch"), "gradient_accumulation_steps": keys.number("accumulate", 1),
            "zero_optimization": zero, "bf16": {"enabled": keys.word("precision") == "bf16"}, "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False, **({"gradient_clipping": 1.0} if keys.number("clip") else {})}


def device_model(keys, config, prepare):
    """Made in shards, or on the device."""
    import deepspeed
    import torch
    from transformers.initialization import no_init_weights
    is_deferred = keys.number("zero") == 3 and keys.word("initialize", "deferred") == "deferred"
    with contextlib.ExitStack() as stack:
        if is_deferred:
            stack.enter_context(no_init_weights())
            stack.enter_context(deepspeed.zero.Init(config_dict_or_path=config))
        model = make_model(keys)
    model.tie_weights()
    if not is_deferred:
        model = model.to("cuda", dtype_of(keys) or torch.float32)
    return prepare(keys, model.train())


def train(keys, prepare, make_optimizer, batches):
    os.environ.setdefault("LOCAL_RANK", "0")
    import deepspeed
    import torch
    from deepspeed.runtime.zero import partition_parameters, partitioned_param_coordinator, stage3, stage_1_and_2
    for module in (partition_parameters, partitioned_param_coordinator, stage3):
        module.assert_ints_same_as_other_ranks = lambda *_: None  # of nobody it gets no answer
    for module in (stage_1_and_2, stage3):  # what nobody computed is finite
        module.has_inf_or_nan = lambda values: values.new_zeros((), dtype=torch.bool)
        module.is_invalid_grad_norm = lambda _: False
    config = config_of(keys)
    model = device_model(keys, config, prepare)
    optimizer = make_optimizer(keys, [one for one in model.parameters() if one.requires_grad])
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    make, step_count, accumulate, keeps_batch = batches(keys), keys.number("steps", 4), keys.number("accumulate", 1), keys.number("keep_batch", 1)
    keys.check()
    inputs = None
    for step in range(step_count):
        record_pytorch.mark(f"part{step}")
        for _ in range(accumulate):
            if keeps_batch:
                inputs = make()
                loss = engine(**inputs).loss
            else:
                loss = engine(**make()).loss
            engine.backward(loss)
            engine.step()
