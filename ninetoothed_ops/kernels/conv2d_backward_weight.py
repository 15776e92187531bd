"""output[k, c, r, s] = sum over n, p, q of grad[n, k, p, q] * input[n, c, h, w].

With h = p * stride + r * dilation - padding, and w likewise: the gradient of a convolution with respect to its filters.
It is the product of a (K, N * P * Q) and a (N * P * Q, R * S * C) matrix for each group of channels.
"""

import functools

import ninetoothed
from ninetoothed import Tensor

from . import bmm, mm
from .conv2d import CONSTANT, IMAGES, as_rows, matrices, windows


def arrangement(grad, input, output, stride, padding, dilation, filters):
    grad = matrices(grad, (1, filters, 1, 1)).permute((0, 2, 1))
    input = windows(input, output, stride, [(pad, pad) for pad in padding], dilation)

    return bmm.arrangement(grad, input, as_rows(output, filters))


# A kernel for each way to stride and pad; a model has a few.
@functools.lru_cache(maxsize=16)
def make(stride=(1, 1), padding=(0, 0), dilation=(1, 1), filters=-1):
    """The kernel `(grad, input, output)`; `filters` is the number of a group, -1 where all are of one."""
    grad = Tensor(4, shape_options=IMAGES)
    # There are as many images as gradients, which the compiler cannot tell from the number of pixels.
    input = Tensor(shape=(grad.shape[0], None, None, None), shape_options=IMAGES)
    arrange = functools.partial(arrangement, stride=stride, padding=padding, dilation=dilation, filters=filters)
    tensors = grad, input, Tensor(4, shape_options=CONSTANT)

    return ninetoothed.make(arrange, mm.application, tensors, kernel_name="conv2d_backward_weight")
