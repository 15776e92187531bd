"""Results of arithmetic rounded in a direction: PyTorch rounds to the nearest float, from which it is one step."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy
import torch

from ninetoothed.backends.torch import rounding
from ninetoothed.backends.torch.rounding import fma, two_sum

Tensor = torch.Tensor


def rounded(nearest: Tensor, side: Tensor, mode: str) -> Tensor:
    """Step from the nearest float in a direction; side: the sign of the exact result less the nearest float."""
    down, up = (nearest.nextafter(torch.full_like(nearest, end)) for end in (-torch.inf, torch.inf))
    is_below, is_above = side < 0, side > 0
    if mode == "rz":
        is_below, is_above = is_below & (nearest > 0), is_above & (nearest < 0)
    result = torch.where(is_below, down, nearest) if mode in ("rd", "rz") else nearest
    return torch.where(is_above, up, result) if mode in ("ru", "rz") else result


def of_sum(nearest: Tensor, side: Tensor, mode: str, *addends: Tensor) -> Tensor:
    """Round a sum: one that cancels is -0 where it is rounded down, unless both addends are 0."""
    result = rounded(nearest, side, mode)
    if mode != "rd":
        return result
    has_negative = addends[0].signbit() | addends[1].signbit()
    return torch.where((nearest == 0) & (side == 0) & has_negative, -0.0, result)


def side(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """Return the sign of a * b + c - d, where d is nearly a * b + c; 0 of what is not finite.

    In float64 the products of two float32 are exact, and so are sums in two parts. Of float64 fractions are.
    """
    a, b, c, d = torch.broadcast_tensors(a, b, c, d)
    if a.dtype == torch.float64:
        return _exact_side(a, b, c, d)
    total, rest = two_sum(a.double() * b.double(), c.double())
    return torch.sign((total - d.double()) + rest).nan_to_num(0.0)


def _exact_side(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    def sign(a: float, b: float, c: float, d: float) -> float:
        if not numpy.isfinite((a, b, c)).all():
            return 0.0
        if numpy.isinf(d):
            return -numpy.sign(d)
        found = Fraction(a) * Fraction(b) + Fraction(c) - Fraction(d)
        return (found > 0) - (found < 0)

    signs = numpy.vectorize(sign, otypes=[float])
    return torch.from_numpy(signs(*(each.cpu().numpy() for each in (a, b, c, d)))).to(a.device)


def add(x: Tensor, y: Tensor, mode: str) -> Tensor:
    nearest = x + y
    return of_sum(nearest, side(x, torch.ones_like(x), y, nearest), mode, x, y)


def sub(x: Tensor, y: Tensor, mode: str) -> Tensor:
    return add(x, -y, mode)


def mul(x: Tensor, y: Tensor, mode: str) -> Tensor:
    nearest = x * y
    return rounded(nearest, side(x, y, torch.zeros_like(x), nearest), mode)


def multiply_add(x: Tensor, y: Tensor, z: Tensor, mode: str) -> Tensor:
    nearest = fma(x, y, z)
    return of_sum(nearest, side(x, y, z, nearest), mode, torch.copysign(torch.ones_like(x), x) * y, z)


def div(x: Tensor, y: Tensor, mode: str) -> Tensor:
    nearest = x / y
    # Of infinities, and of what is divided by 0, the quotient is exact; one too large for the type is below infinity.
    beyond = torch.where(x.isfinite() & (y != 0), -torch.sign(nearest), 0.0)
    found = torch.where(nearest.isinf(), beyond, side(-nearest, y, x, torch.zeros_like(x)) * torch.sign(y))
    return rounded(nearest, found.nan_to_num(0.0), mode)


def rcp(x: Tensor, mode: str) -> Tensor:
    return div(torch.ones_like(x), x, mode)


def sqrt(x: Tensor, mode: str) -> Tensor:
    nearest = rounding.sqrt(x)
    return rounded(nearest, side(-nearest, nearest, x, torch.zeros_like(x)), mode)


def converted(x: Tensor, dtype: torch.dtype, mode: str) -> Tensor:
    """Round float64, or int64 in two exact halves, to another type of floats."""
    if x.is_floating_point():
        nearest = x.to(dtype)
        return rounded(nearest, torch.sign(x - nearest.double()).nan_to_num(0.0), mode)
    return of_halves(x >> 32, x & 0xFFFFFFFF, dtype, mode)


def of_halves(high: Tensor, low: Tensor, dtype: torch.dtype, mode: str) -> Tensor:
    """Round high * 2^32 + low to a float."""
    total, rest = two_sum(high.double() * 2.0**32, low.double())
    if dtype == torch.float64:
        return rounded(total, torch.sign(rest), mode)
    nearest = total.to(dtype)
    # Rounded twice, it may be the wrong one of two that are equally near: the directions decide, of exact differences.
    found = torch.sign((total - nearest.double()) + rest)
    if mode != "rn":
        return rounded(nearest, found, mode)
    other = torch.where(found > 0, nearest.nextafter(torch.full_like(nearest, torch.inf)),
                        nearest.nextafter(torch.full_like(nearest, -torch.inf)))  # fmt: skip
    gap = ((total - nearest.double()) + rest).abs() - ((other.double() - total) - rest).abs()
    return torch.where(gap > 0, other, nearest)


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "add": add, "sub": sub, "mul": mul, "div": div, "fma": multiply_add, "rcp": rcp, "sqrt": sqrt,
}  # fmt: skip
