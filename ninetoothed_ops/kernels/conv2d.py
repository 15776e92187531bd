"""output[n, k, p, q] = bias[k] + sum over c, r, s of weight[k, c, r, s] * input[n, c, h, w].

With h = p * stride + r * dilation - padding, and w likewise. It is the product of a (N * P * Q, R * S * C) and a
(R * S * C, K) matrix for each group of channels; no matrix is ever built. Channels come last, so that a block of the
inner dimension is one run of memory where the images' and filters' channels are.
"""

import functools

import ninetoothed
from ninetoothed import Tensor

from . import addmm, bmm, mm

# The sizes that the compiler knows: all but the number of images.
CONSTANT = {"constexpr": True}
IMAGES = (None, CONSTANT, CONSTANT, CONSTANT)


def matrices(tensor, tile_shape, **options):
    """(N, channels, P, Q), tiled by groups of channels, as (groups, N * P * Q, elements of a tile)."""
    tiled = tensor.tile(tile_shape, **options)
    tiled.dtype = tiled.dtype.permute((0, 2, 3, 1))

    return tiled.permute((1, 0, 2, 3)).ravel().flatten(4).flatten(1, 4)


def windows(input, weight, stride, padding, dilation):
    """The rows of images that filters are multiplied with: (groups, N * P * Q, R * S * C)."""
    input = input.pad(((0, 0), (0, 0), *padding))
    strides, dilation = (1, weight.shape[1], *stride), (1, 1, *dilation)

    return matrices(input, (1, *weight.shape[1:]), strides=strides, dilation=dilation, floor_mode=True)


def as_rows(weight, filters):
    """The filters as rows: (groups, filters of a group, R * S * C)."""
    weight = weight.permute((0, 2, 3, 1)).flatten(1)

    return weight.tile((filters, weight.shape[1])).ravel().squeeze(1)


def arrangement(input, weight, bias, output, biased, stride, padding, dilation, filters):
    input = windows(input, weight, stride, [(pad, pad) for pad in padding], dilation)
    weight = as_rows(weight, filters).permute((0, 2, 1))

    bias = bias[None, :, None, None].expand((output.shape[0], -1, *output.shape[2:]))
    bias, output = (matrices(tensor, (1, filters, 1, 1)) for tensor in (bias, output))

    _, _, bias_arranged = bmm.arrangement(input, weight, bias)
    input_arranged, weight_arranged, output_arranged = bmm.arrangement(input, weight, output)

    return input_arranged, weight_arranged, bias_arranged, output_arranged, biased


def application(input, weight, bias, output, biased):
    if biased:
        addmm.application(bias, input, weight, 1, 1, output)
    else:
        mm.application(input, weight, output)


# A kernel for each way to stride and pad; a model has a few.
@functools.lru_cache(maxsize=16)
def make(stride=(1, 1), padding=(0, 0), dilation=(1, 1), filters=-1):
    """The kernel `(input, weight, bias, output, biased)`; `filters` is the number of a group, -1 where all are of one.

    Where `biased` is false, `bias` is any vector of as many elements as there are filters: it is not read.
    """
    tensors = (
        Tensor(4, shape_options=IMAGES),
        Tensor(4, shape_options=CONSTANT),
        Tensor(1, shape_options=CONSTANT),
        Tensor(4, shape_options=IMAGES),
        Tensor(0, constexpr=True),
    )
    arrange = functools.partial(arrangement, stride=stride, padding=padding, dilation=dilation, filters=filters)

    return ninetoothed.make(arrange, application, tensors, kernel_name="conv2d")
