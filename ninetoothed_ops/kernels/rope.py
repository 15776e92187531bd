"""output[even] = input[even] * cos - input[odd] * sin, output[odd] = input[even] * sin + input[odd] * cos.

The pairs (even, odd) are neighbours where interleaved, else element i of the first half and element i of the second.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import widen


def arrangement(input, sin, cos, output, flag, interleaved):
    """One program a token: to it belong all heads of `input`, in one tile where interleaved, else in two halves."""

    def heads(tensor):
        tiled = tensor.tile((1, 1, -1, -1 if interleaved else sin.shape[2])).tile((1, 1, 1, -1))
        tiled.dtype = tiled.dtype.squeeze((0, 1, 2))
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze((0, 1))

        return tiled

    def angles(table):
        tiled = table.tile((1, 1, -1))
        tiled.dtype = tiled.dtype.squeeze((0, 1))

        return tiled.unsqueeze(3)

    return heads(input), angles(sin), angles(cos), heads(output), flag


def rotate(even, odd, sin, cos):
    return even * cos - odd * sin, even * sin + odd * cos


def application(input, sin, cos, output, interleaved):
    sine, cosine = widen(sin), widen(cos)

    if interleaved:
        # Whole rows are loaded and taken apart in registers: accesses stay wide.
        even, odd = ntl.split(ntl.reshape(widen(input[0]), (-1, sine.shape[0], 2)))
        output[0] = ntl.reshape(ntl.join(*rotate(even, odd, sine, cosine)), output.dtype.shape)
    else:
        output[0], output[1] = rotate(widen(input[0]), widen(input[1]), sine, cosine)


@functools.cache
def make(interleaved=True):
    """The kernel `(input, sin, cos, output)`: (batch, sequence, heads, D), tables of (batch, sequence, D / 2)."""
    constant = {"constexpr": True}
    input, output = (Tensor(4, shape_options=(None, None, constant, constant)) for _ in range(2))
    sin, cos = (Tensor(3, shape_options=(None, None, constant)) for _ in range(2))
    tensors = (input, sin, cos, output, Tensor(0, constexpr=True, value=interleaved))
    arrange = functools.partial(arrangement, interleaved=interleaved)

    return ninetoothed.make(arrange, application, tensors, kernel_name="rope")
