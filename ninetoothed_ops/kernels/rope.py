"""output[even] = input[even] * cos - input[odd] * sin, output[odd] = input[even] * sin + input[odd] * cos.

The pairs (even, odd) are neighbours where interleaved, else element i of the first half and element i of the second.
"""

import functools

import ninetoothed
from ninetoothed import Tensor

from .numeric import widen


def arrangement(input, sin, cos, output, interleaved):
    def pairs(tensor):
        """(batch, sequence, heads, D): one program a token, to which belong two tiles of (heads, D / 2)."""
        strides, dilation = ((1, 1, 1, 1), (1, 1, 1, 2)) if interleaved else (None, None)
        tiled = tensor.tile((1, 1, tensor.shape[2], sin.shape[2]), strides=strides, dilation=dilation)
        tiled = tiled.tile((1, 1, 1, 2))
        tiled.dtype = tiled.dtype.squeeze((0, 1, 2))
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze((0, 1))

        return tiled

    def angles(table):
        tiled = table.tile((1, 1, -1))
        tiled.dtype = tiled.dtype.squeeze((0, 1))

        return tiled.unsqueeze(3)

    return pairs(input), angles(sin), angles(cos), pairs(output)


def application(input, sin, cos, output):
    even, odd = widen(input[0]), widen(input[1])

    output[0] = even * cos - odd * sin
    output[1] = even * sin + odd * cos


@functools.cache
def make(interleaved=True):
    """The kernel `(input, sin, cos, output)`: (batch, sequence, heads, D), tables of (batch, sequence, D / 2)."""
    arrange = functools.partial(arrangement, interleaved=interleaved)
    tensors = (Tensor(4), Tensor(3), Tensor(3), Tensor(4))

    return ninetoothed.make(arrange, application, tensors, kernel_name="rope")
