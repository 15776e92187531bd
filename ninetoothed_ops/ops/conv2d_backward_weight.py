"""`conv2d_backward_weight(Tensor grad, Tensor input, SymInt[] size, stride=1, padding=0, dilation=1, groups=1)`.

The gradient of `conv2d` with respect to its weight, of this size, as `torch.nn.grad.conv2d_weight`.
"""

import torch

from ninetoothed.expr.sizes import power_above

from ..kernels import conv2d_backward_weight as kernels, sum_of_parts
from ..registration import of_file
from .convolution import OF_GRADIENT, check_gradient, empty, gradients, pair, setup_context
from .packing import packed, pays, repack

# So many times as much is read for the sums of a part as they take themselves.
LEAST_READ = 8
# The schedule of a product shares its sum out over some programs by itself.
FEWEST_PARTS = 6


def allocate(grad, input, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels_last=None):
    check_gradient("conv2d_backward_weight", grad, input, input.shape, size, stride, padding, dilation, groups)

    return empty(size, grad, input, channels_last=channels_last)


def launch(output, grad, input, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels_last=None):
    if output.numel() == 0:
        return
    if input.ndim == 3:
        grad, input = grad.unsqueeze(0), input.unsqueeze(0)
    target = output
    if pays(output, pair(stride)):
        grad, input = packed(grad, input)
        if not output.is_contiguous(memory_format=torch.channels_last):
            target = torch.empty_like(output, memory_format=torch.channels_last)
    filters = -1 if groups == 1 else output.shape[0] // groups
    images = images_of_a_part(grad, input, target)
    kernel = kernels.make(pair(stride), pair(padding), pair(dilation), filters, images)

    if images == -1:
        kernel(grad, input, target.unsqueeze(0))
    else:
        parts, sums = _empty_parts(target, -(-grad.shape[0] // images))
        kernel(grad, input, parts)
        sum_of_parts.make()(sums, _in_order(target).view(-1))
    if target is not output:
        repack(output, target)


def images_of_a_part(grad: torch.Tensor, input: torch.Tensor, weight: torch.Tensor) -> int:
    """Choose of how many images the sums are computed apart; -1 for all at once.

    A GPU is kept busy by many parts, whose sums in float32 are written and read again: that is a small share of
    reading the images. The number depends on the size of an image alone, so that another batch compiles nothing new.
    It is a power of two: where the last part is whole, as in most batches, nothing is masked between products.
    """
    image = sum(tensor[:1].numel() * tensor.itemsize for tensor in (grad, input))
    images = power_above(-(-LEAST_READ * 8 * weight.numel() // max(image, 1)))

    return images if grad.is_cuda and images * FEWEST_PARTS <= grad.shape[0] else -1


def _empty_parts(weight: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums in float32 for each of some parts, in the weight's layout, and a view of them as the rows of a matrix."""
    ordered = _in_order(weight)
    sums = ordered.new_empty((count, *ordered.shape), dtype=torch.float32)

    return (sums if ordered is weight else sums.permute(0, 1, 4, 2, 3)), sums.view(count, -1)


def _in_order(weight: torch.Tensor) -> torch.Tensor:
    """View the weight with its dimensions in the order in which they lie in memory."""
    return weight if weight.is_contiguous() else weight.permute(0, 2, 3, 1)


def backward(ctx, of_result):
    return gradients(ctx, of_result, is_image=False)


operator = of_file(
    f"conv2d_backward_weight(Tensor grad, Tensor input, {OF_GRADIENT}) -> Tensor",
    globals(),
    setup_context=setup_context,
)
