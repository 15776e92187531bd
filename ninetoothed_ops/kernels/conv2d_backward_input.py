"""output[n, c, h, w] = sum over k, r, s of weight[k, c, r, s] * grad[n, k, p, q].

With h = p + r * dilation - padding, and w likewise: the gradient of a convolution of stride 1 with respect to its
images. It is itself a convolution, with the filters mirrored, and their channels taken for filters and the reverse.
"""

import functools

import ninetoothed
from ninetoothed import Tensor

from . import bmm, mm
from .conv2d import CONSTANT, IMAGES, as_rows, matrices, windows


def arrangement(grad, weight, output, padding, dilation, filters, channels):
    weight = weight[:, :, ::-1, ::-1].permute((1, 0, 2, 3))
    if filters != -1:
        weight = weight.tile((-1, filters, -1, -1)).ravel().squeeze((0, 2, 3)).flatten(0, 2)

    grad = windows(grad, weight, (1, 1), padding, dilation)
    weight = as_rows(weight, channels).permute((0, 2, 1))

    return bmm.arrangement(grad, weight, matrices(output, (1, channels, 1, 1)))


# A kernel for each way to pad, of which a stride makes several.
@functools.lru_cache(maxsize=64)
def make(padding=((0, 0), (0, 0)), dilation=(1, 1), filters=-1, channels=-1):
    """The kernel `(grad, weight, output)`; `padding` is that of `grad`: before and after, of height and of width.

    `filters` and `channels` are the numbers of a group, -1 where all are of one.
    """
    options = {"padding": padding, "dilation": dilation, "filters": filters, "channels": channels}
    tensors = (Tensor(4, shape_options=IMAGES), Tensor(4, shape_options=CONSTANT), Tensor(4, shape_options=IMAGES))
    arrange = functools.partial(arrangement, **options)

    return ninetoothed.make(arrange, mm.application, tensors, kernel_name="conv2d_backward_input")
