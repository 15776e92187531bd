"""softmax along the jagged dimension: output[i] = exp(input[i] - peak) / (sum over the entry of exp(input[j] - peak)).

And its gradient: input_grad[i] = output[i] * (grad[i] - (sum over the entry of grad[j] * output[j])). Tensors are
(batch, before, jagged, after). Each program has some columns of an entry, and goes down their rows block by block, once
to sum up and once to write.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import computed, exponential, widen

# How many elements a tile has, and at most how many of its columns.
TILE, COLUMNS = 2048, 64
# The dimension that is jagged.
ROWS = 2


def arrangement(*tensors, columns):
    """Give each program some columns of an entry, cut into blocks of rows."""
    return tuple(each.tile(None, None, TILE // columns, columns, loop=ROWS) for each in tensors)


def application(input, output):
    shape, dtype = input.dtype.shape[1:], computed(input.dtype.dtype)
    peak = ntl.full(shape, float("-inf"), dtype=dtype)
    total = ntl.zeros(shape, dtype=dtype)

    for i in range(input.shape[0]):
        wide = widen(input[i])
        new_peak = ntl.maximum(peak, ntl.max(wide, axis=0))
        shift = ntl.where(new_peak == float("-inf"), 0.0, new_peak)
        powers = exponential(wide - shift[None, :], output.dtype.dtype)
        total = total * ntl.exp(peak - shift) + ntl.sum(powers, axis=0)
        peak = new_peak

    for i in range(input.shape[0]):
        output[i] = exponential(widen(input[i]) - peak[None, :], output.dtype.dtype) / total[None, :]


def backward_application(grad, output, input_grad):
    total = ntl.zeros(output.dtype.shape[1:], dtype=computed(output.dtype.dtype))

    for i in range(output.shape[0]):
        total += ntl.sum(widen(grad[i]) * widen(output[i]), axis=0)

    for i in range(output.shape[0]):
        input_grad[i] = widen(output[i]) * (widen(grad[i]) - total[None, :])


@functools.cache
def make(columns=64):
    """The kernel `(input, output)` of so many columns a program, a power of two."""
    return _made(application, 2, columns, "softmax_jagged")


@functools.cache
def make_backward(columns=64):
    """The kernel `(grad, output, input_grad)`."""
    return _made(backward_application, 3, columns, "softmax_jagged_backward")


def _made(application, count, columns, name):
    arranged = functools.partial(arrangement, columns=columns)
    tensors = tuple(Tensor(4, jagged_dim=ROWS) for _ in range(count))

    return ninetoothed.make(arranged, application, tensors, kernel_name=name)
