"""`conv2d_backward_input(Tensor grad, Tensor weight, SymInt[] size, stride=1, padding=0, dilation=1, groups=1)`.

The gradient of `conv2d` with respect to its input, of this size, as `torch.nn.grad.conv2d_input`.
"""

import itertools

import torch

from ..kernels import conv2d_backward_input as kernels
from .convolution import check_gradient, empty, pair, register_gradient
from .packing import packed, pays
from .phases import phases


def allocate(grad, weight, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    check_gradient("conv2d_backward_input", grad, weight, size, weight.shape, stride, padding, dilation, groups)

    return empty(size, grad, weight)


def kept(grad, weight, *others):
    return packed(weight) if pays(weight) else weight


def launch(output, grad, weight, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, *, kept=None):
    if output.numel() == 0:
        return
    if output.ndim == 3:
        output, grad = output.unsqueeze(0), grad.unsqueeze(0)
    weight = weight if kept is None else kept
    target, stride = output, pair(stride)
    if pays(weight, stride):
        grad, weight = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (grad, weight))
        if max(stride) > 1 and not output.is_contiguous(memory_format=torch.channels_last):
            # A phase writes pixels that are a stride apart: of whole lines of memory only where channels come last.
            target = torch.empty_like(output, memory_format=torch.channels_last)
    per_group = (-1, -1) if groups == 1 else (weight.shape[0] // groups, weight.shape[1])
    options = zip(output.shape[2:], grad.shape[2:], weight.shape[2:], stride, pair(padding), pair(dilation))
    every = list(itertools.product(*(tuple(phases(*each)) for each in options)))

    if any(rows.is_empty or columns.is_empty for rows, columns in every):
        target.zero_()
    for rows, columns in every:
        if not (rows.is_empty or columns.is_empty):
            kernel = kernels.make((rows.padding, columns.padding), (rows.dilation, columns.dilation), *per_group)
            kernel(
                grad[:, :, rows.grads, columns.grads],
                weight[:, :, rows.weights, columns.weights],
                target[:, :, rows.pixels, columns.pixels],
            )
    if target is not output:
        output.copy_(target)


operator = register_gradient(
    "conv2d_backward_input",
    "weight",
    allocate,
    launch,
    convolved=lambda of_input, weight: (of_input, weight),
    counterpart="conv2d_backward_weight",
    kept=kept,
)
