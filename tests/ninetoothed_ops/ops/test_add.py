"""Promotion, Python numbers and scaling, as `torch.add` has them."""

import itertools

import numpy as np
import pytest
import torch

import ninetoothed_ops
from tests.conftest import DEVICE

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
TYPES = (torch.bool, *INTEGERS, *FLOATS)
SHAPES = (((3, 4), (3, 4)), ((3, 4), ()), ((), (4,)), ((), ()))


def small(dtype, shape=(4,)):
    return torch.randint(0, 5, shape, device=DEVICE).to(dtype)


def assert_same(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    assert actual.dtype == expected.dtype


@pytest.mark.parametrize("left", TYPES)
def test_promotion(left):
    for right, (shape, other) in itertools.product(TYPES, SHAPES):
        x, y = small(left, shape), small(right, other)
        assert_same(ninetoothed_ops.add(x, y), torch.add(x, y))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("number", (2, -1, 300, 2.5, True))
def test_python_numbers(number, dtype):
    for shape in ((3,), ()):
        x = small(dtype, shape)
        assert_same(ninetoothed_ops.add(x, number), torch.add(x, number))
        assert_same(ninetoothed_ops.add(number, x), torch.add(number, x))


@pytest.mark.parametrize("number", (np.float32(1.5), np.float64(1.5), np.float16(2), np.int8(-3), np.bool_(True)))
def test_numbers_of_numpy(number):
    for dtype in (torch.int32, torch.float16, torch.bool):
        x = small(dtype)
        assert_same(ninetoothed_ops.add(x, number), torch.add(x, number))
        assert_same(ninetoothed_ops.add(number, x), torch.add(number, x))


def test_two_python_numbers():
    assert_same(ninetoothed_ops.add(2, 3), torch.tensor(5))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("alpha", (2, -1, 0, True, 0.5, 1000))
def test_alpha_as_torch_has_it(alpha, dtype):
    x, y = small(dtype), small(dtype)
    try:
        expected = torch.add(x, y, alpha=alpha)
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as actual:
            ninetoothed_ops.add(x, y, alpha=alpha)
        assert str(actual.value) == str(error)
    else:
        assert_same(ninetoothed_ops.add(x, y, alpha=alpha), expected)


@pytest.mark.filterwarnings("ignore:This overload of add is deprecated")
@pytest.mark.parametrize("alpha", (2, 1.5, -1, torch.tensor(3)))
def test_the_former_order(alpha):
    x, y = small(torch.float32), small(torch.float32)

    assert_same(ninetoothed_ops.add(x, alpha, y), torch.add(x, alpha, y))


def test_integers_wrap_around():
    x = torch.full((3,), 2**31 - 1, dtype=torch.int32, device=DEVICE)

    assert_same(ninetoothed_ops.add(x, x, alpha=3), torch.add(x, x, alpha=3))


def test_a_number_on_the_cpu():
    x = torch.randn(5, device=DEVICE)

    assert_same(ninetoothed_ops.add(x, torch.tensor(2.5)), x + 2.5)
    assert_same(ninetoothed_ops.add(torch.tensor(2.5), x), x + 2.5)
