"""The gradient of `channel_norm`, whose mean and scale are the input's own or are constant.

sums[n, g, k, part] of grad[n, g, k, p] over the p of a part, and products of grad * (input - mean); then

input_grad[n, g, k, p] = grad[n, g, k, p] * scale[n, g, k] - (input[n, g, k, p] - mean[n, g, k]) * slope[n, g, k]
    - offset[n, g, k].
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .channel_moments import of_parts, tiles
from .channel_norm import arrangement
from .numeric import computed, widen


def application(grad, input, mean, scale, slope, offset, input_grad):
    centred = widen(input) - mean[:, None]

    input_grad = widen(grad) * scale[:, None] - centred * slope[:, None] - offset[:, None]


@functools.cache
def make(channels=1, pixels=1024):
    """The kernel `(grad, input, mean, scale, slope, offset, input_grad)`, of the shapes of `channel_norm.make`."""
    tensors = Tensor(4), Tensor(4), *(Tensor(3) for _ in range(4)), Tensor(4)
    arranged = functools.partial(arrangement, channels=channels, pixels=pixels)

    return ninetoothed.make(arranged, application, tensors, kernel_name="channel_norm_backward")


def arrangement_of_sums(grad, input, mean, sums, products, channels, pixels, rounds):
    sums, products = of_parts(sums, channels), of_parts(products, channels)
    mean = mean.tile(None, None, channels).unsqueeze(3).expand(-1, -1, -1, sums.shape[3])

    return *(tiles(each, channels, pixels, rounds) for each in (grad, input)), mean, sums, products


def application_of_sums(grad, input, mean, sums, products):
    dtype = computed(grad.dtype.dtype)
    total, weighted = ntl.zeros(sums.shape, dtype=dtype), ntl.zeros(sums.shape, dtype=dtype)

    for i in range(input.shape[0]):
        slope = widen(grad[i])
        total += ntl.sum(slope, axis=1)
        weighted += ntl.sum(slope * (widen(input[i]) - mean[:, None]), axis=1)

    sums = total
    products = weighted


@functools.cache
def make_sums(channels=1, pixels=1024, rounds=1):
    """The kernel `(grad, input, mean, sums, products)`, of the shapes of `channel_moments.make`."""
    tensors = Tensor(4), Tensor(4), Tensor(3), Tensor(4), Tensor(4)
    arranged = functools.partial(arrangement_of_sums, channels=channels, pixels=pixels, rounds=rounds)

    return ninetoothed.make(arranged, application_of_sums, tensors, kernel_name="channel_sums")
