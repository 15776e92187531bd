"""`torch.vmap` of the operators, on batches of their kernels: importing this registers a rule for each."""

from collections.abc import Callable
from typing import Any

import torch

from ..ops.cross_entropy import recorded as cross_entropy
from ..ops.linear_cross_entropy import recorded as linear_cross_entropy
from ..ops.linear_rope_into_cache import recorded as linear_rope_into_cache
from ..ops.rope_into_cache import recorded as rope_into_cache
from ..registration import OPERATORS, Functions, batch_by, compose_batches
from . import attention, channels, elementwise, losses, norms, products, tables
from .batch import Batch, Rule

# By the name of an operator. One that has none, and is recorded by others, is batched by these.
RULES: dict[str, Rule] = {
    "activation": elementwise.alike,
    "activation_backward": elementwise.alike,
    "add": elementwise.add,
    "add_rms_norm": norms.add_rms_norm,
    "addmm": products.addmm,
    "batch_norm": channels.batch_norm,
    "batch_norm_backward": channels.batch_norm_gradients,
    "batch_norm_training": channels.batch_norm_training,
    "bmm": products.bmm,
    "conv2d": products.conv2d,
    "conv2d_backward_input": products.conv2d_input_gradient,
    "conv2d_backward_weight": products.conv2d_weight_gradient,
    "cross_entropy_backward": losses.gradient,
    "cross_entropy_of_rows": losses.of_rows,
    "dropout_of_seed": elementwise.dropout,
    "embedding": tables.embedding,
    "embedding_backward": tables.embedding_gradient,
    "gated": elementwise.alike,
    "gated_backward": elementwise.alike,
    "gated_backward_with_output": elementwise.alike,
    "gated_linear": products.gated_linear,
    "gelu": elementwise.alike,
    "group_norm": channels.group_norm,
    "group_norm_backward": channels.group_norm_gradients,
    "group_norm_with_statistics": channels.group_norm,
    "joint_linear": products.joint_linear,
    "jsd": elementwise.alike,
    "jsd_backward": elementwise.gradients_of_rows,
    "kl_div": losses.kl_div,
    "kl_div_backward": losses.kl_div_gradients,
    "layer_norm": norms.layer_norm,
    "layer_norm_backward": norms.layer_norm_gradients,
    "linear": products.linear,
    "linear_cross_entropy_backward": losses.layer_gradient,
    "linear_cross_entropy_of_rows": losses.of_layer_rows,
    "linear_swiglu": products.linear_swiglu,
    "mm": products.mm,
    "rms_norm": norms.rms_norm,
    "rms_norm_backward": norms.rms_norm_gradients,
    "rope": elementwise.rope(1),
    "rope_backward": elementwise.rope(1),
    "rope_pair": elementwise.rope(2),
    "sdpa_backward": attention.gradients,
    "sdpa_dropout": attention.dropout,
    "sdpa_jagged": attention.jagged(0),
    "sdpa_jagged_backward": attention.jagged(3),
    "sdpa_with_lse": attention.with_lse,
    "silu": elementwise.alike,
    "silu_backward": elementwise.alike,
    "softmax": elementwise.along_a_dimension(1),
    "softmax_backward": elementwise.along_a_dimension(2),
    "softmax_jagged": elementwise.along_entries(1),
    "softmax_jagged_backward": elementwise.along_entries(2),
    "swiglu": elementwise.alike,
    "swiglu_backward": elementwise.alike,
}
# What others compute that have rules: of the arguments of one call.
COMPOSED: dict[str, Callable] = {
    "cross_entropy": cross_entropy,
    "linear_cross_entropy": linear_cross_entropy,
    "linear_cross_entropy_with_gradients": losses.with_gradients,
    "linear_rope_into_cache": linear_rope_into_cache,
    "rope_into_cache": rope_into_cache,
}


def _by_rule(operator: Callable, functions: Functions, rule: Rule) -> Callable:
    """Make what `torch.library.register_vmap` takes of a rule."""

    def batched(info: Any, in_dims: tuple, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        # It raises for arguments that do not fit together, as a call of the operator does.
        like = functions.fake(*map(_example, args, in_dims), **kwargs)
        batch = Batch(operator, info.batch_size, tuple(map(_flags, in_dims)), like)
        output = rule(batch, *map(_in_front, args, in_dims), **kwargs)
        return output, 0 if isinstance(output, torch.Tensor) else (0,) * len(output)

    return batched


def _flags(dim: Any) -> Any:
    return tuple(map(_flags, dim)) if isinstance(dim, list | tuple) else dim is not None


def _example(value: Any, dim: Any) -> Any:
    """Give the first of a batch."""
    if isinstance(dim, list | tuple):
        return [_example(*each) for each in zip(value, dim)]
    return value if dim is None else value.select(dim, 0)


def _in_front(value: Any, dim: Any) -> Any:
    if isinstance(dim, list | tuple):
        return [_in_front(*each) for each in zip(value, dim)]
    return value if dim is None else value.movedim(dim, 0)


for _name, _rule in RULES.items():
    _operator = getattr(torch.ops.ninetoothed, _name).default
    batch_by(_operator.name(), _by_rule(_operator, OPERATORS[_operator.name()], _rule))
for _name, _compute in COMPOSED.items():
    compose_batches(f"ninetoothed::{_name}", _compute)
