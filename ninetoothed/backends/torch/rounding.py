"""Functions that PyTorch does not round to the nearest float on a CPU: x * y + z, rounded once, and square roots."""

from __future__ import annotations

from fractions import Fraction

import numpy
import torch

# Multiplying by it takes a float64 apart into halves of 26 bits, whose products are exact.
_HALF = 2.0**27 + 1


def fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Compute x * y + z of float32 or float64, rounded once.

    Rounding is safe twice where the first result, if it is not exact, is odd: then it is never halfway between two.
    """
    a, b, c = (operand.double() for operand in torch.broadcast_tensors(x, y, z))
    plain = a * b + c
    product, rest = two_product(a, b) if x.dtype == torch.float64 else (a * b, None)
    if rest is None:  # The product of two float32 is exact.
        result = _odd_sum(product, c)
    else:
        low, lower = two_sum(c, rest)
        high, middle = two_sum(product, low)
        result = high + _odd_sum(middle, lower)
    result = torch.where(result.isfinite(), result, plain).to(x.dtype)
    return result if rest is None else _mended(result, a, b, c)


def _mended(result: torch.Tensor, *operands: torch.Tensor) -> torch.Tensor:
    """Compute anew, in fractions, what overflows or loses bits in between: very large or small float64."""
    product = operands[0] * operands[1]
    is_exact = (product.abs() > 2.0**-960) & (product.abs() < 2.0**960) | (operands[0] == 0) | (operands[1] == 0)
    is_finite = operands[0].isfinite() & operands[1].isfinite() & operands[2].isfinite()
    are_small = (operands[0].abs() < 2.0**960) & (operands[1].abs() < 2.0**960) & (operands[2].abs() < 2.0**1020)
    lanes = is_finite & ~(is_exact & are_small)
    if bool(lanes.any()):
        numbers = zip(*(each[lanes].tolist() for each in operands), strict=True)
        result[lanes] = torch.tensor([_fma(*each) for each in numbers], dtype=result.dtype, device=result.device)
    return result


def _fma(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return numpy.inf if exact > 0 else -numpy.inf


def sqrt(x: torch.Tensor) -> torch.Tensor:
    """Compute the square root, rounded to the nearest float: PyTorch's is one unit off in the last place, at times."""
    with numpy.errstate(invalid="ignore"):
        return torch.from_numpy(numpy.asarray(numpy.sqrt(x.cpu().numpy()))).to(x.device)


def two_sum(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum of two float64, and what is lost by rounding it."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def two_product(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the product of two float64, and what is lost by rounding it."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = ((_HALF * each - (_HALF * each - each), each) for each in (a, b))
    a_low, b_low = a_low - a_high, b_low - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _odd_sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Add two float64: of the two nearest the one whose last bit is set, where the sum is neither."""
    total, rest = two_sum(a, b)
    is_even = (total.view(torch.int64) & 1) == 0
    towards = torch.where(rest > 0, torch.inf, -torch.inf).to(total.dtype)
    return torch.where((rest != 0) & is_even & total.isfinite(), total.nextafter(towards), total)
