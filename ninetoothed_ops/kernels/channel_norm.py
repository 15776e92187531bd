"""output[n, g, k, p] = (input[n, g, k, p] - mean) / sqrt(variance + eps) * weight + bias, the vectors at [n, g, k].

Group norm and batch norm, whose channels (n, g, k) share what they share by strides of 0.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import widen
from .parameters import flags


def arrangement(*tensors, image, channels, pixels):
    """Give each program some channels and pixels of each image, and of each vector these channels; numbers as they are.

    image: the place of an image, of whose tiles the grid is.
    """
    grid = tensors[image].tile(None, None, channels, pixels).shape

    def arranged(tensor):
        if tensor.ndim == 4:
            return tensor.tile(None, None, channels, pixels)
        if tensor.ndim == 3:
            return tensor.tile(None, None, channels).unsqueeze(3).expand(-1, -1, -1, grid[3])
        return tensor

    return tuple(map(arranged, tensors))


def scale_of(variance, eps):
    """The factor 1 / sqrt(variance + eps) of each channel."""
    wide = widen(variance)

    return ntl.rsqrt(wide + ntl.cast(eps, wide.dtype))


def application(input, mean, variance, weight, bias, eps, output, weighted, biased):
    scale = scale_of(variance, eps)
    factor = scale * widen(weight) if weighted else scale
    normalized = (widen(input) - widen(mean)[:, None]) * factor[:, None]

    output = normalized + widen(bias)[:, None] if biased else normalized


@functools.cache
def make(channels=1, pixels=1024):
    """The kernel `(input, mean, variance, weight, bias, eps, output, weighted, biased)`.

    Images are (N, groups, channels, pixels), vectors without the pixels; flags tell whether weight and bias are read.
    """
    tensors = Tensor(4), *(Tensor(3) for _ in range(4)), Tensor(0), Tensor(4), *flags(2)
    arranged = functools.partial(arrangement, image=6, channels=channels, pixels=pixels)

    return ninetoothed.make(arranged, application, tensors, kernel_name="channel_norm")
