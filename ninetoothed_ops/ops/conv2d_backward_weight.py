"""`conv2d_backward_weight(Tensor grad, Tensor input, SymInt[] size, stride=1, padding=0, dilation=1, groups=1)`.

The gradient of `conv2d` with respect to its weight, of this size, as `torch.nn.grad.conv2d_weight`.
"""

import torch

from ..kernels import conv2d_backward_weight as kernels
from ..registration import register
from .convolution import check_gradient, empty, pair
from .packing import pays


def allocate(grad, input, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    check_gradient("conv2d_backward_weight", grad, input, input.shape, size, stride, padding, dilation, groups)

    return empty(size, grad, input)


def launch(output, grad, input, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    if output.numel() == 0:
        return
    if input.ndim == 3:
        grad, input = grad.unsqueeze(0), input.unsqueeze(0)
    target = output
    if pays(output):
        grad, input = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (grad, input))
        if not output.is_contiguous(memory_format=torch.channels_last):
            target = torch.empty_like(output, memory_format=torch.channels_last)
    kernel = kernels.make(pair(stride), pair(padding), pair(dilation), -1 if groups == 1 else output.shape[0] // groups)

    kernel(grad, input, target)
    if target is not output:
        output.copy_(target)


def setup_context(ctx, inputs, output):
    grad, input, _, *ctx.options = inputs
    needs_grad, needs_input = ctx.needs_input_grad[:2]
    ctx.save_for_backward(grad if needs_input else None, input if needs_grad else None)
    ctx.size = input.shape


def backward(ctx, of_output):
    grad, input = ctx.saved_tensors
    operators = torch.ops.ninetoothed
    of_grad = None if input is None else operators.conv2d(input, of_output, None, *ctx.options)
    of_input = None if grad is None else operators.conv2d_backward_input(grad, of_output, ctx.size, *ctx.options)

    return of_grad, of_input, *[None] * (1 + len(ctx.options))


operator = register(
    "ninetoothed::conv2d_backward_weight(Tensor grad, Tensor input, SymInt[] size, SymInt[2] stride=1, "
    "SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)
