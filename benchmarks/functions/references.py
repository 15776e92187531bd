"""The functions in mpmath, to 140 bits and more: the reference of float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

# With the more bits, angles as large as float64 has are exact.
BITS, MORE = 140, 2200


def _table(mp: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions by their names in `ntl`, without `libdevice.`."""
    one, two, half = mp.mpf(1), mp.mpf(2), mp.mpf(1) / 2

    def gamma_logarithm(x: Any) -> Any:
        return mp.re(mp.loggamma(x)) if x > 0 else mp.log(mp.pi / abs(mp.sinpi(x))) - mp.re(mp.loggamma(1 - x))

    def bessel(kind: Callable[..., Any], order: int) -> Callable[[Any], Any]:
        """Compute by the asymptotic expansion from 10^6 on, where mpmath takes long."""

        def apply(x: Any) -> Any:
            size, is_second = abs(x), kind == mp.bessely
            if x < 0 and is_second:
                raise ValueError("not defined")
            if size < 10**6:
                return kind(order, x)
            with mp.workprec(MORE):
                angle, mu = size - (2 * order + 1) * mp.pi / 4, mp.mpf(4 * order * order)
                p, q = 1 - (mu - 1) * (mu - 9) / (128 * size * size), (mu - 1) / (8 * size)
                first, second = (mp.sin(angle), mp.cos(angle)) if is_second else (mp.cos(angle), -mp.sin(angle))
                value = mp.sqrt(2 / (mp.pi * size)) * (p * first + q * second)
                return -value if order == 1 and x < 0 else value

        return apply

    def modified(order: int) -> Callable[[Any], Any]:
        return lambda x: mp.besseli(order, x) if abs(x) < 720 else mp.inf

    def scaled_erfc(x: Any) -> Any:
        return 1 / (x * mp.sqrt(mp.pi)) if x > mp.mpf(10) ** 15 else mp.exp(x * x) * mp.erfc(x)

    def inverse(x: Any, of: Callable[[Any], Any], start: Any, slope: Callable[[Any], Any]) -> Any:
        """Find where a function has a value, by Newton's steps from one close by."""
        y = mp.mpf(start)
        for _ in range(4):
            y -= (of(y) - x) / slope(y)
        return y

    def inverse_erfc(x: Any) -> Any:
        start = float(-torch.special.ndtri(torch.tensor(float(x) / 2, dtype=torch.float64))) / 2**0.5
        return inverse(x, mp.erfc, start, lambda y: -2 / mp.sqrt(mp.pi) * mp.exp(-y * y))

    def inverse_normal(x: Any) -> Any:
        start = float(torch.special.ndtri(torch.tensor(float(x), dtype=torch.float64)))
        return inverse(x, mp.ncdf, start, lambda y: mp.exp(-y * y / 2) / mp.sqrt(2 * mp.pi))

    def norm(*xs: Any) -> Any:
        return mp.sqrt(sum(each * each for each in xs))

    same = "acos acosh asin asinh atan atanh cbrt cos cosh erf erfc erfinv exp expm1 log log10 sin sinh sqrt tan tanh"
    return {
        **{name: getattr(mp, name) for name in (*same.split(), "atan2", "hypot", "sinpi", "cospi", "log1p")},
        "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        "cyl_bessel_i0": modified(0),
        "cyl_bessel_i1": modified(1),
        "erfcinv": inverse_erfc,
        "erfcx": scaled_erfc,
        "exp10": lambda x: mp.mpf(10) ** x,
        "exp2": lambda x: two**x,
        "fdiv": lambda x, y: x / y,
        "j0": bessel(mp.besselj, 0),
        "j1": bessel(mp.besselj, 1),
        "lgamma": gamma_logarithm,
        "log2": lambda x: mp.log(x) / mp.log(2),
        "norm3d": norm,
        "norm4d": norm,
        "normcdf": lambda x: mp.erfc(-x / mp.sqrt(2)) / 2,
        "normcdfinv": inverse_normal,
        "pow": lambda x, y: x**y,
        "rcbrt": lambda x: mp.sign(x) / mp.cbrt(abs(x)),
        "rhypot": lambda x, y: one / mp.hypot(x, y),
        "rnorm3d": lambda *xs: one / norm(*xs),
        "rnorm4d": lambda *xs: one / norm(*xs),
        "rsqrt": lambda x: one / mp.sqrt(x),
        "sigmoid": lambda x: one / (one + mp.exp(-x)),
        "tgamma": lambda x: mp.gamma(x) if x < 200 else mp.inf,
        "y0": bessel(mp.bessely, 0),
        "y1": bessel(mp.bessely, 1),
        "half": lambda x: half * x,
    }


def off(name: str, operands: list[torch.Tensor], found: torch.Tensor) -> Iterator[tuple[float, float]]:
    """Give the error of each result in units of the last place, and against max(1, |exact|).

    Where mpmath has no real number, nothing is given: not at poles, and not outside of where a function is defined.
    """
    import mpmath

    function = _table(mpmath.mp)[name]
    greatest = mpmath.mpf(torch.finfo(torch.float64).max)
    for *arguments, result in zip(*(each.tolist() for each in operands), found.tolist(), strict=True):
        if 0 in arguments:  # whose sign mpmath does not know
            continue
        try:
            with mpmath.workprec(BITS):
                exact = function(*map(mpmath.mpf, arguments))
                if isinstance(exact, mpmath.mpc) or not mpmath.isfinite(exact) or abs(exact) > greatest:
                    continue
                exponent = max(mpmath.frexp(exact)[1], -1021) if exact else -1021
                error = abs(mpmath.mpf(result) - exact)
                yield float(error / mpmath.ldexp(1, exponent - 53)), float(error / max(1, abs(exact)))
        except (ValueError, ZeroDivisionError, OverflowError, mpmath.mp.NoConvergence):
            continue
