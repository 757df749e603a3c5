#!/usr/bin/env python3
"""Does a memory history break the backward of a checkpointed function? A row for each way to record: 'ok', or the error. On a card, or on simcuda:
simcuda-run --kernels nothing python history_and_checkpoint.py"""

import torch
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

RECORDED = {
    "not recorded": None,
    "context=None": {"context": None},
    "context='alloc'": {"context": "alloc"},
    "context='state'": {"context": "state"},
    "context='all' (default), stacks='python'": {"stacks": "python"},
    "context='all' (default), stacks='all' (default)": {},
}
# The operator that saves last: its own result, a tensor beside its result, or its input alone.
FUNCTIONS = {
    "exp": lambda x, wanted: torch.exp(layer(x)).sum(),
    "softmax": lambda x, wanted: torch.softmax(layer(x), -1).sum(),
    "cross_entropy": lambda x, wanted: torch.nn.functional.cross_entropy(layer(x).float(), wanted),
    "linear": lambda x, wanted: layer(torch.relu(layer(x))),
}


def backward(function, early_stop):
    """'ok', or the error."""
    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    wanted = torch.randint(0, 64, (8,), device="cuda")
    with set_checkpoint_early_stop(early_stop):
        result = checkpoint(function, x, wanted, use_reentrant=False)
        try:
            result.sum().backward()
        except SystemError as error:
            return str(error)
    return "ok"


layer = torch.nn.Linear(64, 64, device="cuda")
print(f"torch {torch.__version__}, Python {torch.sys.version.split()[0]}, {torch.cuda.get_device_name()}")
for name, keywords in RECORDED.items():
    torch.cuda.memory._record_memory_history(enabled=None)
    if keywords is not None:
        torch.cuda.memory._record_memory_history(**keywords)
    for early_stop in (True, False):
        for operator, function in FUNCTIONS.items():
            print(f"{name}; early_stop={early_stop}; {operator}: {backward(function, early_stop)}")
