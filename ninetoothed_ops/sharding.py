"""Share out calls of operators with DTensors over a mesh: importing this registers a rule for each.

    "linear": "... k, n k, +n -> ... n"

A dimension of a signature that the outputs have may be sharded, in all tensors that have it: rows of the input or of
the weight here. One that only inputs have is summed: where it is sharded, the output is a partial sum, and so is an
addend, marked `+`. PyTorch chooses among these what moves least, and moves it; nothing here communicates. An operator
without a row raises PyTorch's NotImplementedError.
"""

import functools
from typing import Any

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

# By the name of an operator. PyTorch remembers what a rule gave by the shapes and placements of tensors, and by other
# arguments from the first integer on: no argument before it may decide.
SIGNATURES = {
    "activation": "... -> ...",
    "activation_backward": "..., ... -> ...",
    "add": "+..., +... -> ...",
    "addmm": "+m n, m k, k n -> m n",
    "bmm": "b m k, b k n -> b m n",
    "gated": "..., ... -> ...",
    "gated_backward": "..., ..., ... -> ..., ...",
    "gated_backward_with_output": "..., ..., ... -> ..., ..., ...",
    "gelu": "... -> ...",
    "linear": "... k, n k, +n -> ... n",
    "mm": "m k, k n -> m n",
    "silu": "... -> ...",
    "silu_backward": "..., ... -> ...",
    "softmax": "... -> ...",
    "softmax_backward": "..., ... -> ...",
    "swiglu": "..., ... -> ...",
    "swiglu_backward": "..., ..., ... -> ..., ...",
}
# Which argument of an operator says along which dimension it computes: that one is not sharded.
ALONG = {"softmax": 1, "softmax_backward": 2}


def shardings(name: str, *args: Any, **_: Any) -> list[tuple[list, list]]:
    """Return the ways to shard a call along one dimension of a mesh: placements of outputs, and those of inputs."""
    inputs, outputs = (side.split(", ") for side in SIGNATURES[name].split(" -> "))
    given = [(each, value.shape) for each, value in zip(inputs, args) if value is not None]
    rank = max(len(shape) - len(_spell(each, 0)) for each, shape in given if "..." in each) if "..." in inputs[0] else 0
    spelled = [(each[0] == "+", _spell(each, rank), shape) for each, shape in given]
    results = [_spell(each, rank) for each in outputs]
    dims = dict.fromkeys(dim for _, each, _ in spelled for dim in each)
    if name in ALONG:
        del dims[results[0][args[ALONG[name]]]]

    ways: list[tuple[list, list]] = [([Replicate()] * len(results), [Replicate()] * len(spelled))]
    for dim in dims:
        if dim in results[0]:
            of_outputs = [Shard(each.index(dim)) for each in results]
            ways.append((of_outputs, [_place(each, shape, dim) for _, each, shape in spelled]))
        else:
            of_inputs = [Partial() if adds else _place(each, shape, dim) for adds, each, shape in spelled]
            ways.append(([Partial()], of_inputs))
    if all(adds for adds, *_ in spelled):
        ways.append(([Partial()], [Partial()] * len(spelled)))
    return ways


def _spell(tensor: str, rank: int) -> list[str]:
    """Return the dimensions of a tensor of a signature, with `rank` numbers in the place of an ellipsis."""
    first = [str(number) for number in range(rank)] if "..." in tensor else []
    return first + tensor.replace("...", " ").strip("+ ").split()


def _place(dims: list[str], shape: torch.Size, dim: str) -> Replicate | Shard:
    """Shard a tensor along a dimension, unless it has it not, or is broadcast along it."""
    own = dims[len(dims) - len(shape) :]
    return Shard(own.index(dim)) if dim in own and shape[own.index(dim)] != 1 else Replicate()


for _name in SIGNATURES:
    _operator = getattr(torch.ops.ninetoothed, _name).default
    register_sharding(_operator)(functools.partial(shardings, _name))
