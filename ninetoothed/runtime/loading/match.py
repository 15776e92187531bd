"""Find the variant that a call gets: its class must be one that was built, and of several the nearest is taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ninetoothed import dtypes
from ninetoothed.built.description import BuiltArgument, BuiltVariant
from ninetoothed.built.formula import evaluate, place, shown
from ninetoothed.errors import ArgumentError
from ninetoothed.runtime.arguments import ALIGNMENT, BoundCall, is_read_by_host
from ninetoothed.runtime.private import matmul_precision


def measured(arguments: Sequence[Any]) -> dict[str, int]:
    """Name the sizes and strides of a call as formulas do."""
    values: dict[str, int] = {}
    for i, argument in enumerate(arguments):
        if isinstance(argument, torch.Tensor):
            for dim, (size, stride) in enumerate(zip(argument.shape, argument.stride(), strict=True)):
                values[f"size_{i}_{dim}"], values[f"stride_{i}_{dim}"] = size, stride
                values[f"step_{i}_{dim}"] = 0 if size == 1 else stride
    return values


def fitting(
    variants: Iterable[BuiltVariant], call: BoundCall, device: torch.device, values: Mapping[str, int]
) -> list[BuiltVariant]:
    """List the variants that serve a call. Raises `ArgumentError` where none does, and says what the nearest lacks."""
    reasons = [(variant, list(_reasons(variant, call, device, values))) for variant in variants]
    found = [variant for variant, lacking in reasons if not lacking]
    if not found:
        variant, lacking = min(reasons, key=lambda each: len(each[1]))
        raise ArgumentError(
            f"kernel `{variant.kernel}` was not built for calls like this one: {'; '.join(filter(None, lacking))};"
            " build it for such calls, too (`ninetoothed.build`, `calls=`)"
        )
    return found


def nearest(fitting: Iterable[BuiltVariant], values: Mapping[str, int]) -> BuiltVariant:
    """Return the variant that knows most of calls, of several the one that was built for the nearest sizes."""
    return min(fitting, key=lambda variant: (-variant.facts, distance(variant, values)))


def distance(variant: BuiltVariant, values: Mapping[str, int]) -> int:
    """Tell how far sizes are from those that a variant was built for, in powers of two."""
    return sum(abs(values.get(name, 0).bit_length() - size.bit_length()) for name, size in variant.sample.items())


def _reasons(variant: BuiltVariant, call: BoundCall, device: torch.device, values: Mapping[str, int]) -> Iterator[str]:
    """Yield why a variant does not serve a call; "" for each guard that cannot be evaluated."""
    arguments, constants = call.arguments, dict(call.constants)
    if dict(variant.constants) != constants:
        yield f"it was built with {dict(variant.constants)}, and the call gives {constants}"
    if variant.precision is not None and variant.precision != matmul_precision():
        yield (
            f"it was built for float32 products of precision {variant.precision!r}, and"
            f" `torch.get_float32_matmul_precision()` asks for another ({matmul_precision()!r})"
        )
    is_double = any(isinstance(value, torch.Tensor) and value.dtype == torch.float64 for value in arguments)
    for each in variant.separate:
        if not each.in_place and any({each.output, each.other}.issubset(places) for places in call.same_memory):
            names = (variant.arguments[i].name for i in (each.output, each.other))
            yield f"it was built for memory of their own of {' and '.join(names)}, which begin at one address"
    pairs = zip(variant.arguments, arguments, strict=True)
    found = [(built.name, _mismatch(built, value, is_double, device)) for built, value in pairs]
    yield from (f"`{name}` {reason}" for name, reason in found if reason is not None)
    is_measured = not any(reason for _, reason in found)  # else guards may ask for sizes that the call has not
    try:
        if is_measured and variant.holds(values):
            return
    except KeyError as error:
        what, number, dim = place(error.args[0])
        yield f"`{variant.arguments[number].name}` does not tell its {what} along dimension {dim}"
        return
    for guard in variant.guards:
        if not is_measured:
            yield ""
        elif not evaluate(guard, values):
            yield f"it was built for {shown(guard, [each.name for each in variant.arguments])}"


def _mismatch(built: BuiltArgument, value: Any, is_double: bool, device: torch.device) -> str | None:
    """Say why an argument is of another class; None where it is of the one that was built."""
    if built.role == "absent":
        return None
    if built.role == "constant":
        is_same = type(value) is type(built.value) and (value == built.value or value != value)
        same_sign = not isinstance(value, float) or math.copysign(1, value) == math.copysign(1, built.value or 0.0)
        return None if is_same and same_sign else f"was built as {built.value!r}, and is {value!r}"
    if built.role == "scalar":
        given = _type(value, is_double) if not isinstance(value, torch.Tensor) else None
        if isinstance(value, torch.Tensor) and is_read_by_host(value, device):
            found = dtypes.from_torch(value.dtype)
            given = None if found is None else found.name
        return None if given == built.dtype else f"was built as a number of {built.dtype}, and is {_told(value)}"
    if not isinstance(value, torch.Tensor) or value.ndim != built.rank or value.layout != torch.strided:
        return f"was built as a tensor of {built.rank} dimensions, and is {_told(value)}"
    found = dtypes.from_torch(value.dtype)
    if found is None or found.name != built.dtype or value.is_neg():
        return f"was built as a tensor of {built.dtype}, and is {_told(value)}"
    if built.aligned and value.data_ptr() % ALIGNMENT:
        return f"was built for addresses that are multiples of {ALIGNMENT}, and has {value.data_ptr():#x}"
    return None


def _type(value: Any, is_double: bool) -> str | None:
    if isinstance(value, bool):
        return "int1"
    if isinstance(value, float):
        return "float64" if is_double else "float32"
    if isinstance(value, int):
        return "int32" if -(2**31) <= value < 2**31 else "int64" if -(2**63) <= value < 2**63 else "uint64"
    return None


def _told(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        return f"a tensor of shape {tuple(value.shape)} and {kind}"
    return repr(value)
