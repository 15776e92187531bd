"""Put barriers between accesses of one program to the same memory: its threads run at their own pace."""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.analysis import guard_key
from ninetoothed.backends.triton.context import EmitContext
from ninetoothed.expr import Expr, const
from ninetoothed.ir.effects import stored
from ninetoothed.passes.operations import are_apart

# Stands for the access of a store in another round, and of one through pointers, which may reach any parameter.
SOMEWHERE, ANYWHERE = "somewhere", "anywhere"


def access_key(access: ir.Access):
    """Return a key that is equal for accesses in which each thread touches the same elements."""
    places = tuple(Guard(index, const(0)) for index in access.indices)
    return guard_key(replace(access, guards=places)) or object()


def before_read(context: EmitContext, parameter: str, access: ir.Access | None = None) -> None:
    """Put a barrier where a thread may read what another wrote; in place, to whatever parameter."""
    reaches_any = access is None or any(place is ANYWHERE for _, place in context.written)
    meets = context.program.in_place or any(reaches_any or name == parameter for name, _ in context.written)
    if context.written and meets:
        barrier(context)
    elif context.written:
        context.relies_on_apart = True
    context.read |= {(parameter, _key(access))}


def before_write(context: EmitContext, parameter: str, access: ir.Access | None = None) -> None:
    """Put a barrier where a thread may write what another has yet to read, or to write."""
    key = _key(access)
    alike = {name: _are_alike(context, parameter, name) for name, _ in (*context.written, *context.read)}
    meets = access is not None and any(
        _may_meet(access, other) if alike[name] else _may_share(context, parameter, name)
        for name, other in context.written
    )
    if meets or any(
        other != key if alike[name] else _may_share(context, parameter, name) for name, other in context.read
    ):
        barrier(context)
    context.written |= {(parameter, access or ANYWHERE)}


def _are_alike(context: EmitContext, parameter: str, other: str) -> bool:
    """Tell whether equal indices of two parameters that are the same memory mean the same element."""
    strides = [context.program.parameter(name).strides for name in (parameter, other)]
    return parameter == other or (context.program.in_place and strides[0] == strides[1])


def _may_share(context: EmitContext, parameter: str, other: str) -> bool:
    """Tell whether two parameters may be the same memory: calls may give it to those of elements of one size alone."""
    # A boolean has a byte of its own.
    sizes = {max(context.program.parameter(name).dtype.bits, 8) for name in (parameter, other)}
    return context.program.in_place and len(sizes) == 1


def before_rounds(context: EmitContext, loop: ir.Loop) -> None:
    """Note what earlier rounds of a loop store or read: a later round may touch the same memory."""
    inside = [inner for block in ir.blocks(loop) for inner in ir.walk(block)]
    changed = stored(inside)
    by_tiles = {inner.access.parameter for inner in inside if isinstance(inner, ir.Store)}
    context.written |= {(name, None if name in by_tiles else ANYWHERE) for name in changed}
    for inner in inside:
        match inner:
            case ir.Load(access=access) if access.parameter in changed:
                context.read |= {(access.parameter, access_key(access))}
            case ir.Store(access=access) if _moves_over_itself(access, loop):
                context.written |= {(access.parameter, SOMEWHERE)}


def _may_meet(access: ir.Access, other: ir.Access | str | None) -> bool:
    """Tell whether a thread may store where another has stored before, by another access."""
    if not isinstance(other, ir.Access):
        return other is SOMEWHERE
    return access_key(access) != access_key(other) and not are_apart(access, other)


def _moves_over_itself(access: ir.Access, loop: ir.Operation) -> bool:
    """Tell whether the tiles of two rounds may overlap and yet not be one."""
    if not isinstance(loop, ir.For):
        return bool(access.bindings)
    moving = [index for index in access.indices if loop.variable in index.variables]
    return bool(access.bindings or moving) and not any(_moves_on(index, access, loop) for index in moving)


def _moves_on(index: Expr, access: ir.Access, loop: ir.For) -> bool:
    """Tell whether a round moves an index by at least as much as the lanes take of it."""
    counts = {lane.name: lane.count for lane in access.lanes}
    linear = index.linear((loop.variable, *counts))
    if linear is None or not all(each.is_constant for each in (*linear[0].values(), loop.step)):
        return False
    coefficients = {name: abs(each.constant) for name, each in linear[0].items()}
    taken = sum(coefficients[name] * (count - 1) for name, count in counts.items())
    return coefficients[loop.variable] * abs(loop.step.constant) > taken


def _key(access: ir.Access | None):
    """Return the key of an access; one through pointers, which may be anywhere, has a unique key."""
    return object() if access is None else access_key(access)


def barrier(context: EmitContext) -> None:
    context.run(syntax.call("tl.debug_barrier"))
    forget(context)


def forget(context: EmitContext) -> None:
    context.written = context.read = frozenset()
