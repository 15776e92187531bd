"""Floating-point operations of our products, for `torch.utils.flop_counter.FlopCounterMode`: importing this tells it.

Counted as PyTorch counts: two operations a multiplication, whole matrices whatever is masked, and products alone. An
operator without a formula counts as nothing there. PyTorch's counter imports Triton, and nothing else of ours does, so
that this is imported after the counter, and not with the operators.
"""

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch.utils.flop_counter import register_flop_formula

Shape = Sequence[int]


def _product(left: Shape, columns: int) -> int:
    return 2 * prod(left) * columns


def _attention(query: Shape, key: Shape, columns: int) -> int:
    return _product((*query[:-1], key[-2]), columns)


def _convolution(output: Shape, weight: Shape) -> int:
    return _product(output, prod(weight[1:]))


def _weight_gradient(grad: Shape, weight: Shape, groups: int = 1) -> int:
    # PyTorch takes each filter to see all channels here, and in no other formula.
    return groups * _convolution(grad, weight)


def _jagged(tensors: Sequence[torch.Tensor | None], factor: int) -> int:
    """Count the products of each entry's own queries and keys, as PyTorch does for packed rows."""
    query, key, _, offsets, lengths, key_offsets, key_lengths = tensors
    assert query is not None and key is not None
    rows = _entries(query, offsets, lengths)
    columns = rows if key_offsets is None else _entries(key, key_offsets, key_lengths)
    return 2 * query.shape[0] * factor * sum(m * n for m, n in zip(rows, columns))


def _entries(values: torch.Tensor, offsets: torch.Tensor | None, lengths: torch.Tensor | None) -> list[int]:
    """Return how many rows each entry has; on the meta device nobody knows, and all are as long as the values allow."""
    assert offsets is not None
    if offsets.device.type == "meta":
        count = offsets.shape[0] - 1
        return [values.shape[1] // max(count, 1)] * count
    return (offsets.diff() if lengths is None else lengths).tolist()


# Of the shapes of an operator's arguments, and of its result.
FORMULAS: dict[str, Callable[..., int]] = {
    "mm": lambda left, right, **_: _product(left, right[-1]),
    "bmm": lambda left, right, **_: _product(left, right[-1]),
    "addmm": lambda _addend, left, right, **_: _product(left, right[-1]),
    "linear": lambda input, weight, *_, **__: _product(input, weight[0]),
    "linear_cross_entropy": lambda input, weight, *_, **__: _product(input, weight[0]),
    "linear_cross_entropy_of_rows": lambda input, weight, *_, **__: _product(input, weight[0]),
    # The logits again, and the gradients that are needed of both operands.
    "linear_cross_entropy_backward": lambda _grad, input, weight, *rest, **__: (
        _product(input, weight[0]) * (1 + sum(rest[-1][:2]))
    ),
    "linear_cross_entropy_with_gradients": lambda input, weight, *rest, **__: (
        _product(input, weight[0]) * (1 + sum(rest[-1][:2]))
    ),
    "joint_linear": lambda input, weights, *_, **__: sum(_product(input, each[0]) for each in weights),
    "gated_linear": lambda gate, _up, weight, *_, **__: _product(gate, weight[0]),
    "linear_swiglu": lambda input, gate, up, **_: _product(input, gate[0] + up[0]),
    "linear_rope_into_cache": lambda input, query, key, value, *_, **__: _product(input, query[0] + key[0] + value[0]),
    "sdpa": lambda query, key, value, *_, **__: _attention(query, key, query[-1] + value[-1]),
    "sdpa_with_lse": lambda query, key, value, *_, **__: _attention(query, key, query[-1] + value[-1]),
    # The scores again and the gradients of query and key; the gradients of the weights and of value.
    "sdpa_backward": lambda query, key, value, *_, **__: _attention(query, key, 3 * query[-1] + 2 * value[-1]),
    "conv2d": lambda _input, weight, *_, out_shape, **__: _convolution(out_shape, weight),
    "conv2d_backward_input": lambda grad, weight, *_, **__: _convolution(grad, weight),
    "conv2d_backward_weight": lambda grad, _input, _size, _s=0, _p=0, _d=0, groups=1, *_, out_shape, **__: (
        _weight_gradient(grad, out_shape, groups)
    ),
}
# Of the arguments themselves: shapes do not tell where entries begin.
OF_ENTRIES: dict[str, Callable[..., int]] = {
    "sdpa_jagged": lambda query, key, value, *rest, **__: _jagged(
        (query, key, value, *rest[:4]), query.shape[-1] + value.shape[-1]
    ),
    "sdpa_jagged_backward": lambda query, key, value, *rest, **__: _jagged(
        (query, key, value, *rest[:4]), 3 * query.shape[-1] + 2 * value.shape[-1]
    ),
}


for _formulas, _get_raw in ((FORMULAS, False), (OF_ENTRIES, True)):
    for _name, _formula in _formulas.items():
        register_flop_formula(getattr(torch.ops.ninetoothed, _name), get_raw=_get_raw)(_formula)
