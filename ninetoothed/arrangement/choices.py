"""The range from which the value of a symbol is chosen."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from ninetoothed.errors import arrangement_error as _error
from ninetoothed.wording import brief

Bounds = tuple[int | None, int | None]


def default_range(meta: bool | None, constexpr: bool | None) -> Bounds:
    """Return the range of a symbol with these options to which none was given."""
    return (32, 1024) if meta else (1, 2**20) if constexpr else (None, None)


def completed(what: str, given: tuple[Any, Any], default: Bounds, power_of_two: bool | None) -> Bounds:
    """Complete the given bounds with defaults, widened to fit. Errors call the symbol `what`."""
    (lower, upper), (low, high) = given, default
    for bound in given:
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, numbers.Integral)):
            raise _error(f"{what} has a bound {brief(bound)}", "bounds are ints")
    if lower is None and low is not None:
        lower = low if upper is None else min(low, upper)
    if upper is None and high is not None:
        upper = high if lower is None else max(high, lower)
    if lower is not None and upper is not None:
        if lower > upper:
            raise _error(f"{what} has a lower bound {lower} above its upper bound {upper}", "swap them")
        if power_of_two and not any(lower <= 2**i <= upper for i in range(upper.bit_length())):
            raise _error(f"{what} is a power of two from {lower} to {upper}, and there is none", "widen its bounds")
    return lower, upper


def tighter(choose: Callable[..., int], default: int | None, *bounds: int | None) -> int | None:
    """Choose the tighter of the bounds that differ from the default."""
    return choose((bound for bound in bounds if bound not in (None, default)), default=default)
