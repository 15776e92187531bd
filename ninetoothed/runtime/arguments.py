"""Bind a call's arguments: one value a parameter. Errors name the parameter and the remedy.

`bind` matches arguments with parameters, `check` looks at each of them. `conditions`, `agreement` and `requirements`
check sizes against each other; `check_stored` is called once the program tells which parameters are stored to.
"""

from __future__ import annotations

import enum
import itertools
import math
import numbers
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from ninetoothed import dtypes
from ninetoothed.arrangement.sizes import as_int
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import ArgumentError, ArgumentTypeError
from ninetoothed.runtime import private
from ninetoothed.runtime.memory import same_memory
from ninetoothed.wording import near

# Bytes by which addresses of tensors are divisible, or not: the variants differ.
ALIGNMENT = 16
REGISTER = (
    "register the kernel as an operator with `ninetoothed_ops.register`, which gives such tensors shapes without "
    "running anything"
)

# Stands for a constant that is absent: None is a constant like others.
ABSENT: Any = object()


@dataclass(frozen=True)
class BoundCall:
    """One value for each parameter of a kernel, in order, and the constexpr symbols by name, sorted."""

    arguments: tuple[Any, ...]
    constants: tuple[tuple[str, int], ...] = ()

    @cached_property
    def same_memory(self) -> tuple[tuple[int, ...], ...]:
        """The places of arguments that are the same memory."""
        return same_memory(self.arguments)


def role_of(parameter: KernelParameter) -> str:
    """Tell the role of a parameter: "tensor", run-time "scalar", compile-time "constant", or "unused"."""
    if not parameter.touched:
        return "unused"
    if parameter.source.constexpr or parameter.source.value is not None:
        return "constant"
    return "tensor" if parameter.source.ndim else "scalar"


def bind(definition: KernelDefinition, args: tuple, kwargs: dict[str, Any]) -> BoundCall:
    """Match a call's arguments with the parameters and constexpr symbols of a kernel.

    Positional arguments are all the parameters, or all but those with a `value`; the last ones may be given by keyword.
    Raises `ArgumentError` for a wrong count and an unknown or missing keyword, `ArgumentTypeError` for a constexpr
    symbol that is no integer.
    """
    known = {parameter.name for parameter in definition.given}
    by_keyword = {name: value for name, value in kwargs.items() if name in known}
    constants = _constants(definition, {name: value for name, value in kwargs.items() if name not in known})
    values = _positional(definition, args, by_keyword)
    return BoundCall(tuple(values.get(each.name, each.source.value) for each in definition.given), constants)


def _positional(definition: KernelDefinition, args: tuple, by_keyword: dict[str, Any]) -> dict[str, Any]:
    """Match arguments with parameters by position; those that have a value of their own may be left out."""
    every = [parameter.name for parameter in definition.given]
    needed = [parameter.name for parameter in definition.given if parameter.source.value is None]
    for order in (every, needed):
        given = dict(zip(order, args, strict=False))
        complete = all(name in given or name in by_keyword for name in needed)
        if len(args) <= len(order) and complete and not given.keys() & by_keyword.keys():
            return given | by_keyword
    expected = f"{len(every)} arguments ({', '.join(every)})"
    if len(needed) < len(every):
        expected += f", or {len(needed)} without those that have a value ({', '.join(needed)})"
    keywords = f" and {', '.join(sorted(by_keyword))} by keyword" if by_keyword else ""
    constexprs = [f"{name}=..." for name in definition.constexpr_symbols]
    remedy = f"constexpr symbols go by keyword: {', '.join(constexprs)}" if constexprs else "give each exactly once"
    raise ArgumentTypeError(f"kernel `{definition.name}` takes {expected}; got {len(args)}{keywords}; {remedy}")


def _same(given: Any, value: Any) -> bool:
    """Tell whether two values are equal, NaN and NaN too."""
    return bool(given == value) or (given != given and value != value)


