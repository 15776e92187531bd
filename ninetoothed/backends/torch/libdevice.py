"""The functions of libdevice by CUDA's names, on tensors that hold values as `representation.py` says.

Those of float32 are computed in float64 and rounded once, unless PyTorch's own are as exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import torch

from ninetoothed.backends.torch import bits, directed
from ninetoothed.backends.torch.bessel import bessel
from ninetoothed.backends.torch.representation import held_dtype, wrap
from ninetoothed.backends.torch.rounding import fma, two_product
from ninetoothed.dtypes import DType
from ninetoothed.language.functions.libdevice_tables import CONVERSIONS, MODES

Tensor = torch.Tensor
Plain = Callable[..., Tensor]

ROOT_HALF = math.sqrt(0.5)


def _wide(function: Plain) -> Plain:
    """Compute in float64, and round once."""
    return lambda *operands: function(*(each.double() for each in operands)).to(operands[0].dtype)


def _numpy(function: Callable[..., Any]) -> Plain:
    """Wrap a function of NumPy, in the operands' own types."""

    def apply(*operands: Tensor) -> Tensor:
        with numpy.errstate(all="ignore"):
            found = function(*(each.cpu().numpy() for each in operands))
        return torch.from_numpy(numpy.asarray(found)).to(operands[0].device)

    return apply


def _half_turns(x: Tensor, quarter: int) -> Tensor:
    """Compute sin(pi * x + quarter * pi / 2) from the nearest multiple of 1/2, whose sine is -1, 0 or 1."""
    rest = _numpy(numpy.fmod)(x, torch.full_like(x, 2.0))
    steps = torch.round(2 * rest)
    angle, place = math.pi * (rest - steps / 2), (steps.nan_to_num().long() + quarter) % 4
    wave = torch.where(place % 2 == 0, torch.sin(angle), torch.cos(angle))
    result = torch.where(place >= 2, -wave, wave)
    # A sine of 0 has the sign of x, a cosine none.
    return torch.where(result == 0, torch.copysign(result, x) if quarter == 0 else result.abs(), result)


def _tgamma(x: Tensor) -> Tensor:
    """Compute gamma by its logarithm; left of 1/2 by reflection: pi / (sin(pi x) gamma(1 - x))."""
    if x.dtype == torch.float64:
        return _numpy(numpy.vectorize(_gamma, otypes=[float]))(x)
    wide = x.double()
    mirrored = torch.pi / (_half_turns(wide, 0) * torch.exp(torch.lgamma(1 - wide)))
    found = torch.where(wide < 0.5, mirrored, torch.exp(torch.lgamma(wide)))
    return torch.where((wide < 0) & (wide == wide.floor()), torch.nan, found).to(x.dtype)


def _gamma(x: float) -> float:
    """Compute gamma as CUDA does where Python raises: at the poles it is NaN, at 0 an infinity of its sign."""
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _normcdf(x: Tensor) -> Tensor:
    """Compute erfc(-x / sqrt(2)) / 2; left of -1 from the exact square of x, whose error would grow."""
    square, rest = two_product(x, x)
    tail = 0.5 * torch.special.erfcx(-x * ROOT_HALF) * torch.exp(-square / 2) * torch.exp(-rest / 2)
    return torch.where(x < -1, torch.where(x < -39, 0.0, tail), 0.5 * torch.special.erfc(-x * ROOT_HALF))


def _modified_bessel(scaled: Plain, x: Tensor) -> Tensor:
    """Compute exp(|x|) * scaled(x), in two steps: the exponential alone overflows earlier."""
    root = torch.exp(x.abs() / 2)
    return torch.where(
        x.isinf(), torch.copysign(torch.full_like(x, torch.inf), scaled(torch.sign(x))), scaled(x) * root * root
    )


def _erfcx(x: Tensor) -> Tensor:
    """Take PyTorch's function; left of -1 from the exact square of x."""
    square, rest = two_product(x, x)
    left = 2 * torch.exp(square) * torch.exp(rest) - torch.special.erfcx(-x)
    return torch.where(x < -1, torch.where(x < -27, torch.inf, left), torch.special.erfcx(x))


