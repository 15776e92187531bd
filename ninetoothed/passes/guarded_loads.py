"""Pass: read zeros where they are chosen, so that the copy engine brings a tile as a product takes it.

    for j in range(n):                                       for j in range(n):
        x = load(a[j * 64 + lane])                       ->      y = load(a[j * 64 + lane], where j * 64 + lane < m)
        y = where(j * 64 + lane < m, x, 0)

What is read there may be NaN, of which a weight of 0 would make NaN in a product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.passes.dead_code import remove_dead
from ninetoothed.passes.operations import producers, replaced, unrepeated
from ninetoothed.passes.overhang.conditions import conjuncts

_Producers = Mapping[ir.Value, ir.Operation]


def guard(program: ir.Program) -> ir.Program:
    """Put such conditions of the loops of a program into guards of their loads."""
    defined_by = producers(program.body)
    loops: dict[ir.Operation, ir.Block] = {
        each: (_guarded(each, defined_by),) for each in program.body if isinstance(each, ir.For)
    }
    return replace(program, body=replaced(program.body, loops))


def _guarded(loop: ir.For, defined_by: _Producers) -> ir.For:
    loads: dict[ir.Operation, ir.Block] = {}
    chosen = set()
    for operation in loop.body:
        match operation:
            case ir.Apply(function="where", operands=(condition, tile, zeros), results=(result,)):
                load = defined_by.get(tile)
                if not isinstance(load, ir.Load) or load not in loop.body or not _is_zero(zeros, defined_by):
                    continue
                access = _with_guards(load.access, condition, defined_by, producers(loop.body))
                if access is not None:
                    loads[load] = *loads.get(load, (load,)), replace(load, access=access, result=result)
                    chosen.add(operation)
    body = tuple(each for each in replaced(loop.body, loads) if each not in chosen)
    return replace(loop, body=remove_dead(body, loop.yields)) if loads else loop


def _with_guards(
    access: ir.Access, condition: ir.Value, defined_by: _Producers, inside: _Producers
) -> ir.Access | None:
    """Guard an access by a condition that an index of its own is below a number; None for any other condition."""
    comparison, lanes = defined_by.get(unrepeated(condition, defined_by)), {lane.name for lane in access.lanes}
    if access.other != 0 or not isinstance(comparison, ir.Apply) or comparison.function != "lt":
        return None
    guards = []
    for e in conjuncts(defined_by, condition):
        index = next((i for i in access.indices if i.variables & lanes and not (e + i).variables & lanes), None)
        if index is None:
            return None
        guards.append(Guard(index, e + index, lower=False))
    names = frozenset[str]().union(*(guard.variables for guard in guards))
    bindings = dict(access.bindings) | {name: value for name, value in _bound(defined_by) if name in names}
    if not guards or any(value in inside for value in bindings.values()):
        return None
    return replace(access, guards=(*access.guards, *guards), bindings=tuple(bindings.items()))


def _bound(defined_by: _Producers) -> Iterator[tuple[str, ir.Value]]:
    """Yield the numbers that stand in integers."""
    for operation in defined_by.values():
        if isinstance(operation, ir.Index):
            yield from operation.bindings


def _is_zero(tile: ir.Value, defined_by: _Producers) -> bool:
    number = defined_by.get(unrepeated(tile, defined_by))
    return isinstance(number, ir.Constant) and number.value == 0