def _constants(definition: KernelDefinition, given: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """Check the constexpr symbols of a call, and return their names and values in order."""
    expected = definition.constexpr_symbols
    for name, value in given.items():
        if name in definition.meta_symbols:
            raise ArgumentError(
                f"kernel `{definition.name}`: `{name}` is chosen by the compiler (meta=True), and the call gives "
                f"{_show(value)}; make it `Symbol({name!r}, constexpr=True)` to give its value in calls"
            )
        if name not in expected and name not in definition.size_symbols:
            names = [*(parameter.name for parameter in definition.given), *expected]
            offer = near(name, names) or f"it takes {', '.join(names)}"
            raise ArgumentTypeError(f"kernel `{definition.name}` has no keyword `{name}`; {offer}")
        if as_int(value) is None or isinstance(value, torch.Tensor):
            raise ArgumentTypeError(
                f"kernel `{definition.name}`: constexpr symbol `{name}` must be an integer, not {_show(value)}; give a"
                " Python number"
            )
        if name in definition.tile_sizes and value < 1:
            raise ArgumentError(
                f"kernel `{definition.name}`: `{name}` is the size of a tile, and the call gives {value}; "
                "give 1 or more"
            )
    missing = [name for name in expected if name not in given]
    if missing:
        raise ArgumentTypeError(
            f"kernel `{definition.name}` lacks the value of constexpr symbol{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)}; call it with {', '.join(f'{name}=...' for name in missing)}"
        )
    return tuple(sorted((name, value.__index__()) for name, value in given.items()))


def check(definition: KernelDefinition, call: BoundCall) -> tuple[BoundCall, torch.device]:
    """Check types, ranks, numeric sizes and devices; return the call with plain values, and the device that it runs on.

    NumPy scalars become Python numbers, and subclasses of `torch.Tensor` plain tensors. Arguments that a kernel never
    touches are not checked: plain tensors stay (their sizes may be needed), nothing else does.
    """
    values = tuple(
        _CHECKS[role_of(parameter)](definition, parameter, value)
        for parameter, value in zip(definition.parameters, call.arguments, strict=True)
    )
    return BoundCall(values, call.constants), device_of(definition, values)


def is_read_by_host(value, device: torch.device) -> bool:
    """Tell whether an argument is a 0-d CPU tensor for a kernel that runs elsewhere: a launch reads its value."""
    return isinstance(value, torch.Tensor) and not value.ndim and value.device.type == "cpu" and device.type != "cpu"


def device_of(definition: Any, values: tuple) -> torch.device:
    """Return the device of the tensors that a kernel touches; they must be on one."""
    tensors = [
        (parameter, value)
        for parameter, value in zip(definition.parameters, values, strict=True)
        if parameter.touched and isinstance(value, torch.Tensor)
    ]
    placed = [item for item in tensors if item[1].ndim or item[1].device.type != "cpu"] or tensors
    if not placed:
        return torch.device("cpu")
    first, reference = placed[0]
    for parameter, value in placed[1:]:
        if value.device != reference.device:
            what = f"is on {value.device}, and `{first.name}` is on {reference.device}"
            error = problem(definition, parameter, what, "move them to one device")
            error.parameters = (parameter.name, first.name)
            raise error
    return reference.device


def _check_tensor(definition: KernelDefinition, parameter: KernelParameter, value):
    """Check that a tensor has the dimensions and the type that its parameter takes."""
    rank = parameter.source.ndim
    if not isinstance(value, torch.Tensor):
        remedy = f"pass a tensor with {rank} dimension{'s' * (rank != 1)}"
        what = f"is a tensor, and the call gives {_show(value)}"
        raise problem(definition, parameter, what, remedy, ArgumentTypeError)
    value = _memory(definition, parameter, value)
    if value.ndim != rank:
        raise problem(
            definition,
            parameter,
            f"has {rank} dimension{'s' * (rank != 1)}, and the call gives one of shape {tuple(value.shape)}",
            "reshape the argument, or make the kernel with another rank",
        )
    for dim, size in enumerate(parameter.source.sizes):
        if isinstance(size, int) and value.shape[dim] != size:
            raise problem(
                definition,
                parameter,
                f"has size {size} in dimension {dim}, and the call gives shape {tuple(value.shape)}",
                "leave that size out of the `shape` of its Tensor (None) for a kernel that takes any",
            )
    return value


def _check_scalar(definition: KernelDefinition, parameter: KernelParameter, value):
    """Check that a scalar is a real number of at most 64 bits, or a 0-d tensor."""
    if isinstance(value, torch.Tensor):
        if value.ndim:
            what = f"is a scalar, and the call gives a tensor of shape {tuple(value.shape)}"
            raise problem(definition, parameter, what, "pass a number or a 0-d tensor")
        return _memory(definition, parameter, value)
    value = _plain(value)
    if isinstance(value, enum.Enum) and isinstance(value, int):
        value = int(value)
    if isinstance(value, bool | float) or (isinstance(value, int) and -(2**63) <= value < 2**64):
        return value
    if isinstance(value, int):
        raise problem(definition, parameter, f"is given {value}, which has no 64-bit type", "pass it as a float")
    raise problem(
        definition,
        parameter,
        f"is a scalar, and the call gives {_show(value)}",
        "pass a real number or a 0-d tensor, or make it `Tensor(0, constexpr=True)` for a compile-time value",
        ArgumentTypeError,
    )


def _check_constant(definition: KernelDefinition, parameter: KernelParameter, value):
    """Check that what is known when compiling is what the kernel was made with, and can be a key of the caches."""
    own = parameter.source.value
    if own is not None:
        if isinstance(value, torch.Tensor) or not _same(value, own):
            raise problem(
                definition,
                parameter,
                f"was made with value={own!r}, and is called with {_show(value)}",
                "leave it out of the call, or make the tensor without `value`",
            )
        value = own
    value = _plain(value)
    if isinstance(value, float) and value != value:
        value = math.nan  # one object, so that variants with it are found again
    try:
        hash(value)
    except TypeError:
        hashable = False
    else:
        hashable = not isinstance(value, torch.Tensor)
    if not hashable:
        raise problem(
            definition,
            parameter,
            f"is known when compiling (constexpr=True), and the call gives {_show(value)}",
            "pass a number, a bool or an enum member, or drop `constexpr` for a run-time scalar",
            ArgumentTypeError,
        )
    return value


def _unused(definition: KernelDefinition, parameter: KernelParameter, value):
    """Return an unused argument if it is a plain tensor, whose sizes may be needed, or a plain number, which costs
    nothing and by which the call is known again; else what stands for none."""
    if type(value) in (bool, int, float) or (type(value) is torch.Tensor and not _without_memory(value)):
        return value
    return ABSENT if parameter.source.constexpr or parameter.source.value is not None else None


_CHECKS = {
    "tensor": _check_tensor,
    "scalar": _check_scalar,
    "constant": _check_constant,
    "unused": _unused,
}


def check_memory_of(definition: Any, parameter: Any, value: torch.Tensor) -> None:
    """Raise where a tensor has no memory."""
    reason = _without_memory(value)
    if reason:
        raise problem(definition, parameter, *reason, ArgumentTypeError)


def _memory(definition: KernelDefinition, parameter: KernelParameter, value: torch.Tensor) -> torch.Tensor:
    """Return the tensor as a plain one; raise where it has no memory, or elements of a type unknown to kernels."""
    check_memory_of(definition, parameter, value)
    if dtypes.from_torch(value.dtype) is None:
        what = f"has elements of {value.dtype}, which have no equivalent in a kernel"
        remedy = "convert it (complex numbers: `torch.view_as_real`)"
        raise problem(definition, parameter, what, remedy, ArgumentTypeError)
    if type(value) is torch.Tensor:
        return value
    return private.as_plain(value)


def _without_memory(value: torch.Tensor) -> tuple[str, str] | None:
    """Say what a tensor without memory is and what to do instead; None for one that a kernel can work on."""
    if value.is_nested and value.layout == torch.jagged:
        remedy = "make the kernel with `Tensor(ndim, jagged_dim=...)`, or pass its `.values()` and `.offsets()`"
        return "is given a jagged nested tensor, and is not jagged", remedy
    if type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"is given a `{type(value).__name__}`, and a kernel runs on plain tensors only", REGISTER
    if private.is_transformed(value):
        return "is given a tensor that a transformation (vmap, grad, functionalize) wraps", REGISTER
    if value.is_meta:
        return "is given a tensor on the meta device, which has no elements", REGISTER
    if value.is_nested:
        return "is given a nested tensor, whose parts have no one shape", "pass its `.values()` and `.offsets()`"
    if value.is_quantized:
        return f"is given a quantised tensor, of {value.dtype}", "pass `.dequantize()` or `.int_repr()` of it"
    if value.layout != torch.strided:
        return f"is given a tensor of layout {value.layout}", "convert it with `.to_dense()`"
    if value.is_neg():
        return "is given a lazily negated view", "pass `.resolve_neg()` of it"
    return None


def _plain(value):
    """Turn a NumPy scalar into a Python number; anything else is returned unchanged."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic | numpy.ndarray) and value.ndim == 0:
        return value.item()
    return value


def check_stored(definition: Any, call: BoundCall, stored: frozenset[str]) -> None:
    """Raise `ArgumentError` for an output of which several elements share one place in memory."""
    for parameter, value in zip(definition.parameters, call.arguments, strict=True):
        if parameter.name in stored and isinstance(value, torch.Tensor) and value.numel():
            shape, strides = tuple(value.shape), value.stride()
            if overlap(shape, strides):
                what = f"is written to, and elements of the argument overlap (shape {shape}, strides {strides})"
                raise problem(definition, parameter, what, "pass a tensor with memory of its own, say `.contiguous()`")


def overlap(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Tell whether two elements share a place: along one dimension, or where steps along two are as far.

    Overlaps that take three dimensions at once are not looked for: views have none, only `as_strided` can make them.
    """
    dims = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size > 1]
    if not all(stride for _, stride in dims):
        return True
    pairs = ((a, b, math.gcd(a[1], b[1])) for a, b in itertools.combinations(dims, 2))
    return any(b[1] // gcd < a[0] and a[1] // gcd < b[0] for a, b, gcd in pairs)


def problem(definition: KernelDefinition, parameter: KernelParameter, what: str, remedy: str, error=ArgumentError):
    """Make the error for one parameter of a call."""
    return error(f"kernel `{definition.name}`: parameter `{parameter.name}` {what}; {remedy}", (parameter.name,))


def _show(value) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, numbers.Number | str | None):
        return repr(value)
    return f"a value of type {type(value).__name__}"
