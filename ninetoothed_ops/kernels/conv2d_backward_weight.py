"""output[part, k, c, r, s] = sum over n, p, q of grad[n, k, p, q] * input[n, c, h, w].

With h = p * stride + r * dilation - padding, and w likewise: the gradient of a convolution with respect to its filters.
It is the product of a (K, N * P * Q) and a (N * P * Q, R * S * C) matrix for each group of channels. A part is the sum
over some of the images, the first or the next so many: where filters are few, products of single parts keep a GPU busy.
"""

import functools

import ninetoothed
from ninetoothed import Tensor

from . import bmm, mm
from .conv2d import CONSTANT, IMAGES, matrices, windows


def arrangement(grad, input, output, stride, padding, dilation, filters, images):
    pixels = -1 if images == -1 else images * grad.shape[2] * grad.shape[3]
    grad = in_parts(matrices(grad, (1, filters, 1, 1)), pixels).permute((0, 2, 1))
    weight = output[0]
    input = in_parts(windows(input, weight, stride, [(pad, pad) for pad in padding], dilation), pixels)

    return bmm.arrangement(grad, input, rows_of_parts(output, filters))


def in_parts(matrices, pixels):
    """(groups, N * P * Q, columns) as (groups * parts, pixels of a part, columns)."""
    return matrices.tile((1, pixels, -1)).ravel().squeeze((2, 3)).flatten(0, 2)


def rows_of_parts(output, filters):
    """(parts, K, C, R, S) as (groups * parts, filters of a group, R * S * C)."""
    rows = output.permute((0, 1, 3, 4, 2)).flatten(2)
    rows = rows.tile((1, filters, -1)).ravel().squeeze((2, 3))

    return rows.permute((1, 0, 2, 3)).flatten(0, 2)


# A kernel for each way to stride and pad; a model has a few.
@functools.lru_cache(maxsize=16)
def make(stride=(1, 1), padding=(0, 0), dilation=(1, 1), filters=-1, images=-1):
    """The kernel `(grad, input, output)`.

    `filters` is the number of a group, -1 where all are of one; `images` is that of a part.
    """
    grad = Tensor(4, shape_options=IMAGES)
    # There are as many images as gradients, which the compiler cannot tell from the number of pixels.
    input = Tensor(shape=(grad.shape[0], None, None, None), shape_options=IMAGES)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "filters": filters, "images": images}
    tensors = grad, input, Tensor(5, shape_options=(None, *(CONSTANT,) * 4))
    arrange = functools.partial(arrangement, **options)

    return ninetoothed.make(arrange, mm.application, tensors, kernel_name="conv2d_backward_weight")
