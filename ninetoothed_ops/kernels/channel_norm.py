"""output[n, g, k, p] = (input[n, g, k, p] - mean[n, g, k]) * scale[n, g, k] + shift[n, g, k].

Group norm and batch norm, whose channels (n, g, k) share what they share by strides of 0.
"""

import functools

import ninetoothed
from ninetoothed import Tensor

from .numeric import widen


def arrangement(*tensors, channels, pixels):
    """Give each program some channels and pixels of each image, and of each vector these channels."""
    image = tensors[-1].tile(None, None, channels, pixels)

    def arranged(tensor):
        if tensor.ndim == 4:
            return tensor.tile(None, None, channels, pixels)
        return tensor.tile(None, None, channels).unsqueeze(3).expand(-1, -1, -1, image.shape[3])

    return tuple(map(arranged, tensors))


def application(input, mean, scale, shift, output):
    output = (widen(input) - mean[:, None]) * scale[:, None] + shift[:, None]


@functools.cache
def make(channels=1, pixels=1024):
    """The kernel `(input, mean, scale, shift, output)`: (N, groups, channels, pixels), and without the pixels."""
    tensors = Tensor(4), Tensor(3), Tensor(3), Tensor(3), Tensor(4)
    arranged = functools.partial(arrangement, channels=channels, pixels=pixels)

    return ninetoothed.make(arranged, application, tensors, kernel_name="channel_norm")
