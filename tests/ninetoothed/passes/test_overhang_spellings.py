"""Masks that a softmax needs none of, however it is spelled: what loads hold past the end makes its weights 0 there."""

import math

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from tests.conftest import DEVICE

BLOCK = 8
LOG2E = math.log2(math.e)
INFINITY = float("inf")


def tiles(x, *rest):
    return x.tile((BLOCK,)), *(tensor.tile((1,)) for tensor in rest)


def sequence(x, *rest):
    return x.tile((BLOCK,)).tile((-1,)), *(tensor.tile((1,)) for tensor in rest)


def scaled_by_itself(x):
    scaled = x * LOG2E
    return ntl.exp2(scaled - ntl.max(scaled))


def from_a_guarded_peak(x):
    peak = ntl.max(x)
    return ntl.exp(x - ntl.where(peak > -INFINITY, peak, 0.0))


def from_a_peak_that_is_guarded_first(x):
    peak = ntl.max(x)
    return ntl.exp(x - ntl.where(peak == -INFINITY, 0.0, peak))


# A spelling of exp(x - max(x)), and how many choices are its own.
SPELLINGS = {
    "plain": (lambda x: ntl.exp(x - ntl.max(x)), 0),
    "to base 2": (lambda x: ntl.exp2((x - ntl.max(x)) * LOG2E), 0),
    "scaled apart": (lambda x: ntl.exp2(x * LOG2E - ntl.max(x) * LOG2E), 0),
    "scaled before": (scaled_by_itself, 0),
    "halved": (lambda x: ntl.exp(x / 2 - ntl.max(x) / 2) * ntl.exp(0.5 * x - 0.5 * ntl.max(x)), 0),
    "shifted": (lambda x: ntl.exp((x + 1.0) - (ntl.max(x) + 1.0)), 0),
    "negated": (lambda x: ntl.exp(-(ntl.max(x) - x)), 0),
    "added": (lambda x: ntl.exp(x + -ntl.max(x)), 0),
    "added in another order": (lambda x: ntl.exp(-ntl.max(x) + x), 0),
    "by the least": (lambda x: ntl.exp(ntl.min(-x) + x), 0),
    "in parts": (lambda x: ntl.exp(x - ntl.maximum(-1e30, ntl.maximum(ntl.max(x), ntl.max(x)))), 0),
    "guarded": (from_a_guarded_peak, 1),
    "guarded first": (from_a_peak_that_is_guarded_first, 1),
}


def masks(kernel, *args):
    """Count the choices in a kernel's text."""
    return kernel.source(*args, gpu="h100").count("tl.where")


@pytest.mark.parametrize("name", SPELLINGS)
def test_weights_of_a_softmax(name):
    weights, own = SPELLINGS[name]

    def application(x, y):
        y = ntl.sum(weights(x))

    x, y = torch.randn(11, device=DEVICE), torch.empty(2, device=DEVICE)
    x[3] = -INFINITY
    kernel = ninetoothed.make(tiles, application, (Tensor(1), Tensor(1)))
    assert masks(kernel, x, y) == own
    kernel(x, y)
    torch.testing.assert_close(y, torch.stack([(part - part.amax()).exp().sum() for part in x.split(BLOCK)]))


def test_weights_of_the_least():
    def application(x, y):
        y = ntl.sum(ntl.exp(ntl.min(x) - x))

    x, y = torch.randn(11, device=DEVICE), torch.empty(2, device=DEVICE)
    kernel = ninetoothed.make(tiles, application, (Tensor(1), Tensor(1)))
    assert masks(kernel, x, y) == 0
    kernel(x, y)
    torch.testing.assert_close(y, torch.stack([(part.amin() - part).exp().sum() for part in x.split(BLOCK)]))


def of_all_axes(x, y):
    y = ntl.sum(ntl.exp(x - ntl.max(ntl.max(x, 1))))


def test_peaks_of_peaks():
    x, y = torch.randn(6, 13, device=DEVICE), torch.empty(2, 2, device=DEVICE)
    kernel = ninetoothed.make(lambda x, y: (x.tile((4, 8)), y.tile((1, 1))), of_all_axes, (Tensor(2), Tensor(2)))
    assert masks(kernel, x, y) == 0
    kernel(x, y)
    parts = [rows.split(8, 1) for rows in x.split(4)]
    expected = [torch.stack([(part - part.amax()).exp().sum() for part in row]) for row in parts]
    torch.testing.assert_close(y, torch.stack(expected))


def online(x, y):
    peak = ntl.full((), -INFINITY, dtype=ntl.float32)
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(x.shape[0]):
        new = ntl.maximum(ntl.max(x[i]), peak)
        total = total * ntl.exp(peak - new) + ntl.sum(ntl.exp(x[i] - new))
        peak = new
    y = peak + ntl.log(total)


