"""Find stores of different values to elements that tiles have in common, of several programs or of one.

y.tile((4,), strides=(2,))             refused: two programs store to elements 2 and 3
y.dtype = y.dtype.expand((4,))         refused: four lanes store to one element
y = x, of x.tile((4,), strides=(2,))   runs: what is stored follows from the place alone
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from ninetoothed import ir
from ninetoothed.definition import KernelParameter
from ninetoothed.expr import Expr, const, is_nonnegative, maximum
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
    context: TraceContext, store: ir.Store, producers: Mapping[ir.Value, ir.Operation], programs: frozenset[str]
) -> Iterator[ir.Requirement]:
    """Require that no element is stored to twice, where a store's value does not follow from the place.

    programs: the program indices that make a difference to what is stored, unless a branch selects one.
    """
    access = store.access
    extents = {
        lane.name: access.type.shape[lane.axis] for lane in access.lanes if _varies(store.value, lane.axis, producers)
    }
    extents |= {axis: size for axis, size in zip(context.axes, context.grid, strict=True) if axis in programs}
    if not extents or _follows(store.value, (access.indices, access.lanes), access.parameter, producers):
        return
    mentioned = [names for e in access.indices for names in e.variables]
    for name, extent in extents.items():
        if name not in mentioned and name not in context.axes:
            yield _required(context, store, (name,), extent, 1)
    every = {lane.name: access.type.shape[lane.axis] for lane in access.lanes}
    every |= dict(zip(context.axes, context.grid, strict=True))
    for e in access.indices:
        names = [name for name in every if name in e.variables and mentioned.count(name) == 1]
        linear = e.linear(names)
        if linear is not None:
            pairs = ((a, b) for a, b in itertools.combinations(names, 2) if a in extents or b in extents)
            for a, b in pairs:
                by = linear[0][a], linear[0][b]
                if by[0].is_constant and by[1].is_constant:
                    distances = by[0].constant, by[1].constant
                    yield from _collision(context, store, (a, b), (every[a], every[b]), distances)


def _collision(
    context: TraceContext,
    store: ir.Store,
    names: tuple[str, str],
    extents: tuple[Expr, Expr],
    distances: tuple[int, int],
) -> Iterator[ir.Requirement]:
    """x * i + y * j is the same again for i + y / g and j - x / g, where g divides both: either may be out of range."""
    divisor = math.gcd(*distances)
    steps = [abs(distances[1]) // divisor, abs(distances[0]) // divisor]
    first = 0 if names[0] in context.axes or names[1] not in context.axes else 1
    if is_nonnegative(extents[1 - first] - steps[1 - first] - 1, context.facts):
        yield _required(context, store, names, extents[first], steps[first])


def _required(
    context: TraceContext, store: ir.Store, names: tuple[str, ...], extent: Expr, most: int
) -> ir.Requirement:
    are_programs = any(name in context.axes for name in names)
    name = store.access.parameter
    message = (
        f"elements of {name!r} are in several tiles (its `strides` are less than its tiles), and programs store"
        if are_programs
        else f"elements of {name!r} are several times in one tile, and its lanes store"
    )
    message += (
        f" different values to them: which one stays is not known; cut {name!r} into tiles that have no element in"
        f" common, or use an atomic, such as `ntl.atomic_add({name}.source.data_ptr() + {name}.offsets(), value)`"
    )
    racing = "programs" if are_programs else "lanes"
    return ir.Requirement(maximum(extent, most), const(most), message, store.location, racing=racing)


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
    return False
