"""Specialise a call: find its class, whose facts the compiler may use; all other numbers are passed to the kernel.

    x = tl.load(x_ptr + rows[:, None] * x_stride_0 + columns[None, :] * x_stride_1, mask=columns[None, :] < x_size_1)
->  x = tl.load(x_ptr + rows[:, None] * x_stride_0 + columns[None, :], mask=columns[None, :] < x_size_1)
        where x_stride_1 is 1, and Triton is told of x_stride_0 and x_size_1 that they are multiples of 16
->  x = tl.load(x_ptr + rows[:, None] * 128 + columns[None, :])
        where sizes are declared constexpr, and this one is 128

`SpecialisationPlan` says which facts are worth knowing. A new number in a class that was seen compiles nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from ninetoothed import dtypes
from ninetoothed.arrangement.sizes import plain_name
from ninetoothed.definition import KernelParameter
from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr, as_expr, var
from ninetoothed.expr.sizes import power_above
from ninetoothed.runtime.arguments import ALIGNMENT, BoundCall, is_read_by_host
from ninetoothed.runtime.jagged import apart
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.schedule import Schedule
from ninetoothed.specialisation import ArgumentClass, Specialisation

# Elements that make a vector of 16 bytes, of 16 bits each.
VECTOR = 8
# Indices run past the last element by up to a tile; with this margin they do not overflow 32 bits.
WIDE = 2**31 - 2**24
# Programs that CUDA counts along the second and the third axis of a launch; along the first there may be 2^31 - 1.
HIGHEST = 2**16 - 1


def specialise(
    plan: SpecialisationPlan, call: BoundCall, values: Mapping[str, int], device: torch.device
) -> Specialisation:
    """Find the class of a call on a device; `with_schedule` adds block sizes and the grid once they are chosen."""
    strides = _strides(plan, call)
    numbers = {**values, **strides}
    known = _known(plan, call, numbers, strides)
    unknown = {name: numbers[name] for name in (plan.sizes & values.keys()) | strides.keys() if name not in known}
    return Specialisation(
        arguments=_arguments(plan, call, device),
        known=tuple(sorted(known.items(), key=lambda item: item[0])),
        divisors=tuple(sorted(_divisors(plan, known, unknown).items())),
        # The power of two that stands for sizes up to it; 0 for 0.
        bounds=tuple(sorted((name, n and power_above(n)) for name, n in unknown.items() if name in plan.tiled)),
        in_place=any(len(plan.apart.intersection(places)) > 1 for places in call.same_memory),
    )


def _strides(plan: SpecialisationPlan, call: BoundCall) -> dict[str, int]:
    """Give each stride of a tensor its number; 0 along a dimension of one element, where it may be anything.

    A dimension that counts rows is treated as if there were several.
    """
    strides: dict[str, int] = {}
    for parameter, role, tensor in zip(plan.definition.parameters, plan.roles, call.arguments, strict=True):
        if role == "tensor":
            source = parameter.source
            rows = zip(tensor.shape, tensor.stride(), source.sizes, source.strides, strict=True)
            for count, number, size, stride in rows:
                # The only index along such a dimension is 0.
                strides[plain_name(stride)] = 0 if count == 1 and str(size) not in plan.counted else number
    return strides


def _known(
    plan: SpecialisationPlan, call: BoundCall, numbers: Mapping[str, int], strides: Mapping[str, int]
) -> dict[str, int | Expr]:
    """Find the symbols that need not be passed, and the number, symbol or product that each equals."""
    exact = plan.exact | dict(call.constants).keys()
    known: dict[str, int | Expr] = {name: number for name, number in numbers.items() if name in exact}
    distinct = apart(plan.definition, call.arguments) if plan.definition.is_jagged else frozenset[str]()
    known |= {name: 1 for name in (plan.sizes & numbers.keys()) - plan.counted - distinct if numbers[name] == 1}
    known |= {name: number for name, number in strides.items() if number in (0, 1)}
    dense = list(_dense(plan, numbers, known))
    for name, other in plan.twins:
        is_number = isinstance(known.get(name), int) or isinstance(known.get(other), int)
        if name != other and not is_number and distinct.isdisjoint((name, other)) and numbers[name] == numbers[other]:
            known.setdefault(name, known.get(other, var(other)))
    for stride, coefficient, sizes in dense:
        if stride not in known and numbers[stride] == math.prod((numbers[size] for size in sizes), start=coefficient):
            formula = math.prod((as_expr(known.get(size, var(size))) for size in sizes), start=as_expr(coefficient))
            known[stride] = formula if sizes else coefficient
    return known


def _dense(
    plan: SpecialisationPlan, numbers: Mapping[str, int], known: Mapping[str, int | Expr]
) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the strides of tensors without gaps in memory: a number, and the names of sizes that multiply it.

    A flattened index into such a tensor is an offset and need not be taken apart. Only strides of flattened parameters
    matter, and those that follow from sizes that are known exactly.
    """
    for parameter in plan.tensors:
        is_flattened = any(step.operation in ("flatten", "ravel") for step in parameter.arrangement.steps)
        dimensions = zip(parameter.source.sizes, map(plain_name, parameter.source.strides), strict=True)
        in_memory = [(size, stride) for size, stride in reversed(tuple(dimensions)) if numbers[stride]]
        in_memory.sort(key=lambda dimension: numbers[dimension[1]])
        coefficient = 1
        names: list[str] = []
        for (size, _), (_, stride) in itertools.pairwise(in_memory):
            number = size if isinstance(size, int) else known.get(size.name) if size.name is not None else None
            if isinstance(number, int):
                coefficient *= number or 1
            elif isinstance(size, int) or size.name is None:
                break  # A formula of several sizes; strides further out depend on it, too.
            else:
                names.append(size.name)
            if is_flattened or not names:
                yield stride, coefficient, list(names)


