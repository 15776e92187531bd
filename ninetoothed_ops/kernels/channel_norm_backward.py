"""The gradient of `channel_norm`, whose mean and variance are the input's own or are constant.

sums[n, g, k, part] of grad[n, g, k, p] over the p of a part, and products of grad * (input - mean). They are added up,
the first two for all that share a mean, the others for all that share a weight:

total = sum of sums * weight, product = sum of products * weight;
bias_grad = sum of sums, weight_grad = sum of products * scale, with scale = 1 / sqrt(variance + eps).

input_grad[n, g, k, p] = scale * (grad * weight - total * share - (input - mean) * scale^2 * product * share), with a
share of 1 / the elements that share a mean, or without the last two terms where mean and variance are constant.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .channel_moments import of_parts, tiles, to_add_up
from .channel_norm import arrangement, scale_of
from .numeric import computed, widen
from .parameters import flags


def application(grad, input, mean, variance, weight, total, product, eps, share, input_grad, weighted, constant):
    scale, slope = scale_of(variance, eps), widen(grad)
    slope = slope * widen(weight)[:, None] if weighted else slope
    if not constant:
        part = ntl.cast(share, scale.dtype)
        along = scale * scale * product * part
        slope = slope - (total * part)[:, None] - (widen(input) - widen(mean)[:, None]) * along[:, None]

    input_grad = slope * scale[:, None]


@functools.cache
def make(channels=1, pixels=1024):
    """The kernel `(grad, input, mean, variance, weight, total, product, eps, share, input_grad, weighted, constant)`.

    Of the shapes of `channel_norm.make`. Where `constant`, input, mean, total and product are not read.
    """
    tensors = Tensor(4), Tensor(4), *(Tensor(3) for _ in range(5)), Tensor(0), Tensor(0), Tensor(4), *flags(2)
    arranged = functools.partial(arrangement, image=9, channels=channels, pixels=pixels)

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
        weighted += ntl.sum(slope * (widen(input[i]) - widen(mean)[:, None]), axis=1)

    sums = total
    products = weighted


@functools.cache
def make_sums(channels=1, pixels=1024, rounds=1):
    """The kernel `(grad, input, mean, sums, products)`, of the shapes of `channel_moments.make`."""
    tensors = Tensor(4), Tensor(4), Tensor(3), Tensor(4), Tensor(4)
    arranged = functools.partial(arrangement_of_sums, channels=channels, pixels=pixels, rounds=rounds)

    return ninetoothed.make(arranged, application_of_sums, tensors, kernel_name="channel_sums")


def arrangement_of_totals(sums, products, factor, total, product, *others, rows):
    """Give each program (p, q) all that is added up there, and an element of each result."""
    parts = (to_add_up(each, rows) for each in (sums, products, factor))

    return *parts, total.tile(None, None), product.tile(None, None), *others


def application_of_totals(sums, products, weight, total, product, weighted):
    dtype = sums.dtype.dtype
    of_sums, of_products = ntl.zeros((), dtype=dtype), ntl.zeros((), dtype=dtype)

    for i in range(sums.shape[0]):
        factor = widen(weight[i])[:, None] if weighted else 1
        of_sums += ntl.sum(sums[i] * factor)
        of_products += ntl.sum(products[i] * factor)

    total = of_sums
    product = of_products


def application_of_vectors(sums, products, variance, bias_grad, weight_grad, eps, biased, weighted):
    dtype = sums.dtype.dtype
    of_sums, of_products = ntl.zeros((), dtype=dtype), ntl.zeros((), dtype=dtype)

    for i in range(sums.shape[0]):
        of_sums += ntl.sum(sums[i])
        of_products += ntl.sum(products[i] * scale_of(variance[i], eps)[:, None])

    if biased:
        bias_grad = of_sums
    if weighted:
        weight_grad = of_products


@functools.cache
def make_totals(rows=1):
    """The kernel `(sums, products, weight, total, product, weighted)`.

    Twice (p, q, a, parts), (p, q, a) and twice (p, q): all of a and the parts share a mean.
    """
    tensors = Tensor(4), Tensor(4), Tensor(3), Tensor(2), Tensor(2), *flags(1)
    arranged = functools.partial(arrangement_of_totals, rows=rows)

    return ninetoothed.make(arranged, application_of_totals, tensors, kernel_name="channel_totals")


@functools.cache
def make_vectors(rows=1):
    """The kernel `(sums, products, variance, bias_grad, weight_grad, eps, biased, weighted)`.

    Of the shapes of `make_totals`: all of a and the parts share a weight. The flags tell which gradients are written.
    """
    tensors = Tensor(4), Tensor(4), Tensor(3), Tensor(2), Tensor(2), Tensor(0), *flags(2)
    arranged = functools.partial(arrangement_of_totals, rows=rows)

    return ninetoothed.make(arranged, application_of_vectors, tensors, kernel_name="channel_vectors")