def _erfcinv(x: Tensor) -> Tensor:
    return torch.where(x == 1, 0.0, -torch.special.ndtri(x / 2) * ROOT_HALF)


def _remainder(x: Tensor, y: Tensor) -> Tensor:
    """Compute the remainder of x / n rounded to the nearest n, an even one halfway: exactly, as fmod is."""
    size = y.abs()
    rest = _numpy(numpy.fmod)(x.abs(), 2 * size)
    is_far = rest + rest > size
    rest = torch.where(is_far, rest - size, rest)
    rest = torch.where(is_far & (rest + rest >= size), rest - size, rest)
    return torch.where(x.signbit(), -rest, rest)


def _norm(*operands: Tensor) -> Tensor:
    first, *others = operands
    for each in others:
        first = torch.hypot(first, each)
    return first


def _reciprocal_norm(*operands: Tensor) -> Tensor:
    """Compute 1 / norm; of large numbers that of a sixteenth of each, which does not overflow."""
    is_large = _norm(*operands) > 2.0**1000
    scale = torch.where(is_large, 2.0**-4, 1.0).to(operands[0].dtype)
    return scale / _norm(*(each * scale for each in operands))


def _exponent(x: Tensor) -> Tensor:
    """Return the exponent of x in base 2 as a float; -inf of 0, inf of infinities."""
    _, exponent = numpy.frexp(x.cpu().numpy())
    found = torch.from_numpy(numpy.asarray(exponent)).to(x.device).to(x.dtype) - 1
    return torch.where(x == 0, -torch.inf, torch.where(x.isfinite(), found, x.abs()))


def _ilogb(x: Tensor) -> Tensor:
    found = _exponent(x).nan_to_num(0.0, 0.0, 0.0).int()
    least = (x == 0) | x.isnan()
    return torch.where(x.isinf(), 2**31 - 1, torch.where(least, -(2**31), found))


def _saturated(x: Tensor) -> Tensor:
    return torch.where(x > 0, x.clamp(max=1), 0.0)


def exp10(x: Tensor) -> Tensor:
    """Raise 10 to the power of x."""
    return torch.pow(10.0, x.double()).to(x.dtype)


def _fdim(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x <= y, 0.0, x - y)


def _round_half_away(x: Tensor) -> Tensor:
    return torch.trunc(x + torch.copysign(torch.full_like(x, 0.5), x).nextafter(torch.zeros_like(x)))


_TO_WHOLE: dict[str, Plain] = {"rn": torch.round, "rz": torch.trunc, "rd": torch.floor, "ru": torch.ceil}


def _to_integer(x: Tensor, target: DType, mode: str) -> Tensor:
    """Round to integers; what is beyond is the greatest or the least, and NaN 0, or of 64 bits just the highest bit."""
    return _clamped(_TO_WHOLE[mode](x), target, x.dtype == torch.float64)


def _clamped(whole: Tensor, target: DType, is_wide: bool) -> Tensor:
    least, greatest = (0, 2**target.bits - 1) if target.category == "uint" else target.range
    highest = 2 ** (target.bits - 1) - (target.category == "int") * 2**target.bits
    of_nan = highest if is_wide or target.bits == 64 else 0
    is_low, is_high = whole <= float(least), whole >= float(greatest)
    inner = torch.where(is_low | is_high | whole.isnan(), 0.0, whole)
    is_upper = inner >= 2.0**63
    found = torch.where(is_upper, inner - 2.0**63, inner).long() ^ torch.where(is_upper, -(2**63), 0)
    ends = [number - 2**64 if number >= 2**63 else number for number in (least, greatest, of_nan)]
    for condition, number in zip((is_low, is_high, whole.isnan()), ends, strict=True):
        found = torch.where(condition, number, found)
    return found


