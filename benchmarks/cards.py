"""The operators of the numerics card: PyTorch's function for each, the inputs, and what is differentiated."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

import ninetoothed_ops
from benchmarks import tasks


@dataclass(frozen=True)
class Card:
    """One operator.

    ours, peer: the operator, and PyTorch's function.
    inputs: a function of `r`, which makes random numbers of a shape, and of the length of sums.
    call: calls either function with the inputs, and with options.
    outputs: names of the results.
    differentiable: names of the inputs whose gradients are compared: all where it is ().
    rows: as `inputs`, of a number of rows and their length; each row is to have the same bits whatever the others are.
    """

    name: str
    ours: Callable
    peer: Callable
    inputs: Callable[..., dict[str, torch.Tensor]]
    call: Callable = lambda function, *inputs: function(*inputs)
    outputs: tuple[str, ...] = ("result",)
    differentiable: tuple[str, ...] = ()
    rows: Callable[..., dict[str, torch.Tensor]] | None = None

    def gradients(self, inputs):
        """The names of the gradients, as the card has them."""
        return [f"gradient of {name}" for name in self.differentiable or inputs]


def _normalized(function, input, weight):
    return function(input, weight.shape, weight, 1e-6)


def _summed_and_normalized(input, residual, weight, eps):
    total = input + residual
    return F.rms_norm(total, weight.shape, weight, eps), total


def _joined(input, weights, biases):
    return torch.cat([F.linear(input, weight) for weight in weights], -1)


def _rotated_into_cache(query, key, value, sin, cos, slots, keys, values):
    rope = tasks.load("rope").eager
    keys.index_copy_(2, slots, rope(key, sin, cos, False).transpose(1, 2))
    values.index_copy_(2, slots, value.transpose(1, 2))
    return rope(query, sin, cos, False)


def _with_cache(function, *tensors):
    """Call with an empty cache, and give the keys in it, too."""
    first, *_, cos = tensors
    keys, values = (first.new_zeros(2, 4, 96, 64) for _ in range(2))
    slots = torch.arange(7, 7 + cos.shape[0], device=first.device)
    return function(*tensors, slots, keys, values), keys


def _of_projections(function, input, weight, sin, cos):
    """Call with the weights of 8 heads of queries, 4 of keys and 4 of values, which lie one behind another."""
    rotated, keys = _with_cache(function, input, *weight.split((512, 256, 256)), sin, cos)
    return rotated[:, :, :8], keys


def _projected_and_rotated(input, query, key, value, *others):
    heads = (F.linear(input, weight).unflatten(2, (-1, 64)) for weight in (query, key, value))
    return _rotated_into_cache(*heads, *others)


def _each_rotated(*tensors):
    return tuple(tasks.load("rope").eager(each, *tensors[2:], True) for each in tensors[:2])


def _vectors(r, n):
    return {"input": r(64, n + 1), "other": r(n + 1)}


def _rows(*names):
    """Rows of odd length for each name, one row for `weight`."""
    return lambda r, n: {name: r(*(() if name == "weight" else (24,)), n + 1) for name in names}


def _heads(r, n):
    return {name: r(2, 4, 64, 64) for name in ("query", "key", "value")}


def _tokens(r, n):
    return {"input": r(2, 64, 4, 64), "sin": r(64, 32), "cos": r(64, 32)}


CARDS = {
    card.name: card
    for card in (
        Card(
            "add",
            ninetoothed_ops.add,
            torch.add,
            _vectors,
            rows=lambda r, count, n: {"input": r(count, n), "other": r(n)},
        ),
        Card(
            "addmm",
            ninetoothed_ops.addmm,
            torch.addmm,
            lambda r, n: {"input": r(40), "mat1": r(48, n), "mat2": r(n, 40)},
            lambda function, *inputs: function(*inputs, beta=0.7, alpha=1.3),
        ),
        Card("bmm", ninetoothed_ops.bmm, torch.bmm, lambda r, n: {"input": r(3, 32, n), "mat2": r(3, n, 40)}),
        Card(
            "conv2d",
            ninetoothed_ops.conv2d,
            F.conv2d,
            lambda r, n: {"input": r(2, n // 8, 13, 12), "weight": r(24, n // 8, 3, 3), "bias": r(24)},
            lambda function, *inputs: function(*inputs, stride=2, padding=1),
        ),
        Card("gelu", ninetoothed_ops.gelu, F.gelu, _rows("input")),
        Card(
            "gelu, tanh",
            ninetoothed_ops.gelu,
            F.gelu,
            _rows("input"),
            lambda function, input: function(input, approximate="tanh"),
        ),
        Card(
            "layer_norm",
            ninetoothed_ops.layer_norm,
            F.layer_norm,
            lambda r, n: {"input": r(24, n + 1), "weight": r(n + 1), "bias": r(n + 1)},
            lambda function, input, weight, bias: function(input, weight.shape, weight, bias, 1e-6),
            rows=lambda r, count, n: {"input": r(count, n), "weight": r(n), "bias": r(n)},
        ),
        Card(
            "linear",
            ninetoothed_ops.linear,
            F.linear,
            lambda r, n: {"input": r(3, 16, n), "weight": r(40, n), "bias": r(40)},
        ),
        Card("mm", ninetoothed_ops.mm, torch.mm, lambda r, n: {"input": r(48, n), "mat2": r(n, 40)}),
        Card(
            "rms_norm",
            ninetoothed_ops.rms_norm,
            F.rms_norm,
            _rows("input", "weight"),
            _normalized,
            rows=lambda r, count, n: {"input": r(count, n), "weight": r(n)},
        ),
        Card(
            "rope",
            ninetoothed_ops.rope,
            tasks.load("rope").eager,
            _tokens,
            differentiable=("input",),
            rows=lambda r, count, n: {
                "input": r(count // 16, 5, 3, n // 2 * 2),
                "sin": r(5, n // 2),
                "cos": r(5, n // 2),
            },
        ),
        Card("sdpa", ninetoothed_ops.sdpa, F.scaled_dot_product_attention, _heads),
        Card(
            "sdpa, causal",
            ninetoothed_ops.sdpa,
            F.scaled_dot_product_attention,
            _heads,
            lambda function, *inputs: function(*inputs, is_causal=True),
        ),
        Card(
            "silu",
            ninetoothed_ops.silu,
            F.silu,
            _rows("input"),
            rows=lambda r, count, n: {"input": r(count, n)},
        ),
        Card(
            "softmax",
            ninetoothed_ops.softmax,
            torch.softmax,
            _rows("input"),
            lambda function, input: function(input, -1),
            rows=lambda r, count, n: {"input": r(count, n)},
        ),
        Card(
            "add_rms_norm",
            ninetoothed_ops.add_rms_norm,
            _summed_and_normalized,
            _rows("input", "residual", "weight"),
            lambda function, *inputs: function(*inputs, 1e-6),
            outputs=("result", "sum"),
        ),
        Card(
            "joint_linear",
            torch.ops.ninetoothed.joint_linear,
            _joined,
            lambda r, n: {"input": r(3, 16, n), "weight": r(40, n), "other weight": r(24, n)},
            lambda function, input, *weights: function(input, list(weights), []),
        ),
        Card(
            "rope_into_cache",
            ninetoothed_ops.rope_into_cache,
            _rotated_into_cache,
            lambda r, n: {
                **{"query": r(2, 64, 8, 64), "key": r(2, 64, 4, 64), "value": r(2, 64, 4, 64)},
                **{"sin": r(64, 32), "cos": r(64, 32)},
            },
            _with_cache,
            outputs=("query", "keys"),
            differentiable=("query", "key"),
        ),
        Card(
            "rope_pair",
            torch.ops.ninetoothed.rope_pair,
            _each_rotated,
            lambda r, n: {"query": r(2, 64, 8, 64), "key": r(2, 64, 4, 64), "sin": r(64, 32), "cos": r(64, 32)},
            outputs=("query", "key"),
            differentiable=("query", "key"),
        ),
        Card(
            "linear_rope_into_cache",
            torch.ops.ninetoothed.linear_rope_into_cache,
            _projected_and_rotated,
            lambda r, n: {"input": r(2, 16, n), "weight": r(1024, n), "sin": r(16, 32), "cos": r(16, 32)},
            _of_projections,
            outputs=("query", "keys"),
            differentiable=("input", "weight"),
        ),
        Card(
            "linear_swiglu",
            torch.ops.ninetoothed.linear_swiglu,
            lambda input, gate, up: F.silu(F.linear(input, gate)) * F.linear(input, up),
            lambda r, n: {"input": r(3, 48, n), "weights": r(2, 40, n)},
            lambda function, input, weights: function(input, *weights),
        ),
        Card(
            "gated",
            lambda gate, up: ninetoothed_ops.gated(gate, up, "gelu"),
            lambda gate, up: F.gelu(gate) * up,
            _rows("gate", "up"),
        ),
        Card("swiglu", ninetoothed_ops.swiglu, lambda gate, up: F.silu(gate) * up, _rows("gate", "up")),
    )
}