def online_to_base_2(x, y):
    peak = ntl.full((), -INFINITY, dtype=ntl.float32)
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(x.shape[0]):
        new = ntl.maximum(peak, ntl.max(x[i]))
        total *= ntl.exp2((peak - new) * LOG2E)
        total += ntl.sum(ntl.exp2(x[i] * LOG2E - new * LOG2E))
        peak = new
    y = (peak * LOG2E + ntl.log2(total)) / LOG2E


def online_of_scaled_scores(x, y):
    peak = ntl.full((), -INFINITY, dtype=ntl.float32)
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(x.shape[0]):
        scores = x[i] * LOG2E
        new = ntl.maximum(ntl.max(scores), peak)
        total = ntl.sum(ntl.exp2(-new + scores)) + total * ntl.exp2(peak - new)
        peak = new
    y = (peak + ntl.log2(total)) / LOG2E


def online_lane_by_lane(x, y):
    peak = ntl.full((), -INFINITY, dtype=ntl.float32)
    total = ntl.zeros((BLOCK,), dtype=ntl.float32)
    for i in range(x.shape[0]):
        new = ntl.maximum(peak, ntl.max(x[i]))
        total = total * ntl.exp2((peak - new) * LOG2E) + ntl.exp2(x[i] * LOG2E - new * LOG2E)
        peak = new
    y = peak + ntl.log(ntl.sum(total))


@pytest.mark.parametrize(
    "application",
    (online, online_to_base_2, online_of_scaled_scores, online_lane_by_lane),
    ids=lambda application: application.__name__,
)
def test_sums_that_are_scaled_as_the_peak_rises(application):
    x, y = torch.randn(21, device=DEVICE), torch.empty(1, device=DEVICE)
    kernel = ninetoothed.make(sequence, application, (Tensor(1), Tensor(1)))
    assert masks(kernel, x, y) == 0
    kernel(x, y)
    torch.testing.assert_close(y, x.logsumexp(0)[None])


def from_another_peak(x, z, y):
    y = ntl.sum(ntl.exp(x - ntl.max(z))) + ntl.max(x) * 0


def from_a_peak_of_what_is_negated(x, z, y):
    y = ntl.sum(ntl.exp(x - ntl.max(-x))) + ntl.max(z)


def from_the_least(x, z, y):
    y = ntl.sum(ntl.exp(x - ntl.min(x))) + ntl.max(z)


def from_a_peak_guarded_the_other_way(x, z, y):
    peak = ntl.max(z)
    y = ntl.sum(ntl.exp(x - ntl.where(peak == -INFINITY, peak, 0.0))) + ntl.max(x) * 0


@pytest.mark.parametrize(
    "application, first, second, expected",
    (
        (from_another_peak, 1.0, -INFINITY, INFINITY),
        (from_a_peak_of_what_is_negated, INFINITY, 1.0, INFINITY),
        (from_the_least, 2.0, 1.0, 4.0),
        (from_a_peak_guarded_the_other_way, 1.0, -INFINITY, INFINITY),
    ),
    ids=lambda each: getattr(each, "__name__", None),
)
def test_peaks_that_may_be_infinite_where_elements_are_not(application, first, second, expected):
    x, z = (torch.full((3,), number, device=DEVICE) for number in (first, second))
    y = torch.empty(1, device=DEVICE)
    arrangement = lambda x, z, y: (x.tile((BLOCK,)), z.tile((BLOCK,)), y.tile((1,)))  # noqa: E731
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))(x, z, y)
    assert y.item() == expected


def test_a_load_keeps_0_where_that_serves():
    def application(x, y):
        y = ntl.sum(x * x) + ntl.max(x)

    x, y = -torch.rand(11, device=DEVICE) - 1, torch.empty(2, device=DEVICE)
    kernel = ninetoothed.make(tiles, application, (Tensor(1), Tensor(1)))
    assert masks(kernel, x, y) == 1
    kernel(x, y)
    torch.testing.assert_close(y, torch.stack([(part * part).sum() + part.amax() for part in x.split(BLOCK)]))


@pytest.mark.parametrize("inner", (6, 8))
def test_peaks_that_vary_along_the_end(inner):
    """Past the end they are -inf, although no element is."""

    def application(x, z, y):
        peaks = ntl.maximum(ntl.max(x, 0, keep_dims=True), -1 / z)
        y = ntl.sum(ntl.exp(x - peaks), 1, keep_dims=True)

    def arrangement(x, z, y):
        return x.tile((4, inner)), z.tile((1, inner)), y.tile((4, 1))

    x, z = torch.randn(7, inner + 5, device=DEVICE), torch.rand(2, inner + 5, device=DEVICE) + 1
    y = torch.empty(7, 2, device=DEVICE)
    ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(2)))(x, z, y)
    parts = zip(x.split(4), z, strict=True)
    weights = torch.cat([(rows - torch.maximum(rows.amax(0), -1 / least)).exp() for rows, least in parts])
    torch.testing.assert_close(y, torch.stack([part.sum(1) for part in weights.split(inner, 1)], 1))
