"""output[n, c, h, w] = sum over k, r, s of weight[k, c, r, s] * grad[n, k, p, q].

With h = p * stride + r - padding, and w likewise: the gradient of a convolution with respect to its images. It is a
convolution, too, of the gradient and stride * stride times as many filters: those for the pixels of a square, of which
each meets every stride-th row and column of the weight, mirrored.
"""

import functools

import ninetoothed
from ninetoothed import Tensor

from . import bmm, mm
from .conv2d import CONSTANT, IMAGES, matrices


def arrangement(grad, weight, output, stride, padding, edges, dilation, filters, channels):
    filters = weight.shape[0] if filters == -1 else filters
    rows, taps = as_rows(weight.pad(((0, 0), (0, 0), *edges)), stride, filters)
    windows = {"strides": (1, filters, 1, 1), "dilation": (1, 1, *dilation), "floor_mode": True}
    grad = matrices(grad.pad(((0, 0), (0, 0), *padding)), (1, filters, *taps), **windows)

    return bmm.arrangement(grad, rows, matrices(output, (1, channels, *stride)))


def as_rows(weight, stride, filters):
    """The filters as (groups, taps * taps * K, stride * stride * C), of which taps are the last first; and the taps."""
    squares = weight.tile((filters, weight.shape[1], *stride))[:, :, ::-1, ::-1]
    rows = squares.ravel().squeeze(1).permute((0, 1, 2, 3, 5, 6, 4))

    return rows.flatten(4).flatten(1, 4), squares.shape[2:]


# A kernel for each way to stride and pad; a model has a few.
@functools.lru_cache(maxsize=64)
def make(stride=(1, 1), padding=((0, 0), (0, 0)), edges=((0, 0), (0, 0)), dilation=(1, 1), filters=-1, channels=-1):
    """The kernel `(grad, weight, output)`.

    `padding` is that of `grad`, and `edges` that of `weight` to whole strides: before and after, of height and of
    width. `dilation` is that of `weight` where it is not strided. `filters` and `channels` are the numbers of a group,
    -1 where all are of one.
    """
    options = {"stride": stride, "padding": padding, "edges": edges, "dilation": dilation}
    tensors = (Tensor(4, shape_options=IMAGES), Tensor(4, shape_options=CONSTANT), Tensor(4, shape_options=IMAGES))
    arrange = functools.partial(arrangement, **options, filters=filters, channels=channels)

    return ninetoothed.make(arrange, mm.application, tensors, kernel_name="conv2d_backward_input")
