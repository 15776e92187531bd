"""A call of each public operator and of its namesake in PyTorch, for docs/behaviours.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import ninetoothed_ops as ops


@dataclass(frozen=True)
class Call:
    """An operator and its namesake, or what it is written out in PyTorch, as functions of the same tensors.

    names: those of the tensors. statistics: the places of those that have no gradient. is_random: whether two calls
    differ.
    """

    name: str
    own: Callable
    theirs: Callable
    names: tuple[str, ...]
    tensors: tuple[torch.Tensor, ...]
    statistics: tuple[int, ...] = ()
    is_random: bool = False

    def recorded(self) -> tuple[torch.Tensor, ...]:
        """Give the tensors, each of floating point one that requires a gradient."""
        return tuple(
            each.clone().requires_grad_() if each.is_floating_point() and i not in self.statistics else each.clone()
            for i, each in enumerate(self.tensors)
        )


def calls() -> list[Call]:
    """Make all calls, with the same numbers in each run."""
    generator = torch.Generator().manual_seed(0)

    def r(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    target = torch.tensor([1, 0, 3, 2])
    made = [*_elementwise(r), *_products(r), *_norms(r), *_losses(r, target), *_of_models(r, target)]
    assert {each.name for each in made} == set(ops.ops.__all__)
    return sorted(made, key=lambda call: call.name)


def _elementwise(r: Callable) -> list[Call]:
    x, y = r(4, 8), r(4, 8)

    def silu_and_product(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return functional.silu(gate) * up

    def gelu_and_product(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return functional.gelu(gate) * up

    return [
        Call("add", ops.add, torch.add, ("input", "other"), (x, y)),
        Call("gated", lambda gate, up: ops.gated(gate, up, "gelu"), gelu_and_product, ("gate", "up"), (x, y)),
        Call("gelu", ops.gelu, functional.gelu, ("input",), (x,)),
        Call("silu", ops.silu, functional.silu, ("input",), (x,)),
        Call("swiglu", ops.swiglu, silu_and_product, ("gate", "up"), (x, y)),
        Call("softmax", lambda x: ops.softmax(x, -1), lambda x: torch.softmax(x, -1), ("input",), (x,)),
        Call("dropout", ops.dropout, functional.dropout, ("input",), (x,), is_random=True),
    ]


def _products(r: Callable) -> list[Call]:
    image = r(2, 3, 6, 6), r(4, 3, 3, 3), r(4)
    return [
        Call("addmm", ops.addmm, torch.addmm, ("input", "mat1", "mat2"), (r(6), r(4, 8), r(8, 6))),
        Call("bmm", ops.bmm, torch.bmm, ("input", "mat2"), (r(2, 4, 8), r(2, 8, 6))),
        Call("conv2d", ops.conv2d, functional.conv2d, ("input", "weight", "bias"), image),
        Call("linear", ops.linear, functional.linear, ("input", "weight", "bias"), (r(4, 8), r(6, 8), r(6))),
        Call("mm", ops.mm, torch.mm, ("input", "mat2"), (r(4, 8), r(8, 6))),
    ]


def _norms(r: Callable) -> list[Call]:
    def of_rows(norm: Callable) -> Callable:
        return lambda x, *vectors: norm(x, (8,), *vectors)

    def of_groups(norm: Callable) -> Callable:
        return lambda x, weight, bias: norm(x, 2, weight, bias)

    def of_batch(norm: Callable) -> Callable:
        return lambda x, mean, variance, weight, bias: norm(x, mean, variance, weight, bias, True)

    def both(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return functional.rms_norm(x + residual, (8,), weight), x + residual

    x, residual, weight, bias = r(4, 8), r(4, 8), r(8), r(8)
    names, channels = ("input", "weight", "bias"), (r(2, 4, 5), r(4), r(4))
    statistics = "input", "running_mean", "running_var", "weight", "bias"
    of_channels = channels[0], r(4), r(4).abs(), *channels[1:]
    return [
        Call("add_rms_norm", ops.add_rms_norm, both, ("input", "residual", "weight"), (x, residual, weight)),
        Call("batch_norm", of_batch(ops.batch_norm), of_batch(functional.batch_norm), statistics, of_channels, (1, 2)),
        Call("group_norm", of_groups(ops.group_norm), of_groups(functional.group_norm), names, channels),
        Call("layer_norm", of_rows(ops.layer_norm), of_rows(functional.layer_norm), names, (x, weight, bias)),
        Call("rms_norm", of_rows(ops.rms_norm), of_rows(functional.rms_norm), names[:2], (x, weight)),
    ]


def _losses(r: Callable, target: torch.Tensor) -> list[Call]:
    logits, logarithms = r(4, 8), torch.log_softmax(r(4, 8), -1)

    def loss_of_linear(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(functional.linear(x, weight), target)

    def divergence(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        middle = torch.logsumexp(torch.stack((x, target)), 0) - 0.6931471805599453
        parts = (functional.kl_div(middle, each, reduction="batchmean", log_target=True) for each in (x, target))
        return sum(parts) / 2

    def of_masses(divergence: Callable) -> Callable:
        return lambda x, target: divergence(x, target, reduction="batchmean")

    pair = "input", "target"
    masses = logarithms, torch.softmax(logits, -1)
    return [
        Call("cross_entropy", ops.cross_entropy, functional.cross_entropy, pair, (logits, target)),
        Call("jsd", ops.jsd, divergence, pair, (logarithms, torch.log_softmax(logits, -1))),
        Call("kl_div", of_masses(ops.kl_div), of_masses(functional.kl_div), pair, masses),
        Call(
            "linear_cross_entropy",
            ops.linear_cross_entropy,
            loss_of_linear,
            ("input", "weight", "target"),
            (r(4, 8), r(6, 8), target),
        ),
    ]


def _of_models(r: Callable, target: torch.Tensor) -> list[Call]:
    heads = r(1, 2, 4, 8), r(1, 2, 4, 8), r(1, 2, 4, 8)
    angles = r(4, 4)
    states, tables = (r(1, 4, 2, 8), r(1, 4, 2, 8), r(1, 4, 2, 8)), (angles.sin(), angles.cos())
    cache = torch.zeros(1, 2, 6, 8), torch.zeros(1, 2, 6, 8)

    def turned(x: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        sin, cos = (torch.cat((each, each), -1)[:, None] for each in (sin, cos))
        return x * cos + torch.cat((-second, first), -1) * sin

    def turned_into_cache(query: Any, key: Any, value: Any, sin: Any, cos: Any, slots: Any, *cache: Any) -> Any:
        for each, rows in zip(cache, (turned(key, sin, cos), value), strict=True):
            each.index_copy_(2, slots, rows.transpose(1, 2))
        return turned(query, sin, cos)

    attention = ops.sdpa, functional.scaled_dot_product_attention
    return [
        Call("embedding", ops.embedding, functional.embedding, ("input", "weight"), (target, r(6, 8))),
        Call(
            "rope",
            lambda x, sin, cos: ops.rope(x, sin, cos, interleaved=False),
            turned,
            ("input", "sin", "cos"),
            (states[0], *tables),
            (1, 2),
        ),
        Call(
            "rope_into_cache",
            ops.rope_into_cache,
            turned_into_cache,
            ("query", "key", "value", "sin", "cos", "slots", "keys", "values"),
            (*states, *tables, target, *cache),
            (3, 4, 6, 7),
        ),
        Call("sdpa", *attention, ("query", "key", "value"), heads),
    ]


def modules() -> dict[str, tuple[Callable, Callable, tuple[torch.Tensor, ...]]]:
    """Give by the name of an operator: how its module and PyTorch's are made, and inputs."""
    generator = torch.Generator().manual_seed(0)
    rows, image = torch.randn(4, 8, generator=generator), torch.randn(2, 4, 5, generator=generator)
    masses = torch.log_softmax(rows, -1), torch.softmax(rows, -1)
    made: dict[str, tuple[Any, Any, tuple[Any, ...], tuple[torch.Tensor, ...]]] = {
        "batch_norm": (ops.NTBatchNorm1d, nn.BatchNorm1d, (4,), (image,)),
        "conv2d": (ops.NTConv2d, nn.Conv2d, (4, 3, 3), (image[:, :, None].repeat(1, 1, 5, 1),)),
        "embedding": (ops.NTEmbedding, nn.Embedding, (6, 8), (torch.tensor([1, 0, 3, 2]),)),
        "gelu": (ops.NTGELU, nn.GELU, (), (rows,)),
        "group_norm": (ops.NTGroupNorm, nn.GroupNorm, (2, 4), (image,)),
        "kl_div": (ops.NTKLDivLoss, nn.KLDivLoss, (None, None, "batchmean"), masses),
        "layer_norm": (ops.NTLayerNorm, nn.LayerNorm, (8,), (rows,)),
        "linear": (ops.NTLinear, nn.Linear, (8, 6), (rows,)),
        "rms_norm": (ops.NTRMSNorm, nn.RMSNorm, (8,), (rows,)),
        "silu": (ops.NTSiLU, nn.SiLU, (), (rows,)),
    }
    return {
        name: (partial(own, *args), partial(theirs, *args), inputs)
        for name, (own, theirs, args, inputs) in made.items()
    }
