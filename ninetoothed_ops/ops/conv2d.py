"""`conv2d(Tensor input, Tensor weight, Tensor? bias=None, stride=1, padding=0, dilation=1, groups=1) -> Tensor`.

As `torch.nn.functional.conv2d`: channels come last in the result where they do in the input or in the weight. With
`like_input=True`, which the operator alone takes, the input alone decides.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from ..kernels import conv2d as kernels
from ..registration import of_file
from . import conv2d_backward_input, conv2d_backward_weight, readers
from .checks import alike, check_product, refuse
from .convolution import OPTIONS, empty, has_channels_last, pair, size_of
from .packing import packed, pays


def allocate(input, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, like_input=False):
    tensors = (input, weight) if bias is None else (input, weight, bias)
    options = pair(stride), pair(padding), pair(dilation)
    size = size_of(input.shape, weight.shape, *options, groups) if alike(*tensors) else None
    if size is None or (bias is not None and bias.shape != weight.shape[:1]):
        refuse("conv2d", functional.conv2d, input, weight, bias, stride, padding, dilation, groups)
    check_product("conv2d", input)

    return empty(size, input) if like_input else empty(size, input, weight)


def launch(
    output, input, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, like_input=False
):
    if input.ndim == 3:
        input, output = input.unsqueeze(0), output.unsqueeze(0)
    if weight.shape[1] == 0:
        output.copy_(output.new_zeros(()) if bias is None else bias[:, None, None])
        return
    if pays(weight):
        input, weight = packed(input, weight)
    filters = -1 if groups == 1 else weight.shape[0] // groups
    kernel = kernels.make(pair(stride), pair(padding), pair(dilation), filters)

    kernel(input, weight, weight.new_empty(weight.shape[0]) if bias is None else bias, output, bias is not None)


def setup_context(ctx, inputs, output):
    input, weight, _, *ctx.options, _ = inputs
    needs_input, needs_weight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(input if needs_weight else None, weight if needs_input else None)
    ctx.sizes = input.shape, weight.shape
    ctx.channels_last = has_channels_last(output), has_channels_last(weight)


def backward(ctx, grad):
    input, weight = ctx.saved_tensors
    input_size, weight_size = ctx.sizes
    images_are_last, weight_is_last = ctx.channels_last
    is_last = images_are_last and grad.ndim == 4
    grad = grad.contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)
    of_input = of_weight = of_bias = None
    if weight is not None:
        of_input = conv2d_backward_input.operator(grad, weight, input_size, *ctx.options, images_are_last)
    if input is not None:
        of_weight = conv2d_backward_weight.operator(grad, input, weight_size, *ctx.options, weight_is_last)
    if any(ctx.needs_input_grad[2:3]):
        of_bias = grad.sum([dim for dim in range(grad.ndim) if dim != grad.ndim - 3])

    return of_input, of_weight, of_bias, *[None] * (1 + len(ctx.options))


operator = of_file(
    f"conv2d(Tensor input, Tensor weight, Tensor? bias=None, {OPTIONS}, bool like_input=False) -> Tensor",
    globals(),
    autocast=torch.get_autocast_dtype,
)


def _name_or_numbers(padding):
    return padding if isinstance(padding, str) else readers.one_or_more(padding)


def _are_plain(numbers) -> bool:
    return type(numbers) is int or readers.are_integers(numbers)


@readers.by_annotations(padding=_name_or_numbers)
def conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> torch.Tensor:
    """Convolve images, (N, C, H, W) or (C, H, W), with filters, (K, C / groups, R, S).

    `padding` may be "same", which keeps the size of the images, or "valid", which is 0.

    The arguments and errors are those of `torch.nn.functional.conv2d`.
    """
    return convolve(input, weight, bias, stride, padding, dilation, groups)


def convolve(input, weight, bias, stride, padding, dilation, groups, like_input: bool = False) -> torch.Tensor:
    """Convolve, as `conv2d`; with `like_input`, whether channels come last in the result follows the input alone."""
    are_tensors = type(input) in readers.PLAIN and type(weight) in readers.PLAIN and type(bias) in readers.PLAIN_OR_NONE
    are_numbers = _are_plain(stride) and _are_plain(padding) and _are_plain(dilation) and type(groups) is int
    if not (are_tensors and are_numbers):
        args = input, weight, bias, stride, padding, dilation, groups
        if readers.are_overridden(input, weight, bias):
            return functional.conv2d(*args)
        read = readers.read("conv2d", functional.conv2d, *args)
        input, weight, bias, stride, padding, dilation, groups = read
    if isinstance(padding, str):
        input, padding = _padded(input, weight, bias, stride, padding, dilation, groups)

    # PyTorch takes a microsecond to read each list.
    if stride == dilation == groups == 1 and padding == 0 and not like_input:
        return operator(input, weight, bias)
    return operator(input, weight, bias, pair(stride), pair(padding), pair(dilation), groups, like_input)


def _padded(input, weight, bias, stride, padding: str, dilation, groups) -> tuple[torch.Tensor, int | Sequence[int]]:
    """Give the input and the number of pixels that "same" or "valid" stands for."""
    if padding == "valid":
        return input, 0
    if padding != "same" or set(pair(stride)) != {1} or weight.ndim != 4 or min(weight.shape[2:]) < 1:
        refuse("conv2d", functional.conv2d, input, weight, bias, stride, padding, dilation, groups)
    totals = [d * (size - 1) for d, size in zip(pair(dilation), weight.shape[-2:])]
    # As in PyTorch, the odd pixel is added on the right and at the bottom. It is one or none, not a symbol.
    odd = [1 if total % 2 else 0 for total in totals]
    if any(odd):
        input = functional.pad(input, (0, odd[1], 0, odd[0]))
    return input, [total // 2 for total in totals]
