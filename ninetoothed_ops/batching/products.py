"""Rules of products: one larger product where an operand is the same in all calls, and one product each otherwise."""

import torch

from ..ops.conv2d import operator as conv2d_operator
from ..ops.gated import operator_of_swiglu as swiglu
from ..ops.gated_linear import operator as gated_linear_operator, product_of
from ..ops.joint_linear import operator as joint_linear_operator
from ..ops.linear import operator as linear_operator
from ..ops.linear_swiglu import operator as linear_swiglu_operator
from ..ops.mm import batched as bmm_operator, operator as mm_operator
from .batch import Batch, fold


def mm(batch: Batch, self, mat2):
    return _product(batch, self, mat2, *batch.flags)


def _product(batch: Batch, left, right, has_left: bool, has_right: bool) -> torch.Tensor:
    """Multiply matrices, of which either may be the same in all calls."""
    if not has_right:
        return mm_operator(left.flatten(0, 1), right).view(batch.size, left.shape[1], right.shape[1])
    return bmm_operator(left if has_left else left.expand(batch.size, *left.shape), right)


def bmm(batch: Batch, self, mat2):
    return batch.parted(bmm_operator(batch.folded(0, self), batch.folded(1, mat2)))


def addmm(batch: Batch, self, mat1, mat2, *, beta=1, alpha=1):
    (_, has_left, has_right), (rows, columns) = batch.flags, batch.like.shape
    if not batch.has(2):
        whole = batch.whole(0, self)
        addend = whole.view(batch.size, *(1,) * (3 - whole.ndim), *whole.shape[1:])
        left = batch.whole(1, mat1)
        addend = addend.expand(batch.size, rows, columns).flatten(0, 1)
        return batch.operator(addend, left.flatten(0, 1), mat2, beta=beta, alpha=alpha).view(-1, rows, columns)
    product = alpha * _product(batch, mat1, mat2, has_left, has_right)
    if beta == 0:
        return product
    addend = self.view(batch.size, *(1,) * (3 - self.ndim), *self.shape[1:]) if batch.has(0) else self
    return product + beta * addend


def linear(batch: Batch, input, weight, bias=None):
    if batch.has_only(0):
        return linear_operator(input, weight, bias)
    has_input, has_weight, has_bias = (*batch.flags, False)[:3]
    return of_layer(batch, input, weight, bias, has_input, has_weight, has_bias)


def of_layer(batch: Batch, input, weight, bias, has_input, has_weight, has_bias) -> torch.Tensor:
    """Compute a layer, of which anything may be the same in all calls."""
    rows = (input if has_input else input[None]).flatten(1, -2) if input.ndim - has_input > 1 else None
    if rows is None:
        rows = input[:, None] if has_input else input[None, None]
    if has_weight:
        output = bmm_operator(rows.expand(batch.size, *rows.shape[1:]), weight.mT)
    else:
        output = linear_operator(rows, weight).expand(batch.size, -1, -1)
    leading = input.shape[has_input:-1]
    output = output.view(batch.size, *leading, output.shape[-1])
    if bias is None:
        return output
    return output + (bias.view(batch.size, *(1,) * len(leading), -1) if has_bias else bias)


def joint_linear(batch: Batch, input, weights, biases):
    if batch.has_only(0):
        return joint_linear_operator(input, weights, biases)
    has_input, of_weights, of_biases = batch.flags
    layers = zip(weights, biases or [None] * len(weights), of_weights, of_biases or [False] * len(weights))
    outputs = [of_layer(batch, input, w, b, has_input, has_w, has_b) for w, b, has_w, has_b in layers]
    return torch.cat(outputs, -1)


def linear_swiglu(batch: Batch, input, gate, up):
    if batch.has_only(0):
        return linear_swiglu_operator(input, gate, up)
    has_input, *of_weights = batch.flags
    layers = zip((gate, up), of_weights)
    return swiglu(*(of_layer(batch, input, each, None, has_input, has, False) for each, has in layers))


def gated_linear(batch: Batch, gate, up, weight, function):
    gate, up = batch.whole(0, gate), batch.whole(1, up)
    if not batch.has(2):
        return gated_linear_operator(gate, up, weight, function)
    return of_layer(batch, product_of(gate, up, function), weight, None, True, True, False)


def conv2d(
    batch: Batch, input, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, like_input=False
):
    options = stride, padding, dilation
    if batch.has_only(0):
        output = conv2d_operator(_as_images(input), weight, bias, *options, groups, like_input)
        return output if input.ndim == 4 else batch.parted(output)
    # Filters of each call are groups of their own.
    images = _as_channels(batch.whole(0, input))
    weight, bias = batch.folded(1, weight), batch.folded(2, bias)
    return _parted_channels(batch, conv2d_operator(images, weight, bias, *options, groups * batch.size, like_input))


def conv2d_input_gradient(
    batch: Batch, grad, weight, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels_last=None
):
    options, last = (stride, padding, dilation), (channels_last,)
    *entries, channels, height, width = size
    if batch.has_only(0):
        size = (batch.size * (entries[0] if entries else 1), channels, height, width)
        output = batch.operator(_as_images(grad), weight, size, *options, groups, *last)
        return batch.parted(output) if entries else output
    size = (*entries, batch.size * channels, height, width)
    weight = batch.folded(1, weight)
    output = batch.operator(_as_channels(batch.whole(0, grad)), weight, size, *options, groups * batch.size, *last)
    return _parted_channels(batch, output)


def conv2d_weight_gradient(
    batch: Batch, grad, input, size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels_last=None
):
    grad, input = (_as_channels(each) for each in batch.wholes(grad, input))
    size = (batch.size * size[0], *size[1:])
    options = stride, padding, dilation, groups * batch.size, channels_last
    return batch.parted(batch.operator(grad, input, size, *options))


def _as_images(tensor: torch.Tensor) -> torch.Tensor:
    """View calls, of images or of one image, as images."""
    return tensor if tensor.ndim == 4 else tensor.flatten(0, 1)


def _as_channels(tensor: torch.Tensor) -> torch.Tensor:
    """View the channels of all calls as those of one: (N, batch * C, H, W), or without N."""
    return fold(tensor, tensor.ndim - 4)


def _parted_channels(batch: Batch, tensor: torch.Tensor) -> torch.Tensor:
    return batch.parted(tensor, tensor.ndim - 3)
