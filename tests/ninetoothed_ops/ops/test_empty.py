"""Sizes of zero, in every dimension of every operator: what PyTorch gives, real, fake and with symbols for sizes."""

import functools
import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.nn.attention import SDPBackend, sdpa_kernel

import ninetoothed_ops
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import NAMESAKES, OPERATORS, Sample, random as r


def calls(name: str, *sizes: int):
    """Calls with tensors of these sizes, as many as `DIMENSIONS` says."""
    match name, sizes:
        case "add", (a, b):
            yield r(a, b), r(a, b)
            yield r(a, 1), r(b)
        case "silu" | "gelu", (a, b, c):
            yield (r(a, b, c),)
            yield (r(a, c, b).mT,)
        case "swiglu", (a, b, c):
            yield r(a, b, c), r(a, b, c)
            yield r(a, b, c), r(a, c, b).mT
        case "softmax", (a, b, c):
            yield from ((r(a, b, c), dim) for dim in range(3))
        case "layer_norm", (a, b, c):
            yield from ((r(a, b, c), shape, r(*shape), r(*shape)) for shape in ([c], [b, c], [a, b, c]))
        case "rms_norm", (a, b, c):
            yield from ((r(a, b, c), shape, r(*shape)) for shape in ([c], [b, c], [a, b, c]))
        case "mm", (m, n, k):
            yield r(m, k), r(k, n)
        case "cross_entropy", (n, c, d) if c:
            yield r(n, c, d), torch.zeros(n, d, dtype=torch.long, device=DEVICE)
            yield r(n, c, d), r(n, c, d)
        case "linear_cross_entropy", (m, n, k) if n:
            yield from ((r(m, k), r(n, k), torch.zeros(m, dtype=torch.long, device=DEVICE), b) for b in (None, r(n)))
        case "linear", (m, n, k):
            yield from ((r(*shape, k), r(n, k), bias) for shape in ((m,), (2, m)) for bias in (None, r(n)))
        case "addmm", (m, n, k):
            yield from ((r(*shape), r(m, k), r(k, n)) for shape in ((m, n), (n,), (), (m, 1)))
        case "bmm", (b, m, n, k):
            yield r(b, m, k), r(b, k, n)
        case "rope", (b, s, h, d):
            tables = (r(s, d), r(s, d)), (r(b, s, d), r(b, s, d))
            yield from ((r(b, s, h, 2 * d), *table, pairs) for table in tables for pairs in (True, False))
        case "sdpa", (b, h, length, keys, d, e):
            qkv = r(b, h, length, d), r(b, h, keys, d), r(b, h, keys, e)
            yield qkv
            yield (*qkv, r(b, 1, length, keys) > 0)
            yield (*qkv, r(1, 1, length, keys))
        case "conv2d", (n, h, w):  # Not of no channels, for which PyTorch gives no filters' outputs.
            yield r(n, 2, h, w), r(3, 2, 1, 1), r(3)
            yield r(n, 2, h, w), r(3, 2, 3, 2), r(3), 1, 2
            yield r(n, 2, h, w), r(0, 2, 3, 3), r(0), 1, 1


DIMENSIONS = {"add": 2, "bmm": 4, "rope": 4, "sdpa": 6}
DIMENSIONS |= dict.fromkeys(("cross_entropy", "gelu", "linear_cross_entropy"), 3)
DIMENSIONS |= dict.fromkeys(
    ("silu", "softmax", "swiglu", "layer_norm", "rms_norm", "linear", "mm", "addmm", "conv2d"), 3
)


@pytest.fixture(autouse=True)
def written_out():
    """On a CPU the fused attention of PyTorch 2.11 divides by zero, which ends the process."""
    with sdpa_kernel(SDPBackend.MATH):
        yield


def outcome(function, sample: Sample):
    try:
        return sample.call(function)
    except RuntimeError as error:
        return error


def described(result):
    if isinstance(result, Exception):
        return RuntimeError
    return tuple(int(size) for size in result.shape), result.dtype, result.device


@pytest.mark.parametrize("name", OPERATORS)
def test_sizes_of_zero(name):
    for sizes in itertools.product((0, 3) if name == "sdpa" else (0, 1, 3), repeat=DIMENSIONS[name]):
        for args in calls(name, *sizes) if 0 in sizes else ():
            sample = Sample(name, str(sizes), args)
            expected = outcome(NAMESAKES[name], sample)
            actual = outcome(getattr(ninetoothed_ops, name), sample)

            assert described(actual) == described(expected), sizes
            if isinstance(expected, torch.Tensor):
                torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


def gradients(function, args):
    inputs = [
        value.requires_grad_() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in args
    ]
    leaves = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]

    return torch.autograd.grad(function(*inputs).sum(), leaves, materialize_grads=True)


@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_of_sizes_of_zero(name):
    for sizes in itertools.product((0, 3), repeat=DIMENSIONS[name]):
        for args in calls(name, *sizes) if sizes.count(0) == 1 else ():
            args = [value.detach() if isinstance(value, torch.Tensor) else value for value in args]
            if isinstance(outcome(NAMESAKES[name], Sample(name, str(sizes), args)), torch.Tensor):
                expected = gradients(NAMESAKES[name], args)
                torch.testing.assert_close(gradients(getattr(ninetoothed_ops, name), args), expected, equal_nan=True)


@pytest.mark.parametrize("name", OPERATORS)
def test_fakes_with_sizes_of_zero(name):
    for sizes in itertools.product((0, 3), repeat=DIMENSIONS[name]):
        if 2 < sizes.count(0) or name == "sdpa" and sizes.count(0) == 2 and 0 in sizes[:2]:
            continue  # Rules look at two sizes at once at most, and those of attention not at batches and heads.
        for args in calls(name, *sizes):
            sample = Sample(name, str(sizes), args)
            expected = described(outcome(getattr(ninetoothed_ops, name), sample))
            with FakeTensorMode(shape_env=ShapeEnv()) as mode:
                fake = sample.map(functools.partial(faked, mode))
                assert described(outcome(getattr(ninetoothed_ops, name), fake)) == expected, sizes


def faked(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    dynamic = StatelessSymbolicContext([DimDynamic.DYNAMIC] * tensor.ndim)
    return mode.from_tensor(tensor, symbolic_context=dynamic)
