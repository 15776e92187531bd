"""The kernels of rows, and of their gradients, for rows too long for one tile.

They go chunk by chunk, once to sum up and once to write.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from . import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from .numeric import computed, exponential, factor_of, widen

# Rows of more elements than this are read in chunks.
LONGEST = 32768
CHUNK = 8192


def arrangement(*tensors):
    """Give each program the chunks of a row of each tensor, and of all of each vector; and scalars as they are."""
    return arrange.row_blocks(*tensors, BLOCK_SIZE=CHUNK)


def softmax_application(input, output):
    dtype = computed(input.dtype.dtype)
    peak = ntl.full((), float("-inf"), dtype=dtype)
    total = ntl.zeros((), dtype=dtype)

    for i in range(input.shape[0]):
        wide = widen(input[i])
        new_peak = ntl.maximum(peak, ntl.max(wide))
        shift = ntl.where(new_peak == float("-inf"), 0.0, new_peak)
        total = total * ntl.exp(peak - shift) + ntl.sum(exponential(wide - shift, output.dtype.dtype))
        peak = new_peak

    for i in range(input.shape[0]):
        output[i] = exponential(widen(input[i]) - peak, output.dtype.dtype) / total


def rms_norm_application(input, weight, eps, output, weighted, unit_offset):
    total = ntl.zeros((), dtype=computed(input.dtype.dtype))

    for i in range(input.shape[0]):
        wide = widen(input[i])
        total += ntl.sum(wide * wide)

    scale = ntl.rsqrt(total / input.source.shape[-1] + eps)

    for i in range(input.shape[0]):
        normalized = widen(input[i]) * scale
        output[i] = normalized * factor_of(weight[i], unit_offset) if weighted else normalized


def statistics(input, eps):
    """The mean of a row, and the factor that makes its variance 1, by the mean and the squares of the chunks so far."""
    columns, dtype = input.source.shape[-1], computed(input.dtype.dtype)
    mean, squares = ntl.zeros((), dtype=dtype), ntl.zeros((), dtype=dtype)

    for i in range(input.shape[0]):
        wide = widen(input[i])
        before, after = i * CHUNK, min((i + 1) * CHUNK, columns)
        shift = ntl.sum(wide) / (after - before) - mean
        centred = wide - (mean + shift)
        # How far the chunk moves the mean; a quotient of the counts themselves would be one of float32.
        moved = shift * (after - before) / after
        squares += ntl.sum(centred * centred) + shift * moved * before
        mean += moved

    return mean, ntl.rsqrt(squares / columns + eps)


def layer_norm_application(input, weight, bias, eps, output, weighted, biased):
    mean, scale = statistics(input, eps)

    for i in range(input.shape[0]):
        normalized = (widen(input[i]) - mean) * scale
        scaled = normalized * widen(weight[i]) if weighted else normalized
        output[i] = scaled + widen(bias[i]) if biased else scaled


@functools.cache
def make_softmax(ndim=2):
    """The kernel of `softmax.make` for long rows."""
    tensors = (Tensor(ndim), Tensor(ndim))

    return ninetoothed.make(arrangement, softmax_application, tensors, kernel_name="softmax_of_long_rows")


@functools.cache
def make_rms_norm(ndim=2, unit_offset=False):
    """The kernel of `rms_norm.make` for long rows."""
    tensors = rms_norm.parameters(ndim, unit_offset)

    return ninetoothed.make(arrangement, rms_norm_application, tensors, kernel_name="rms_norm_of_long_rows")


@functools.cache
def make_layer_norm(ndim=2):
    """The kernel of `layer_norm.make` for long rows."""
    tensors = layer_norm.parameters(ndim)

    return ninetoothed.make(arrangement, layer_norm_application, tensors, kernel_name="layer_norm_of_long_rows")


def softmax_gradient(grad, output, input_grad):
    total = ntl.zeros((), dtype=computed(output.dtype.dtype))

    for i in range(output.shape[0]):
        total += ntl.sum(widen(grad[i]) * widen(output[i]))

    for i in range(output.shape[0]):
        input_grad[i] = widen(output[i]) * (widen(grad[i]) - total)


def rms_norm_gradient(grad, input, weight, eps, addend, input_grad, weighted, added, unit_offset):
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


def layer_norm_gradient(grad, input, weight, eps, input_grad, weighted):
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
def make_softmax_backward(ndim=2):
    """The kernel of `softmax_backward.make` for long rows."""
    tensors = tuple(Tensor(ndim) for _ in range(3))

    return ninetoothed.make(arrangement, softmax_gradient, tensors, kernel_name="softmax_backward_of_long_rows")


@functools.cache
def make_rms_norm_backward(ndim=2, unit_offset=False):
    """The kernel of `rms_norm_backward.make` for long rows."""
    tensors = rms_norm_backward.parameters(ndim, unit_offset)

    return ninetoothed.make(arrangement, rms_norm_gradient, tensors, kernel_name="rms_norm_backward_of_long_rows")


@functools.cache
def make_layer_norm_backward(ndim=2):
    """The kernel of `layer_norm_backward.make` for long rows."""
    tensors = layer_norm_backward.parameters(ndim)

    return ninetoothed.make(arrangement, layer_norm_gradient, tensors, kernel_name="layer_norm_backward_of_long_rows")
