"""The functions of `ntl.libdevice`, which both backends have, by PyTorch's and CUDA's common names."""

from __future__ import annotations

import inspect

from ninetoothed.language.functions.row import NAMESPACE, Function

MODULE = f"{NAMESPACE}.libdevice"

# Name, what it returns, example operands, and the example's result in float32.
_UNARY = """
abs       | the absolute value of x                             | -2.0  | 2.
acos      | the arc cosine of x, an angle in [0, pi]            | 0.5   | 1.0472
acosh     | the inverse hyperbolic cosine of x                  | 2.0   | 1.3170
asin      | the arc sine of x, an angle in [-pi / 2, pi / 2]    | 0.5   | 0.5236
asinh     | the inverse hyperbolic sine of x                    | 1.0   | 0.8814
atan      | the arc tangent of x, an angle in [-pi / 2, pi / 2] | 1.0   | 0.7854
atanh     | the inverse hyperbolic tangent of x                 | 0.5   | 0.5493
ceil      | x, rounded up to a whole number                     | 1.2   | 2.
cos       | the cosine of x                                     | 1.0   | 0.5403
cosh      | the hyperbolic cosine of x                          | 1.0   | 1.5431
erf       | the error function of x                             | 0.5   | 0.5205
erfc      | 1 - erf(x), without its cancellation                | 0.5   | 0.4795
erfinv    | the y with erf(y) = x                               | 0.5   | 0.4769
exp       | e to the power of x                                 | 1.0   | 2.7183
exp2      | 2 to the power of x                                 | 3.0   | 8.
expm1     | exp(x) - 1, precise near 0                          | 0.5   | 0.6487
fast_expf | e to the power of x, fast on a GPU, less precise    | 1.0   | 2.7183
fast_logf | the natural logarithm of x, fast on a GPU, less precise | 2.0 | 0.6931
fast_tanhf | the hyperbolic tangent of x, fast on a GPU, less precise | 1.0 | 0.7616
floor     | x, rounded down to a whole number                   | 1.2   | 1.
j0        | the Bessel function of the first kind, of order 0   | 1.0   | 0.7652
j1        | the Bessel function of the first kind, of order 1   | 1.0   | 0.4401
lgamma    | the logarithm of the absolute gamma function of x   | 4.0   | 1.7918
log       | the natural logarithm of x                          | 2.0   | 0.6931
log10     | the logarithm of x to base 10                       | 2.0   | 0.3010
log1p     | log(1 + x), precise near 0                          | 1.0   | 0.6931
log2      | the logarithm of x to base 2                        | 8.0   | 3.
nearbyint | x, rounded to the nearest whole number, to an even one halfway | 2.5 | 2.
rint      | x, rounded to the nearest whole number, to an even one halfway | 2.5 | 2.
round     | x, rounded to the nearest whole number, away from 0 halfway | 2.5 | 3.
rsqrt     | 1 / sqrt(x)                                         | 4.0   | 0.5000
sin       | the sine of x                                       | 1.0   | 0.8415
sinh      | the hyperbolic sine of x                            | 1.0   | 1.1752
sqrt      | the square root of x                                | 2.0   | 1.4142
tan       | the tangent of x                                    | 1.0   | 1.5574
tanh      | the hyperbolic tangent of x                         | 1.0   | 0.7616
tgamma    | the gamma function of x                             | 4.0   | 6.
trunc     | x without its fraction                              | -1.8  | -1.
"""
_PREDICATES = """
isinf     | whether x is inf or -inf                            | 1.0   | 0.
isnan     | whether x is NaN                                    | 1.0   | 0.
signbit   | whether the sign of x is negative, that of -0.0, too | -1.0 | 1.
"""
_BINARY = """
atan2     | the angle of the point (y, x), in [-pi, pi]         | 1.0, -1.0 | 2.3562
copysign  | x with the sign of y                                | 2.0, -1.0 | -2.
div_rn    | x / y, rounded to the nearest number                | 1.0, 4.0  | 0.2500
fast_dividef | x / y, fast on a GPU, less precise               | 1.0, 4.0  | 0.2500
fmod      | the remainder of x / y, with the sign of x          | -7.0, 4.0 | -3.
hypot     | sqrt(x * x + y * y), without overflow in between    | 3.0, 4.0  | 5.
pow       | x to the power of y                                 | 2.0, 3.0  | 8.
"""
_TERNARY = """
fma       | x * y + z, rounded once                             | 2.0, 3.0, 4.0 | 10.
"""
# The functions that give int1.
PREDICATES = frozenset(line.split()[0] for line in _PREDICATES.strip().splitlines())
_FLOATS = "Halves keep their type and are computed in float32; integers give float32."
_INT1 = "The type is `ntl.int1`."


def rows() -> dict[str, Function]:
    """Make the rows, by name."""
    made = {}
    for table, parameters, types in (
        (_UNARY, "x", _FLOATS),
        (_PREDICATES, "x", _INT1),
        (_BINARY, "xy", _FLOATS),
        (_TERNARY, "xyz", _FLOATS),
    ):
        for line in table.strip().splitlines():
            name, result, operands, value = (cell.strip() for cell in line.split("|"))
            made[name] = _row(name, tuple(parameters), f"Return {result}, element by element.", types, operands, value)
    return made


def _row(name: str, parameters: tuple[str, ...], summary: str, types: str, operands: str, value: str) -> Function:
    """Make the row of a function of libdevice from its signature in words."""

    def definition() -> None: ...

    by_position = inspect.Parameter.POSITIONAL_ONLY
    definition.__name__ = name
    definition.__doc__ = f"""{summary}

    {types} Operands are given by position, and broadcast.

    >>> def application({", ".join(parameters)}, output):
    ...     output = ntl.libdevice.{name}({", ".join(parameters)})
    >>> run(application, {", ".join(f"torch.tensor({each})" for each in operands.split(", "))}, torch.empty(1))
    tensor([{value}])
    """
    definition.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(each, by_position, annotation="TileLike") for each in parameters], return_annotation="Tile"
    )
    return Function(definition, MODULE)
