"""Floats that integers do not hold, and remainders of large quotients: a CPU gives what GPUs do."""

import math

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.errors import ApplicationError
from tests.conftest import DEVICE
from tests.ninetoothed.applications import application_of

INTEGERS = tuple(getattr(torch, f"{sign}int{bits}") for bits in (8, 16, 32, 64) for sign in ("", "u"))
EIGHT_BITS = torch.float8_e4m3fn, torch.float8_e5m2
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Each beside one that every integer holds, which must stay what it is.
BEYOND = (math.inf, -math.inf, 300.7, -1.0, -3.9, 70000.0, -1e5, 2.0**31, 2.0**40, 2.0**63, -(2.0**63), 2.0**64, 1e30)
VALUES = [each for value in BEYOND for each in (value, 0.5, 7.0)]


def make(body):
    return ninetoothed.make(lambda x, y: (x.tile((64,)), y.tile((64,))), application_of(body), (Tensor(1), Tensor(1)))


def converted(value: float, dtype: torch.dtype) -> int:
    """Truncate, and saturate; narrow types take the last bits of what int32 holds."""
    bits, is_signed = torch.iinfo(dtype).bits, torch.iinfo(dtype).min < 0
    bounds = (-(2**31), 2**31 - 1) if bits < 32 else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    number = min(max(value, -(2.0**70)), 2.0**70)
    wrapped = min(max(int(number), bounds[0]), bounds[1]) % 2**bits
    return wrapped - 2**bits if is_signed and wrapped >> (bits - 1) else wrapped


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("source", (*FLOATS, *EIGHT_BITS), ids=str)
def test_conversions(source, dtype):
    # PyTorch's versions differ in what is beyond float8.
    values = [each for each in VALUES if source not in EIGHT_BITS or abs(each) < 400]
    x = torch.tensor(values, dtype=torch.float32 if source in EIGHT_BITS else torch.float64).to(source).to(DEVICE)
    y = torch.zeros(len(x), dtype=dtype, device=DEVICE)
    kernel = make("y = x")
    kernel(x, y)
    assert y.tolist() == [converted(each, dtype) for each in x.tolist()]
    if torch.iinfo(dtype).bits < 32:
        assert ".to(tl.int32).to(tl." in kernel.source(x.cpu(), y.cpu(), gpu="h100")


def test_known_numbers_are_converted_alike():
    for dtype in INTEGERS:
        for value in BEYOND[2:]:
            x, y = torch.zeros(1, device=DEVICE), torch.zeros(1, dtype=dtype, device=DEVICE)
            kernel = make(f"y = ntl.full((64,), {value}, ntl.float64).to(ntl.{str(dtype)[6:]})")
            kernel(x, y)
            assert y.tolist() == [converted(value, dtype)], (dtype, value)
        # Folded: what a compiler makes of such a number is anything.
        assert "float" not in kernel.source(x.cpu(), y.cpu(), gpu="h100")


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_numbers_that_are_stored(dtype):
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    for value, expected in (("float('inf')", high), ("float('-inf')", low), ("2.7", 2), ("-0.5", 0)):
        x, y = torch.zeros(1, device=DEVICE), torch.ones(1, dtype=dtype, device=DEVICE)
        make(f"y = {value}")(x, y)
        assert y.tolist() == [expected]
    for value in ("1e20", "float('nan')", f"{2.0 * low - 1}"):
        with pytest.raises(ApplicationError, match="cannot store .* to 'y', whose elements are u?int"):
            make(f"y = {value}")(x, y)


@pytest.mark.parametrize("dtype", FLOATS[2:], ids=str)
def test_remainders_of_large_quotients(dtype):
    x = torch.tensor([2.0**31, -(2.0**63), 8388609.0, 12345679.0, torch.finfo(dtype).max, 7.0, -7.0], dtype=dtype)
    for operator, expected in (("%", torch.remainder), ("//", torch.floor_divide)):
        for divisor in (2.5, -3.0, 1.0, 32767.0):
            y, kernel = torch.zeros_like(x, device=DEVICE), make(f"y = x {operator} {divisor}")
            kernel(x.to(DEVICE), y)
            wanted = expected(x, torch.tensor(divisor, dtype=dtype))
            # GPUs divide float32 to within two units of the last place.
            tolerance = 3e-7 if operator == "//" and DEVICE == "cuda" else 0
            torch.testing.assert_close(y.cpu(), wanted, rtol=tolerance, atol=0)
            assert "libdevice.fmod" in kernel.source(x, torch.zeros_like(x), gpu="h100")


@pytest.mark.parametrize("dtype", (torch.int32, torch.uint32, torch.uint8), ids=str)
def test_remainders_of_integers_by_a_float(dtype):
    """What is known not to be negative is no reason to take another remainder."""
    x = torch.tensor([0, 3, 100, torch.iinfo(dtype).max], dtype=dtype)
    y, kernel = torch.zeros(4, device=DEVICE), make("y = x % 2.5")
    kernel(x.to(DEVICE), y)
    assert torch.equal(y.cpu(), torch.remainder(x.float(), 2.5))
    assert "libdevice.fmod" in kernel.source(x, torch.zeros(4), gpu="h100")
