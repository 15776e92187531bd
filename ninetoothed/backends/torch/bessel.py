"""Bessel functions of orders 0 and 1 in float64: PyTorch's have seven digits around 5.

Small numbers have a power series. Up to 25 all J_n(x) come from their recurrence downwards, and Y from Neumann's series
of them; beyond from Hankel's expansion (Abramowitz and Stegun, 9.1.10, 9.1.27, 9.1.88 and 9.2.5).
"""

from __future__ import annotations

import math

import torch

Tensor = torch.Tensor
# From where on the recurrence serves, with which first n: J_n is below 1e-30 there, and what is started does not
# overflow on the way to J_0.
RANGES = ((2.0**-20, 24), (1.0, 90))
FAR, TERMS = 25.0, 28
EULER = 0.5772156649015329


def bessel(kind: str, order: int, x: Tensor) -> Tensor:
    """Compute `j` or `y` of an order; `y` is NaN left of 0."""
    size = x.abs()
    found = torch.where(size < FAR, _power_series(kind, order, size), _expansion(kind, order, size.clamp(min=FAR)))
    ends = [*(start for start, _ in RANGES[1:]), FAR]
    for (start, first), end in zip(RANGES, ends, strict=True):
        is_here = (size >= start) & (size < end)
        if bool(is_here.any()):
            found = torch.where(is_here, _series(kind, order, size.clamp(start, end), first), found)
    found = torch.where(size.isinf(), 0.0, found)
    if kind == "y":
        return torch.where(x < 0, torch.nan, found)
    return torch.where(x.signbit(), -found, found) if order == 1 else found


def _power_series(kind: str, order: int, x: Tensor) -> Tensor:
    """Compute the first terms, which are all that count below 2^-20."""
    square = x * x / 4
    j = 1 - square if order == 0 else x / 2 * (1 - square / 2)
    if kind == "j":
        return j
    logarithm = torch.log(x) - math.log(2) + EULER
    y = 2 / math.pi * (logarithm * j + (square if order == 0 else -x / 4))
    return torch.where(x == 0, -torch.inf, y if order == 0 else y - 2 / math.pi / x)


def _series(kind: str, order: int, x: Tensor, first_n: int) -> Tensor:
    """Compute J_n downwards from a large n, up to a factor that J_0 + 2 * (J_2 + J_4 + ...) = 1 gives."""
    later, current = torch.zeros_like(x), torch.full_like(x, 1e-200)
    total, series = torch.zeros_like(x), torch.zeros_like(x)
    ends = {}
    for n in range(first_n, -1, -1):
        if n % 2 == 0:
            total = total + (2 * current if n else current)
        k = (n - order) // 2
        if n % 2 == order and k > 0:
            series = series + (-1) ** k * n / (k * (k + order)) * current
        ends[n] = current
        later, current = current, 2 * n / x * current - later
    zeroth, first, series = ends[0] / total, ends[1] / total, series / total
    if kind == "j":
        return zeroth if order == 0 else first
    own = (torch.log(x / 2) + EULER) * zeroth if order == 0 else (torch.log(x / 2) + EULER - 1) * first - zeroth / x
    return 2 / math.pi * (own - series)


def _expansion(kind: str, order: int, x: Tensor) -> Tensor:
    """Compute sqrt(2 / (pi x)) * (P cos(a) - Q sin(a)), `y` from P sin(a) + Q cos(a); a = x - (2 n + 1) pi / 4.

    The sine and the cosine of `a` come from those of x: the difference would lose the last digits of x.
    """
    term, sums = torch.ones_like(x), [torch.zeros_like(x), torch.zeros_like(x)]
    for k in range(TERMS):
        sums[k % 2] = sums[k % 2] + (-1) ** (k // 2) * term
        term = term * ((4 * order * order - (2 * k + 1) ** 2) / (8 * (k + 1))) / x
    p, q = sums
    sine, cosine = torch.sin(x), torch.cos(x)
    a_cosine, a_sine = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -sine - cosine)
    value = p * a_cosine - q * a_sine if kind == "j" else p * a_sine + q * a_cosine
    return value / math.sqrt(math.pi) / torch.sqrt(x)
