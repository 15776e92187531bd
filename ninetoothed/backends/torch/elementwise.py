"""The elementwise primitives. Operands are tensors that broadcast, or numbers that are the same everywhere."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy
import torch

from ninetoothed import dtypes, ir
from ninetoothed.backends.torch import libdevice
from ninetoothed.backends.torch.bits import upper_half64
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.representation import (
    SIGN,
    Held,
    bitcast,
    cast,
    held_dtype,
    unsigned64,
    wrap,
)
from ninetoothed.backends.torch.rounding import fma, sqrt

# The result, or the results of a function with several.
Function = Callable[[ProgramSlice, ir.Apply], Any]


def operands(programs: ProgramSlice, operation: ir.Apply) -> list[Any]:
    """Get the operands, at least one of them a tensor. Eight-bit floats become float32."""
    held: list[Any] = [programs.values[value] for value in operation.operands]
    for item in held:
        if isinstance(item, torch.Tensor):
            break
    else:
        held[0] = programs.tensor(operation.operands[0])
    first = operation.operands[0].type.dtype
    if first.bits == 8 and first.is_floating:
        held = [item.float() if _is_float8(item) else item for item in held]
    return held


def _is_float8(item: Held) -> TypeGuard[torch.Tensor]:
    return isinstance(item, torch.Tensor) and item.is_floating_point() and item.element_size() == 1


def _plain(function: Callable) -> Function:
    """Wrap a function of PyTorch whose result has the right type."""
    return lambda programs, operation: function(*operands(programs, operation))


def _arithmetic(function: Callable) -> Function:
    """Wrap a function, and bring its result back to the range and width of the type."""

    def apply(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
        dtype = operation.results[0].type.dtype
        held = operands(programs, operation)
        if dtype.category == "pointer":
            return function(*(x.to(torch.int64) if isinstance(x, torch.Tensor) else x for x in held))
        result = function(*held)
        if dtype.is_integer:
            return wrap(result, dtype)
        return result.to(held_dtype(dtype)) if dtype.bits == 8 else result

    return apply


def _by_sign(signed: Callable, unsigned: Callable, wide: Callable) -> Function:
    """Choose a function by the type: signed, unsigned of up to 32 bits, or uint64."""

    def apply(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
        dtype = operation.operands[0].type.dtype
        held = operands(programs, operation)
        if dtype == dtypes.uint64:
            return wide(*(programs.make_tensor(x, v.type) for x, v in zip(held, operation.operands)))
        return (unsigned if dtype.category == "uint" else signed)(*held)

    return apply


def _comparison(function: Callable) -> Function:
    return _by_sign(function, function, lambda x, y: function(x ^ SIGN, y ^ SIGN))


def _mul(x: Any, y: Any) -> torch.Tensor:
    """Multiply; a factor of 1, as default arguments are, costs nothing."""
    if not isinstance(y, torch.Tensor):
        x, y = y, x
    return y if not isinstance(x, torch.Tensor) and x == 1 else x * y


def _floordiv(x: Any, y: Any) -> torch.Tensor:
    return torch.div(*_safe_division(x, y), rounding_mode="floor")


def _mod(x: Any, y: Any) -> torch.Tensor:
    x, y = _safe_division(x, y)
    result = torch.remainder(x, y)
    if not result.is_floating_point() or not bool(result.isnan().any()):
        return result
    # PyTorch's is NaN where the quotient is larger than the type holds, too; NumPy's is exact.
    arrays = (
        numpy.asarray(each, dtype=str(x.dtype).removeprefix("torch.")) for each in (x.cpu(), torch.as_tensor(y).cpu())
    )
    with numpy.errstate(invalid="ignore"):
        rest = torch.from_numpy(numpy.asarray(numpy.fmod(*arrays))).to(x.device)
    return torch.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _safe_division(x: Any, y: Any) -> tuple[Any, Any]:
    """Replace integer divisors of 0 by 1: lanes that do not count may have them, and PyTorch raises."""
    if isinstance(y, torch.Tensor):
        y = y if y.is_floating_point() else torch.where(y == 0, 1, y)
        return (x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=y.dtype, device=y.device)), y
    return x, y or (1 if isinstance(y, int) else y)


def maximum(x: Any, y: Any) -> torch.Tensor:
    """Pick the larger operand; where one is NaN, the other."""
    return _pick(x, y, lambda a, b: a > b)


def minimum(x: Any, y: Any) -> torch.Tensor:
    """Pick the smaller operand; where one is NaN, the other."""
    return _pick(x, y, lambda a, b: a < b)


def _pick(x: Any, y: Any, better: Callable) -> torch.Tensor:
    # `torch.fmax` means the same, and is ten times slower on a CPU.
    if not isinstance(x, torch.Tensor):
        x, y = y, x
    if not x.is_floating_point():
        return torch.where(better(x, y), x, y)
    if isinstance(y, torch.Tensor):
        return torch.where(better(x, y) | (y != y), x, y)
    return x if y != y else torch.where(better(x, y), x, y)


def _extremum(ignoring: Callable, propagating: Callable) -> Function:
    signed = _by_sign(ignoring, ignoring, lambda x, y: ignoring(x ^ SIGN, y ^ SIGN) ^ SIGN)

    def apply(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
        if not propagates_nan(operation) or operation.result.type.dtype.is_integer:
            result = signed(programs, operation)
        else:
            x, y = operands(programs, operation)
            like = x if isinstance(x, torch.Tensor) else y
            result = propagating(*(torch.as_tensor(z, dtype=like.dtype, device=like.device) for z in (x, y)))
        return result.to(held_dtype(operation.result.type.dtype))

    return apply


def propagates_nan(operation: ir.Apply) -> bool:
    """Tell whether NaN in an operand makes the result NaN."""
    chosen = operation.attribute("propagate_nan")
    return chosen is True or str(getattr(chosen, "name", chosen)).upper() == "ALL"


def _where(programs: ProgramSlice, operation: ir.Apply) -> Held:
    condition, then, otherwise = (programs.values[value] for value in operation.operands)
    if not isinstance(condition, torch.Tensor):
        return then if condition else otherwise
    if not isinstance(then, torch.Tensor) and not isinstance(otherwise, torch.Tensor):
        then = programs.make_tensor(then, operation.result.type)
    return torch.where(condition, then, otherwise)


def _cast(programs: ProgramSlice, operation: ir.Apply) -> Held:
    (operand,) = operation.operands
    return cast(programs.values[operand], operand.type.dtype, operation.result.type.dtype)


def _bitcast(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    (operand,) = operation.operands
    return bitcast(programs.tensor(operand), operand.type.dtype, operation.result.type.dtype)


def _abs(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    (x,) = operands(programs, operation)
    return x if operation.result.type.dtype.category == "uint" else x.abs().to(held_dtype(operation.result.type.dtype))


def _pow(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    """Raise to a power; PyTorch takes negative exponents of integers from tensors alone."""
    dtype = operation.result.type.dtype
    if dtype.is_floating:
        base, exponent = operands(programs, operation)
        return base**exponent
    tensors = map(programs.tensor, operation.operands)
    return _pow64(*tensors) if dtype == dtypes.uint64 else wrap(torch.pow(*tensors), dtype)


_pow64 = unsigned64(lambda x, y: x**y)


def _umulhi(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    """Compute the upper half of the product of two unsigned integers."""
    dtype = operation.result.type.dtype
    x, y = (programs.tensor(value) for value in operation.operands)
    if dtype.bits == 64:
        return upper_half64(x, y)
    mask = 2**dtype.bits - 1
    product = (x.to(torch.int64) & mask) * (y.to(torch.int64) & mask)
    return cast((product >> dtype.bits) & mask, dtypes.int64, dtype)


_NAMES = "exp exp2 log log2 sqrt rsqrt sin cos tanh erf sigmoid"
_SAME_NAME: dict[str, Callable] = {name: getattr(torch, name) for name in _NAMES.split()}


def _libdevice(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    tensors = [programs.tensor(value) for value in operation.operands]
    source, target = operation.operands[0].type.dtype, operation.result.type.dtype
    assert isinstance(source, dtypes.DType) and isinstance(target, dtypes.DType), "libdevice takes no pointers"
    return libdevice.of(operation.attribute("name"), tensors, source, target)


ELEMENTWISE: dict[str, Function] = {
    **{name: _arithmetic(getattr(operator, name)) for name in ("neg", "add", "sub")},
    **{name: _plain(getattr(operator, name)) for name in ("truediv", "eq", "ne")},
    **{name: _comparison(getattr(operator, name)) for name in ("lt", "le", "gt", "ge")},
    **{name: _plain(function) for name, function in _SAME_NAME.items()},
    "sqrt_rn": _plain(sqrt),
    "floor": _plain(torch.floor),
    "ceil": _plain(torch.ceil),
    "abs": _abs,
    "invert": _arithmetic(lambda x: ~x),
    "mul": _arithmetic(_mul),
    "div_rn": _plain(torch.true_divide),
    **{name: _plain(function) for name, function in libdevice.FAST.items()},
    "pow": _pow,
    "floordiv": _by_sign(_floordiv, _floordiv, unsigned64(lambda x, y: x // numpy.maximum(y, 1))),
    "mod": _by_sign(_mod, _mod, unsigned64(lambda x, y: x % numpy.maximum(y, 1))),
    "maximum": _extremum(maximum, torch.maximum),
    "minimum": _extremum(minimum, torch.minimum),
    "and": _plain(lambda x, y: x & y),
    "or": _plain(lambda x, y: x | y),
    "xor": _plain(lambda x, y: x ^ y),
    "lshift": _arithmetic(lambda x, y: x << y),
    "rshift": _by_sign(lambda x, y: x >> y, lambda x, y: x >> y, unsigned64(lambda x, y: x >> y)),
    "umulhi": _umulhi,
    "where": _where,
    "fma": lambda programs, operation: fma(*map(programs.tensor, operation.operands)),
    "cast": _cast,
    "bitcast": _bitcast,
    "libdevice": _libdevice,
}
