"""Whole division and remainders of tiles are Python's, at the ends of each type too."""

import math

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

TYPES = (torch.int8, torch.int16, torch.int32, torch.int64)


def quotient(input, output, divisor):
    output = input // divisor


def remainder(input, output, divisor):
    output = input % divisor


def ceiling(input, output, divisor):
    output = ntl.cdiv(input, divisor)


def call(application, values, divisor, dtype=None):
    def arrangement(input, output, divisor):
        return input.tile((16,)), output.tile((16,)), divisor

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(0, constexpr=True)))
    output = torch.zeros_like(values, dtype=dtype)
    kernel(values, output, divisor)
    return output


@pytest.mark.parametrize("divisor", (1, 3, 8, 100, -3, -100))
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_whole_numbers(dtype, divisor):
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    values = [low, low + 1, -101, -100, -8, -3, -1, 0, 1, 3, 8, 50, 99, 100, high - 1, high]
    tile = torch.tensor(values, dtype=dtype)
    assert call(quotient, tile, divisor).tolist() == [value // divisor for value in values]
    assert call(remainder, tile, divisor).tolist() == [value % divisor for value in values]
    if divisor > 0:
        assert call(ceiling, tile, divisor).tolist() == [-(-value // divisor) for value in values]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_divisors_of_more_than_half_the_range(dtype):
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    values, divisor = [low, -2, 0, 1, high // 2, high], high // 4 * 3
    tile = torch.tensor(values, dtype=dtype)
    assert call(quotient, tile, divisor).tolist() == [value // divisor for value in values]
    assert call(remainder, tile, divisor).tolist() == [value % divisor for value in values]


@pytest.mark.parametrize("divisor", (0.1, -0.25, 3.0))
def test_floats(divisor):
    values = torch.tensor([1, 0.5, 2, 3, 7, 1e4, -1, -0.5, -2.25, 0, math.inf, -math.inf, math.nan, 0.3])
    expected = torch.floor_divide(values, torch.full_like(values, divisor))
    torch.testing.assert_close(call(quotient, values, divisor), expected, equal_nan=True)


def wrapped_quotient(input, output, divisor):
    output = input.to(ntl.int8) // divisor


def wrapped_remainder(input, output, divisor):
    output = input.to(ntl.int8) % divisor


def quotient_of_squares(input, output, divisor):
    output = input.to(ntl.int16) * input.to(ntl.int16) // divisor


def test_what_wraps_to_negative_numbers():
    """A tile of bytes is never negative, but what it is converted to or multiplied in may be."""
    values = torch.tensor([0, 1, 100, 127, 128, 200, 254, 255], dtype=torch.uint8)
    wrapped = [value - 256 if value > 127 else value for value in values.tolist()]
    squares = [(value * value + 2**15) % 2**16 - 2**15 for value in values.tolist()]
    for application, expected in (
        (wrapped_quotient, [value // 3 for value in wrapped]),
        (wrapped_remainder, [value % 3 for value in wrapped]),
        (quotient_of_squares, [value // 3 for value in squares]),
    ):
        assert call(application, values, 3, torch.int16).tolist() == expected


@pytest.mark.parametrize("dtype", (torch.int8, torch.int16), ids=str)
@pytest.mark.parametrize("operation", (lambda x: x // -3, lambda x: x % -3, lambda x: x // 3, lambda x: x % 3))
def test_numbers_do_not_widen_narrow_types(operation, dtype):
    """In a branch, whose ends are of one type to Triton; and what wraps, wraps."""

    def application(flag, x, y):
        if flag > 0:
            result = operation(x)
        else:
            result = x
        y = result * 100

    kernel = ninetoothed.make(
        lambda flag, x, y: (flag, x.tile((16,)), y.tile((16,))), application, (Tensor(0), Tensor(1), Tensor(1))
    )
    x = torch.arange(112, 128, dtype=dtype)
    y = torch.zeros(16, dtype=torch.int32)
    kernel(1, x, y)
    assert torch.equal(y, (operation(x) * 100).int())


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_remainders_of_large_quotients_and_of_small_numbers(dtype):
    """No digit is lost, and none of the signs: the remainder is exact."""

    def application(x, y, z):
        z = x % y

    tiny = torch.finfo(dtype).tiny
    x = torch.tensor([200, 1e30, 1e5, -1e5, -1.25 * tiny, 1.25 * tiny, 7, -7], dtype=dtype)
    y = torch.tensor([tiny, 0.3, 0.3, 0.3, tiny, -tiny, math.inf, -math.inf], dtype=dtype)
    kernel = ninetoothed.make(lambda *t: tuple(e.tile((8,)) for e in t), application, (Tensor(1), Tensor(1), Tensor(1)))
    kernel(x, y, z := torch.full_like(x, 77))
    exact = [math.fmod(a, b) for a, b in zip(x.tolist(), y.tolist())]
    exact = [rest + b if rest and (rest < 0) != (b < 0) else rest for rest, b in zip(exact, y.tolist())]
    assert z.tolist() == torch.tensor(exact, dtype=torch.float64).to(dtype).tolist()