def _divisors(plan: SpecialisationPlan, known: Mapping[str, int | Expr], unknown: Mapping[str, int]) -> dict[str, int]:
    """List the numbers that are divisible by 16, or by 8 where elements then make whole vectors."""
    in_rows: set[str] = set()
    for source in plan.dimensions:
        dense = [dimension for dimension in source if known.get(dimension.stride) == 1]
        in_rows |= {dimension.stride for dimension in source if dense}.union(*(each.names for each in dense))
    # Of sizes that agree, one is passed.
    passed = {str(known.get(name, name)) for name in in_rows}
    divisors = {name: ALIGNMENT for name, number in unknown.items() if number % ALIGNMENT == 0}
    return divisors | {name: VECTOR for name in passed & unknown.keys() if unknown[name] % ALIGNMENT == VECTOR}


def _arguments(plan: SpecialisationPlan, call: BoundCall, device: torch.device) -> tuple[ArgumentClass, ...]:
    tensors = [value for role, value in zip(plan.roles, call.arguments, strict=True) if role == "tensor"]
    double = any(tensor.dtype == torch.float64 for tensor in tensors)
    parameters = zip(plan.definition.parameters, plan.roles, call.arguments, strict=True)
    return tuple(_argument(each, role, value, double, device) for each, role, value in parameters)


def _argument(parameter: KernelParameter, role: str, value: Any, double: bool, device: torch.device) -> ArgumentClass:
    if role == "unused":
        return ArgumentClass("absent")
    if role == "constant":
        return ArgumentClass(
            "constant", _number_type(value, double) if isinstance(value, int | float) else None, value=value
        )
    if is_read_by_host(value, device):
        return ArgumentClass("scalar", dtypes.from_torch(value.dtype))
    if isinstance(value, torch.Tensor):
        aligned = device.type != "cuda" or value.data_ptr() % ALIGNMENT == 0
        wide = parameter.part_of is None and _is_wide(value)
        return ArgumentClass("tensor", dtypes.from_torch(value.dtype), wide, aligned)
    return ArgumentClass("scalar", _number_type(value, double))


def _number_type(value: float, double: bool) -> DType:
    if isinstance(value, bool):
        return dtypes.int1
    if isinstance(value, float):
        return dtypes.float64 if double else dtypes.float32
    if -(2**31) <= value < 2**31:
        return dtypes.int32
    return dtypes.int64 if value < 2**63 else dtypes.uint64


def _is_wide(tensor: torch.Tensor) -> bool:
    """Tell whether an offset, an index or a size may need more than 32 bits."""
    extents = [(size, stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
    last = sum((size - 1) * stride for size, stride in extents)
    return max(last, tensor.numel(), *(max(pair) for pair in extents), 0) >= WIDE


def with_schedule(
    specialisation: Specialisation,
    schedule: Schedule,
    shapes: Mapping[str, tuple[int, ...]],
    grid: tuple[int, ...],
) -> Specialisation:
    """Add block sizes, what the outermost shapes have in common, and how high the grid is."""
    return replace(
        specialisation.with_numbers(schedule.blocks),
        shared_grid=len(set(shapes.values())) <= 1,
        spread=schedule.parts * math.prod(grid[:-1]) <= HIGHEST,
    )
