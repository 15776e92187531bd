"""The kernels of gradients by rows for rows too long for one tile: chunk by chunk, to sum up and to write."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from . import layer_norm_backward, rms_norm_backward
from .long_rows import arrangement, statistics
from .numeric import computed, factor_of, widen


def softmax_application(grad, output, input_grad):
    total = ntl.zeros((), dtype=computed(output.dtype.dtype))

    for i in range(output.shape[0]):
        total += ntl.sum(widen(grad[i]) * widen(output[i]))

    for i in range(output.shape[0]):
        input_grad[i] = widen(output[i]) * (widen(grad[i]) - total)


def rms_norm_application(grad, input, weight, eps, addend, input_grad, weighted, added, unit_offset):
    squares = ntl.zeros((), dtype=computed(input.dtype.dtype))
    products = ntl.zeros((), dtype=computed(input.dtype.dtype))

    for i in range(input.shape[0]):
        wide = widen(input[i])
        squares += ntl.sum(wide * wide)
        slope = widen(grad[i]) * factor_of(weight[i], unit_offset) if weighted else widen(grad[i])
        products += ntl.sum(slope * wide)

    columns = input.source.shape[-1]
    scale = ntl.rsqrt(squares / columns + eps)
    factor = scale * scale * (products / columns)

    for i in range(input.shape[0]):
        slope = widen(grad[i]) * factor_of(weight[i], unit_offset) if weighted else widen(grad[i])
        result = scale * (slope - widen(input[i]) * factor)
        input_grad[i] = result + widen(addend[i]) if added else result


def layer_norm_application(grad, input, weight, eps, input_grad, weighted):
    mean, scale = statistics(input, eps)
    slopes = ntl.zeros((), dtype=computed(input.dtype.dtype))
    products = ntl.zeros((), dtype=computed(input.dtype.dtype))

    for i in range(input.shape[0]):
        slope = widen(grad[i]) * widen(weight[i]) if weighted else widen(grad[i])
        slopes += ntl.sum(slope)
        products += ntl.sum(slope * ((widen(input[i]) - mean) * scale))

    columns = input.source.shape[-1]

    for i in range(input.shape[0]):
        slope = widen(grad[i]) * widen(weight[i]) if weighted else widen(grad[i])
        normalized = (widen(input[i]) - mean) * scale
        input_grad[i] = scale * (slope - slopes / columns - normalized * (products / columns))


@functools.cache
def make_softmax(ndim=2):
    """The kernel of `softmax_backward.make` for long rows."""
    tensors = tuple(Tensor(ndim) for _ in range(3))

    return ninetoothed.make(arrangement, softmax_application, tensors, kernel_name="softmax_backward_of_long_rows")


@functools.cache
def make_rms_norm(ndim=2, unit_offset=False):
    """The kernel of `rms_norm_backward.make` for long rows."""
    tensors = rms_norm_backward.parameters(ndim, unit_offset)

    return ninetoothed.make(arrangement, rms_norm_application, tensors, kernel_name="rms_norm_backward_of_long_rows")


@functools.cache
def make_layer_norm(ndim=2):
    """The kernel of `layer_norm_backward.make` for long rows."""
    tensors, name = layer_norm_backward.parameters(ndim), "layer_norm_backward_of_long_rows"

    return ninetoothed.make(arrangement, layer_norm_application, tensors, kernel_name=name)
