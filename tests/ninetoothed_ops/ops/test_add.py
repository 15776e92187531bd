"""Promotion, Python numbers and scaling, as `torch.add` has them."""

import functools
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
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    assert actual.dtype == expected.dtype


@pytest.mark.parametrize("left", TYPES)
def test_promotion(left):
    for right, (shape, other) in itertools.product(TYPES, SHAPES):
        x, y = small(left, shape), small(right, other)
        assert_same(ninetoothed_ops.add(x, y), torch.add(x, y))


# Integers between what halves, float32 and float64 can hold, the limits of types, and fractions that all types round.
EDGES = (0, 1, 3, 127, 257, -513, 2047, 2049, -2051, 4099, 32767, 65505, 65535, 2**24 + 1, 2**24 + 3, 2**53 + 1)
FRACTIONS = (0.1, -1 / 3, 1e-8, 65504.0, -65519.0, 65520.0, 3.3e38, 1e300, float("inf"), float("nan"))


def edges(dtype, largest):
    if dtype is torch.bool:
        return torch.tensor([False, True], device=DEVICE)
    if dtype in INTEGERS:
        info = torch.iinfo(dtype)
        values = [x for x in (*EDGES, info.min, info.max) if info.min <= x <= info.max and abs(x) <= largest]
    else:
        values = [x for x in (*EDGES, *FRACTIONS) if not abs(x) > largest or x == float("inf")]
    return torch.tensor(values, dtype=torch.float64 if dtype in FLOATS else dtype, device=DEVICE).to(dtype)


# With other factors PyTorch's CPU rounds the product, too, which its GPUs and we do not.
@pytest.mark.parametrize("alpha, largest", ((1, float("inf")), (2, 2**14), (0.5, 2**14)))
@pytest.mark.parametrize("left", TYPES)
def test_operands_are_rounded_to_the_common_type_first(left, alpha, largest):
    for right in TYPES:
        x, y = edges(left, largest), edges(right, largest)
        if isinstance(alpha, float) and not torch.result_type(x, y).is_floating_point or torch.bool is left is right:
            continue
        add, expected = (functools.partial(f, alpha=alpha) for f in (ninetoothed_ops.add, torch.add))
        assert_same(add(x[:, None], y), expected(x[:, None], y))
        # How numbers are rounded depends neither on the factor nor on the other type: a few of them tell.
        some = slice(TYPES.index(right) % 4, None, 4)
        for number in (*y[some], *([] if y.is_cpu else y[some].cpu())):
            assert_same(add(x, number), expected(x, number))
        for number in (*x[some], *([] if x.is_cpu else x[some].cpu())):
            assert_same(add(number, y), expected(number, y))


@pytest.mark.parametrize("dtype", TYPES)
def test_python_numbers_are_rounded_to_the_common_type(dtype):
    x = edges(dtype, 2**14)
    for number in (0.1, 2049.0, 65519.0, 1e300, float("nan"), 257, 2049, -65505, 2**24 + 1):
        assert_same(ninetoothed_ops.add(x, number), torch.add(x, number))
        assert_same(ninetoothed_ops.add(number, x), torch.add(number, x))


@pytest.mark.parametrize("dtype", TYPES)
def test_python_numbers(dtype):
    for number, shape in itertools.product((2, -1, 300, 2.5, True), ((3,), ())):
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
