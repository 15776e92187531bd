"""x[even] * cos[even] - x[odd] * sin[even] and x[even] * sin[odd] + x[odd] * cos[odd], for each pair of elements.

The pairs (even, odd) are neighbours where interleaved, else element i of the first half and element i of the second.
The result's pairs may lie otherwise than the input's. Where the two of a pair share an angle, tables have one row for
both.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import widen
from .parameters import flags


def arrangement(input, sin, cos, output, *flags, interleaved, interleaved_output):
    """Give each token a program, with all heads of `input`: in one tile where interleaved, else in two halves."""

    def heads(tensor, interleaved):
        return tensor.tile(None, None, -1, -1 if interleaved else sin.shape[3], loop=3)

    def angles(table):
        return table.tile(None, None, None, -1, loop=2)

    return heads(input, interleaved), angles(sin), angles(cos), heads(output, interleaved_output), *flags


def rotate(pair, sines, cosines):
    return pair[0] * cosines[0] - pair[1] * sines[0], pair[0] * sines[1] + pair[1] * cosines[1]


def read(tile, sines, interleaved):
    if interleaved:
        # Whole rows are loaded and taken apart in registers: accesses stay wide.
        even, odd = ntl.split(ntl.reshape(widen(tile[0]), (-1, sines[0].shape[0], 2)))
    else:
        even, odd = widen(tile[0]), widen(tile[1])
    return even, odd


def write(tile, pair, interleaved):
    if interleaved:
        tile[0] = ntl.reshape(ntl.join(*pair), tile.dtype.shape)
    else:
        tile[0], tile[1] = pair


def turn(input, sines, cosines, output, interleaved, interleaved_output):
    write(output, rotate(read(input, sines, interleaved), sines, cosines), interleaved_output)


def application(input, sin, cos, output, interleaved, interleaved_output):
    sine, cosine = widen(sin[0]), widen(cos[0])

    turn(input, (sine, widen(sin[-1])), (cosine, widen(cos[-1])), output, interleaved, interleaved_output)


def kernel_of(arrangement, application, count, interleaved, interleaved_output, kernel_name):
    """Make a kernel of so many tensors (batch, sequence, heads, D), or tables, whose pairs lie as the flags say."""
    constant = {"constexpr": True}
    layouts = interleaved, interleaved if interleaved_output is None else interleaved_output
    tensors = (Tensor(4, shape_options=(None, None, constant, constant)) for _ in range(count))
    arrange = functools.partial(arrangement, interleaved=layouts[0], interleaved_output=layouts[1])

    return ninetoothed.make(arrange, application, (*tensors, *flags(0, *layouts)), kernel_name=kernel_name)


@functools.cache
def make(interleaved=True, interleaved_output=None):
    """The kernel `(input, sin, cos, output)`: (batch, sequence, heads, D), tables (batch, sequence, 1 or 2, D / 2)."""
    return kernel_of(arrangement, application, 4, interleaved, interleaved_output, "rope")
