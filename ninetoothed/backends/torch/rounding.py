"""x * y + z, rounded once: PyTorch has no such function on a CPU."""

from __future__ import annotations

import torch

# Multiplying by it takes a float64 apart into halves of 26 bits, whose products are exact.
_HALF = 2.0**27 + 1


def fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Compute x * y + z of float32 or float64, rounded once.

    Rounding is safe twice where the first result, if it is not exact, is odd: then it is never halfway between two.
    """
    a, b, c = (operand.double() for operand in torch.broadcast_tensors(x, y, z))
    plain = a * b + c
    product, rest = _product(a, b) if x.dtype == torch.float64 else (a * b, None)
    if rest is None:  # The product of two float32 is exact.
        result = _odd_sum(product, c)
    else:
        low, lower = _sum(c, rest)
        high, middle = _sum(product, low)
        result = high + _odd_sum(middle, lower)
    return torch.where(result.isfinite(), result, plain).to(x.dtype)


def _sum(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum of two float64, and what is lost by rounding it."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _product(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the product of two float64, and what is lost by rounding it."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = ((_HALF * each - (_HALF * each - each), each) for each in (a, b))
    a_low, b_low = a_low - a_high, b_low - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _odd_sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Add two float64: of the two nearest the one whose last bit is set, where the sum is neither."""
    total, rest = _sum(a, b)
    is_even = (total.view(torch.int64) & 1) == 0
    towards = torch.where(rest > 0, torch.inf, -torch.inf).to(total.dtype)
    return torch.where((rest != 0) & is_even & total.isfinite(), total.nextafter(towards), total)
