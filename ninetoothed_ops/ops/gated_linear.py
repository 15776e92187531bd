"""`gated_linear(Tensor gate, Tensor up, Tensor weight, str function) -> Tensor`: the second half of a gated MLP.

    linear(gated(gate, up, function), weight)

It is two launches, as apart, and keeps gate and up alone: the product's operand, a third of what a gated MLP keeps, is
computed again by the kernel of the gradients, which reads both anyway. `function` may be "silu", too.
"""

import torch

from ..kernels import gated as kernels
from ..registration import of_file
from . import functions
from .gated import (
    are_alike,
    empty_gradients,
    gradients as gradients_of_others,
    gradients_of_swiglu,
    launch as launch_gated,
    operator as operator_of_others,
    operator_of_swiglu,
)
from .layout import coalesce, empty_elementwise, is_contiguous
from .linear import allocate as allocate_product, launch as launch_product, operator as linear, rows_of
from .mm import operator as mm
from .product_gradients import multiply

SILU = "silu"


def allocate(gate, up, weight, function):
    _check("gated_linear", function)
    if not are_alike(gate, up) or gate.dtype is not up.dtype:
        raise RuntimeError(
            "ninetoothed::gated_linear expects a gate and an up of one floating type, one shape and one device, but "
            f"got {list(gate.shape)} of {gate.dtype} and {list(up.shape)} of {up.dtype}"
        )

    return allocate_product(gate, weight)


def launch(output, gate, up, weight, function):
    activated = empty_elementwise((gate, up), gate.shape, gate.dtype, gate.device)
    launch_gated(activated, gate, up, function)
    launch_product(output, activated, weight)


def setup_context(ctx, inputs, output):
    gate, up, weight, ctx.function = inputs
    ctx.save_for_backward(gate, up, weight)
    ctx.is_turned = not is_contiguous(weight)


def backward(ctx, grad):
    gate, up, weight = ctx.saved_tensors
    to_gate, to_up, to_weight, _ = ctx.needs_input_grad
    of_gate = of_up = activated = of_weight = None
    if to_gate or to_up:
        inner = linear(grad, weight.t())
        if to_weight:
            of_gate, of_up, activated = gradients_with_output(inner, gate, up, ctx.function)
        else:
            of_gate, of_up = _gradients(inner, gate, up, ctx.function)
    if to_weight:
        activated = product_of(gate, up, ctx.function) if activated is None else activated
        of_weight = multiply(mm, rows_of(grad).t(), rows_of(activated), ctx.is_turned)

    return of_gate if to_gate else None, of_up if to_up else None, of_weight, None


def allocate_with_output(grad, gate, up, function):
    _check("gated_backward_with_output", function)
    if not are_alike(grad, gate, up):
        raise RuntimeError(
            "ninetoothed::gated_backward_with_output expects a grad, a gate and an up of floating types, one shape and "
            f"one device, but got {list(grad.shape)}, {list(gate.shape)} and {list(up.shape)}"
        )

    return *empty_gradients(gate, up), empty_elementwise((gate, up), gate.shape, gate.dtype, gate.device)


def launch_with_output(outputs, grad, gate, up, function):
    tensors = coalesce((grad, gate, up, *outputs))
    kernels.make_backward_with_output(function, tensors[0].ndim)(*tensors)


def recorded_with_output(grad, gate, up, function):
    """Compute the same by operators that have gradients, for gradients of gradients."""
    return *_gradients(grad, gate, up, function), product_of(gate, up, function)


def _check(name, function):
    if function != SILU:
        functions.check(name, function)


def product_of(gate, up, function):
    """Compute `function(gate) * up`."""
    return operator_of_swiglu(gate, up) if function == SILU else operator_of_others(gate, up, function)


def _gradients(grad, gate, up, function):
    if function == SILU:
        return gradients_of_swiglu(grad, gate, up)
    return gradients_of_others(grad, gate, up, function)


operator = of_file(
    "gated_linear(Tensor gate, Tensor up, Tensor weight, str function) -> Tensor",
    globals(),
    autocast=torch.get_autocast_dtype,
)
gradients_with_output = of_file(
    "gated_backward_with_output(Tensor grad, Tensor gate, Tensor up, str function) -> (Tensor, Tensor, Tensor)",
    globals(),
    "_with_output",
)