def _converted(x: Tensor, source: DType, target: DType, mode: str) -> Tensor:
    if target.is_integer:
        return _to_integer(x, target, mode)
    dtype = getattr(torch, target.name)
    if source.is_integer and source.bits == 64:
        high = x >> 32
        return directed.of_halves(high & 0xFFFFFFFF if source.category == "uint" else high, x & 0xFFFFFFFF, dtype, mode)
    return directed.converted(x.double(), dtype, mode)


_TORCH = """
abs acos acosh asin asinh atan atanh ceil cos erf erfc exp exp2 expm1 floor log log10 log1p log2
rsqrt sin sqrt tan tanh trunc isnan isinf signbit copysign pow nextafter
"""
_BY_PLAIN: dict[str, Plain] = {
    **{name: getattr(torch, name) for name in _TORCH.split()},
    "cyl_bessel_i0": _wide(partial(_modified_bessel, torch.special.i0e)),
    "cyl_bessel_i1": _wide(partial(_modified_bessel, torch.special.i1e)),
    "normcdfinv": _wide(torch.special.ndtri),
    **{name: _wide(getattr(torch, name)) for name in ("atan2", "cosh", "erfinv", "hypot", "lgamma", "sinh")},
    "cbrt": _wide(_numpy(numpy.cbrt)),
    "cospi": _wide(lambda x: _half_turns(x, 1)),
    "div_rn": torch.true_divide,
    **{f"{kind}{order}": _wide(partial(bessel, kind, order)) for kind in "jy" for order in (0, 1)},
    "erfcinv": _wide(_erfcinv),
    "erfcx": _wide(_erfcx),
    "exp10": exp10,
    "fdim": _fdim,
    "finitef": torch.isfinite,
    "fma": fma,
    "fmod": _numpy(numpy.fmod),
    "ilogb": _ilogb,
    "isfinited": torch.isfinite,
    "ldexp": _numpy(numpy.ldexp),
    "logb": _exponent,
    "nearbyint": torch.round,
    "norm3d": _wide(_norm),
    "norm4d": _wide(_norm),
    "normcdf": _wide(_normcdf),
    "rcbrt": _wide(lambda x: 1 / _numpy(numpy.cbrt)(x)),
    "remainder": _remainder,
    "rhypot": _wide(_reciprocal_norm),
    "rint": torch.round,
    "rnorm3d": _wide(_reciprocal_norm),
    "rnorm4d": _wide(_reciprocal_norm),
    "round": _round_half_away,
    "rsqrt_rn": _wide(torch.rsqrt),
    "saturatef": _saturated,
    "scalbn": _numpy(numpy.ldexp),
    "sinpi": _wide(lambda x: _half_turns(x, 0)),
    "tgamma": _tgamma,
}

# What GPUs approximate.
_FAST = "cos exp log log10 log2 sin tan tanh"
FAST: dict[str, Plain] = {
    **{f"fast_{name}f": getattr(torch, name) for name in _FAST.split()},
    "fast_dividef": torch.true_divide,
    "fast_exp10f": exp10,
    "fast_powf": _wide(lambda x, y: torch.exp2(y * torch.log2(x))),
}


def of(name: str, operands: list[Tensor], source: DType, target: DType) -> Tensor:
    """Compute a function of operands, the first of which has the type `source`, as a value of the type `target`."""
    stem, _, mode = name.rpartition("_")
    if stem in CONVERSIONS:
        result = _converted(operands[0], source, target, mode)
    elif name in _BY_PLAIN:
        result = _BY_PLAIN[name](*operands)
    elif stem in directed.FUNCTIONS and mode in MODES:
        result = directed.FUNCTIONS[stem](*operands, mode)
    elif name in ("llrint", "llround"):
        whole = torch.round if name == "llrint" else _round_half_away
        result = _clamped(whole(operands[0]), target, True)
    else:
        result = bits.FUNCTIONS[name](source, target, *operands)
    return wrap(result, target).to(held_dtype(target))
