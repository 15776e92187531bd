"""Name the numbers of a call: what launching passes, and what grids are computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ninetoothed.arrangement.sizes import plain_name
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.value import Size
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import ArgumentError
from ninetoothed.expr import as_expr
from ninetoothed.expr.sizes import power_below
from ninetoothed.runtime.arguments import BoundCall, problem

if TYPE_CHECKING:
    from ninetoothed.runtime.specialise_plan import SpecialisationPlan


def measure(plan: SpecialisationPlan, call: BoundCall) -> dict[str, int]:
    """Give every constexpr symbol, size and stride its number, by name.

    Raises `ArgumentError` where one name would have two values, and where an arrangement mentions a size that no
    parameter gives.
    """
    definition, values = plan.definition, dict(call.constants)
    givers: dict[str, str] = {}  # the parameter that gives each size and stride
    expressions: list[tuple[KernelParameter, int, Size, int]] = []
    for parameter, role, tensor in zip(definition.parameters, plan.roles, call.arguments, strict=True):
        rank = parameter.source.ndim
        if not isinstance(tensor, torch.Tensor) or tensor.ndim != rank or (role == "unused" and not rank):
            continue
        for dim, (size, number) in enumerate(zip(parameter.source.sizes, tensor.shape, strict=True)):
            if isinstance(size, int):
                continue
            if size.name is None:
                expressions.append((parameter, dim, size, number))
            elif role == "tensor" or size.name in plan.needed:
                if values.setdefault(size.name, number) != number:
                    error = _two_numbers(definition, parameter, dim, size, number, values[size.name])
                    raise _concerning(error, givers.get(size.name))
                givers.setdefault(size.name, parameter.name)
        if role == "tensor":
            for stride, number in zip(parameter.source.strides, tensor.stride(), strict=True):
                name = plain_name(stride)
                if values.setdefault(name, number) != number:
                    error = _one_tensor(definition, parameter, f"stride {number}", values[name])
                    raise _concerning(error, givers.get(name))
                givers.setdefault(name, parameter.name)
    for parameter, dim, size, number in expressions:
        names = as_expr(size).variables
        expected = as_expr(size).evaluate(values) if names <= values.keys() else number
        if expected != number:
            error = _two_numbers(definition, parameter, dim, size, number, expected)
            raise _concerning(error, *map(givers.get, names))
    missing = plan.needed - values.keys() - definition.meta_symbols.keys()
    if missing:
        raise ArgumentError(
            f"kernel `{definition.name}`: its arrangement uses {', '.join(sorted(missing))}, which no argument gives; "
            "pass the tensor that it is a size of, with the right rank",
            tuple(each.name for each in plan.tensors if missing.intersection(each.arrangement.symbols)),
        )
    return values


def _concerning(error: ArgumentError, *others: str | None) -> ArgumentError:
    """Note that an error may be about the parameters, too, that give the other number."""
    error.parameters += tuple(name for name in others if name is not None)
    return error


def _two_numbers(
    definition: KernelDefinition, parameter: KernelParameter, dim: int, size: Size, number: int, expected: int
) -> ArgumentError:
    if len(_twins(definition, parameter)) > 1:
        return _one_tensor(definition, parameter, f"size {number} in dimension {dim}", expected)
    what = f"has size {number} in dimension {dim}, and {size} is {expected}"
    return problem(definition, parameter, what, "pass tensors whose sizes agree")


def _one_tensor(definition: KernelDefinition, parameter: KernelParameter, what: str, expected: int) -> ArgumentError:
    """Make the error for a parameter that differs from another, where one Tensor stands for both."""
    *names, last = (f"`{name}`" for name in _twins(definition, parameter))
    what = f"has {what} where {names[0]} has {expected}, and one Tensor stands for {', '.join(names)} and {last}"
    return problem(definition, parameter, what, "make a Tensor of its own for each parameter")


def _twins(definition: KernelDefinition, parameter: KernelParameter) -> list[str]:
    """List the parameters that one Tensor stands for, this one among them."""
    return [each.name for each in definition.parameters if each.source.strides == parameter.source.strides]


def within(symbol: Symbol, wanted: int) -> int:
    """Return the value within a symbol's bounds that is nearest to `wanted`: a power of two where it asks for one."""
    low, high = symbol.lower_bound or 1, symbol.upper_bound or 2**20
    value = min(max(wanted, low), high)
    if symbol.power_of_two and value & (value - 1):
        below, above = power_below(value), 2 * power_below(value)
        value = above if below < low <= above <= high else below if below >= low else value
    return value
