"""`conv2d_backward_input(Tensor grad, Tensor weight, SymInt[] size, stride=1, padding=0, dilation=1, groups=1)`.

The gradient of `conv2d` with respect to its input, of this size, as `torch.nn.grad.conv2d_input`.
"""

from dataclasses import dataclass, replace

import torch

from ..kernels import conv2d_backward_input as kernels
from ..registration import of_file
from .convolution import OF_GRADIENT, check_gradient, empty, gradients, pair, setup_context
from .packing import packed, pays, repack


def allocate(grad, weight, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels_last=None):
    check_gradient("conv2d_backward_input", grad, weight, size, weight.shape, stride, padding, dilation, groups)

    return empty(size, grad, weight, channels_last=channels_last)


def launch(output, grad, weight, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels_last=None):
    if output.numel() == 0:
        return
    if output.ndim == 3:
        output, grad = output.unsqueeze(0), grad.unsqueeze(0)
    weight, dilation = _spread(weight, pair(stride), pair(dilation))
    target = output
    if pays(weight, pair(stride)):
        grad, weight = packed(grad, weight)
        if max(pair(stride)) > 1 and not output.is_contiguous(memory_format=torch.channels_last):
            # Squares of pixels, or those a stride apart, are whole lines of memory only where channels come last.
            target = torch.empty_like(output, memory_format=torch.channels_last)
    sizes = zip(output.shape[2:], grad.shape[2:], weight.shape[2:], pair(stride), pair(padding), dilation)
    rows, columns = (Side.of(*each) for each in sizes)
    grad, pixels = grad[:, :, rows.grads, columns.grads], target[:, :, rows.pixels, columns.pixels]

    if grad.numel() == 0 or pixels.shape != target.shape:
        target.zero_()
    if grad.numel() and pixels.numel():
        of_sides = ((getattr(rows, name), getattr(columns, name)) for name in ("square", "padding", "edges"))
        per_group = (-1, -1) if groups == 1 else (weight.shape[0] // groups, weight.shape[1])
        kernels.make(*of_sides, dilation, *per_group)(grad, weight, pixels)
    if target is not output:
        repack(output, target)


def _spread(weight, stride, dilation):
    """Put zeros between the elements of a weight that is dilated and strided; and the dilation that is left."""
    apart = tuple(
        d if step > 1 and count > 1 else 1 for d, step, count in zip(dilation, stride, weight.shape[2:], strict=True)
    )
    if apart == (1, 1):
        return weight, dilation
    size = [(count - 1) * d + 1 for count, d in zip(weight.shape[2:], apart)]
    spread = weight.new_zeros((*weight.shape[:2], *size))
    spread[:, :, :: apart[0], :: apart[1]] = weight

    return spread, tuple(1 if step > 1 else d for d, step in zip(dilation, stride))


@dataclass(frozen=True)
class Side:
    """A dimension of the convolution: of the gradient's `grads`, padded, and the weights, padded to whole squares.

    It gives the `pixels`, a square of them at once. The others meet no weight.
    """

    pixels: slice
    square: int
    grads: slice
    padding: tuple[int, int]
    edges: tuple[int, int]

    @classmethod
    def of(cls, size: int, grads: int, weights: int, stride: int, padding: int, dilation: int) -> "Side":
        """Let the window of each square, of `stride` pixels, begin where its first meets the last of the weights."""
        if stride > 1 and weights == 1:
            # One weight meets one pixel of a stride: those alone are as of a convolution without.
            first = -padding % stride
            apart = cls.of(len(range(first, size, stride)), grads, 1, 1, (first + padding) // stride, 1)
            return replace(apart, pixels=slice(first, None, stride))
        after = -(-padding // stride)
        low = stride * after - padding
        taps = -(-(weights + low) // stride)
        before = (taps - 1) * dilation - after
        end = -(-size // stride) + after - grads
        kept = slice(max(-before, 0), max(grads + min(end, 0), 0))
        edges = low, stride * taps - weights - low

        return cls(slice(None), stride, kept, (max(before, 0), max(end, 0)), edges)


def backward(ctx, of_result):
    return gradients(ctx, of_result, is_image=True)


operator = of_file(
    f"conv2d_backward_input(Tensor grad, Tensor weight, {OF_GRADIENT}) -> Tensor",
    globals(),
    setup_context=setup_context,
)
