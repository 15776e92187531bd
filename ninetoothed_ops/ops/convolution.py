"""Sizes and layouts of convolutions, which `conv2d` and its gradients share."""

from collections.abc import Sequence

import torch

from .checks import alike, check_product, of_shapes
from .layout import empty_in_order, is_channels_last, surely

OPTIONS = "SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1"
# Of gradients: `channels_last` says how the result, of this size, lies in memory; None: as either operand.
OF_GRADIENT = f"SymInt[] size, {OPTIONS}, bool? channels_last=None"


@of_shapes
def size_of(input, weight, stride, padding, dilation, groups) -> tuple[int, ...] | None:
    """The size of the output, by those of images and filters; None where these and the options do not fit together."""
    if len(input) not in (3, 4) or len(weight) != 4 or not len(stride) == len(padding) == len(dilation) == 2:
        return None
    if min(stride) < 1 or min(padding) < 0 or min(dilation) < 1 or groups < 1:
        return None
    filters, channels, *kernel = weight
    if input[-3] != channels * groups or filters < groups or filters % groups or min(kernel) < 1:
        return None
    if min(input[-2:]) < 1 and input[-3] > 0 and (len(input) == 3 or input[0] > 0):
        return None  # PyTorch refuses images of padding alone.
    sizes = zip(input[-2:], kernel, stride, padding, dilation)
    image = tuple((size + 2 * pad - d * (k - 1) - 1) // step + 1 for size, k, step, pad, d in sizes)
    return (*input[:-3], filters, *image) if min(image) > 0 else None


def pair(value: int | Sequence[int]) -> tuple[int, ...]:
    if type(value) is int:
        return value, value
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)

    return values * 2 if len(values) == 1 else values


def check_gradient(name: str, grad, other, input, weight, stride, padding, dilation, groups) -> None:
    """Check that `grad` has the size of what images convolved with filters of these sizes give."""
    options = pair(stride), pair(padding), pair(dilation)
    size = size_of(tuple(input), tuple(weight), *options, groups)
    if size is None or tuple(grad.shape) != size:
        gives = "do not fit together" if size is None else f"give {tuple(size)}, and grad is {tuple(grad.shape)}"
        raise RuntimeError(
            f"ninetoothed::{name}: images {tuple(input)} and filters {tuple(weight)}, with stride {options[0]}, "
            f"padding {options[1]}, dilation {options[2]} and {groups} groups, {gives}; give what conv2d was given"
        )
    if not alike(grad, other):
        raise RuntimeError(
            f"ninetoothed::{name}: grad is {grad.dtype} on {grad.device}, and the other tensor {other.dtype} on "
            f"{other.device}; give both one floating-point type and one device"
        )
    check_product(name, grad)


def setup_context(ctx, inputs, output):
    grad, other, _, *ctx.options, _ = inputs
    needs_grad, needs_other = ctx.needs_input_grad[:2]
    ctx.save_for_backward(grad if needs_other else None, other if needs_grad else None)
    ctx.size = other.shape


def gradients(ctx, of_result, is_image: bool):
    """Give the gradients of a gradient, of images or filters: a convolution, and the gradient of the others."""
    (grad, other), operators = ctx.saved_tensors, torch.ops.ninetoothed
    images, filters = (of_result, other) if is_image else (other, of_result)
    derive = operators.conv2d_backward_weight if is_image else operators.conv2d_backward_input
    of_grad = None if other is None else operators.conv2d(images, filters, None, *ctx.options)
    of_other = None if grad is None else derive(grad, of_result, ctx.size, *ctx.options)

    return of_grad, of_other, *[None] * (2 + len(ctx.options))


def empty(size, *operands: torch.Tensor, channels_last: bool | None = None) -> torch.Tensor:
    """Allocate images or filters. Unless it is said whether channels come last, they do as in any of the operands."""
    if channels_last is None:
        channels_last = all(0 not in operand.shape for operand in operands) and any(map(is_channels_last, operands))
    if channels_last:
        return empty_in_order(
            size, (1, 2, 0) if len(size) == 3 else (0, 2, 3, 1), operands[0].dtype, operands[0].device
        )
    return operands[0].new_empty(size)


def has_channels_last(tensor: torch.Tensor) -> bool:
    """Tell which layout a dense tensor of images or filters has; false where both are the same."""
    return surely(tensor.stride(-3) == 1) and surely(tensor.stride(-2) > 1)
