"""Find stores of different values to elements that tiles have in common, of several programs or of one.

y.tile((4,), strides=(2,))             refused: two programs store to elements 2 and 3
y.dtype = y.dtype.expand((4,))         refused: four lanes store to one element
y = x, of x.tile((4,), strides=(2,))   runs: what is stored follows from the place alone
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ninetoothed import ir
from ninetoothed.definition import KernelParameter
from ninetoothed.expr import Expr, const, is_nonnegative, maximum, minimum, var
from ninetoothed.frontend.context import TraceContext

# The place of a store, or of a load: indices, and the lanes that they are made of.
Place = tuple[tuple[Expr, ...], tuple[ir.Lane, ...]]


def may_overlap(context: TraceContext, parameter: KernelParameter) -> bool:
    """Tell whether elements of a parameter may be in several tiles, or several times in one, by its arrangement."""
    for step in parameter.arrangement.steps:
        if step.operation == "expand" and step.level and step.arguments[0]:
            return True
        if step.operation == "tile":
            (strides, dilations), (_, inner) = step.arguments, step.after
            for stride, dilation, count in zip(strides, dilations, inner, strict=True):
                room = context.number(stride) - context.number(dilation) * (context.number(count) - 1) - 1
                if stride != 0 and not is_nonnegative(room, context.facts):
                    return True
    return False


def overlaps(
    context: TraceContext,
    store: ir.Store,
    producers: Mapping[ir.Value, ir.Operation],
    programs: frozenset[str],
    selected: frozenset[str],
) -> Iterator[ir.Requirement]:
    """Require that no element is stored to twice, where a store's value does not follow from the place.

    programs: the program indices that make a difference to what is stored. selected: those by which branches select
    one program.
    """
    access = store.access
    varying = {lane.name for lane in access.lanes if _varies(store.value, lane.axis, producers)} | programs
    if not varying or _follows(store.value, (access.indices, access.lanes), access.parameter, producers):
        return
    ranges = _ranges(context, access)
    mentioned = [name for e in access.indices for name in e.variables]
    for name in ranges.keys() & varying - {*mentioned, *context.axes}:
        yield _required(context, store, (name,), maximum(ranges[name].count, 1))
    parameter = next(each for each in context.definition.parameters if each.name == access.parameter)
    sizes = [context.number(size) for size in parameter.source.sizes]
    # Nothing is stored where one of these is 0.
    least = functools.reduce(minimum, (*sizes, *(each.count for each in ranges.values())), const(1))
    for e, size in zip(access.indices, sizes, strict=True):
        names = [name for name in ranges if mentioned.count(name) == 1 and name in e.variables]
        linear = e.linear(names)
        coefficients = {} if linear is None else linear[0]
        for a, b in itertools.combinations([name for name in coefficients if name not in selected], 2):
            own = coefficients[a], coefficients[b]
            start = e - var(a) * own[0] - var(b) * own[1]
            if varying & {a, b} and start.variables <= context.builder.sizes and all(c.is_constant for c in own):
                strides = own[0].constant, own[1].constant
                both = _in_common((ranges[a], ranges[b]), strides, start, size)
                first = ranges[a if a in context.axes or b not in context.axes else b].count
                yield _required(context, store, (a, b), 1 + (first - 1) * maximum(minimum(both, least), 0))


@dataclass(frozen=True)
class _Range:
    """The values of a variable for which something is stored: from `first` on, `count` of them."""

    first: Expr
    count: Expr


def _ranges(context: TraceContext, access: ir.Access) -> dict[str, _Range]:
    """The ranges of lanes and program indices, as guards on one of them alone narrow them; others are left out."""
    ends = {lane.name: (const(0), access.type.shape[lane.axis]) for lane in access.lanes}
    ends |= {axis: (const(0), size) for axis, size in zip(context.axes, context.grid, strict=True)}
    for guard in access.guards:
        names = guard.index.variables & ends.keys()
        if guard.index in access.indices and len(names) > 1:
            continue  # the end of the source
        name = min(names, default="")
        rest = guard.index - var(name)
        if len(names) == 1 and name not in rest.variables and rest.variables <= context.builder.sizes:
            first, end = ends[name]
            ends[name] = (
                maximum(first, -rest) if guard.lower else first,
                minimum(end, guard.size - rest) if guard.upper else end,
            )
        else:
            ends = {each: bounds for each, bounds in ends.items() if each not in names}
    return {name: _Range(first, end - first) for name, (first, end) in ends.items()}


def _in_common(ranges: tuple[_Range, _Range], strides: tuple[int, int], start: Expr, size: Expr) -> Expr:
    """A positive number if start + x * i + y * j is the same for two pairs, and within the size.

    It is the same again for i + y / g and j - x / g, where g divides both.
    """
    divisor = math.gcd(*strides)
    counts = ranges[0].count, ranges[1].count
    steps = abs(strides[1]) // divisor, abs(strides[0]) // divisor
    for own, stride in zip(ranges, strides, strict=True):
        start += stride * own.first if stride > 0 else stride * (own.first + own.count - 1)
    x, y = map(abs, strides)
    lowest = start + y * steps[1]
    highest = start + x * (counts[0] - 1 - steps[0]) + y * (counts[1] - 1)
    return minimum(minimum(counts[0] - steps[0], counts[1] - steps[1]), minimum(size - lowest, highest + 1))


def _required(context: TraceContext, store: ir.Store, names: tuple[str, ...], count: Expr) -> ir.Requirement:
    """Require that one of the programs, or of the lanes, that `count` counts stores to an element."""
    are_programs = any(name in context.axes for name in names)
    name = store.access.parameter
    message = (
        f"elements of {name!r} are in several tiles (its `strides` are less than its tiles), and programs store"
        if are_programs
        else f"elements of {name!r} are several times in one tile, and its lanes store"
    )
    message += (
        f" to them what may be different values: which one stays is not known; cut {name!r} into tiles that have no"
        " element in common, or use an atomic, such as"
        f" `ntl.atomic_add({name}, value)`"
    )
    return ir.Requirement(count, const(1), message, store.location, racing="programs" if are_programs else "lanes")


def _varies(value: ir.Value, axis: int, producers: Mapping[ir.Value, ir.Operation]) -> bool:
    """Tell whether a value may differ along an axis."""
    operation = producers.get(value)
    if isinstance(operation, ir.Apply) and operation.function in ("full", "broadcast"):
        counts = operation.operands[0].type.lanes
        return bool(counts) and counts[axis] != 1
    if isinstance(operation, ir.Apply) and operation.primitive.is_map:
        return any(_varies(operand, axis, producers) for operand in operation.operands)
    return value.type.lanes[axis] != 1


def _follows(value: ir.Value, place: Place, stored: str, producers: Mapping[ir.Value, ir.Operation]) -> bool:
    """Tell whether the place decides on a value: elements loaded from the same place, of other parameters, do."""
    match producers.get(value):
        case ir.Constant() | ir.ScalarArgument():
            return True
        case ir.Load(access=access):
            return (access.indices, access.lanes) == place and access.parameter != stored
        case ir.Index(expr=e):
            return e in place[0]
        case ir.Apply() as operation if operation.primitive.is_map or operation.function in ("full", "broadcast"):
            return all(_follows(operand, place, stored, producers) for operand in operation.operands)
        case ir.If(condition=condition) as branch:
            position = branch.results.index(value)
            values = condition, branch.then_yields[position], branch.else_yields[position]
            return all(_follows(each, place, stored, producers) for each in values)
    return False
