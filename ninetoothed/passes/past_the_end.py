"""Pass: on GPUs, let programs do nothing that are past the end of their entry of a jagged tensor.

    store y[start + 64 * program_1 + lane] = v where 64 * program_1 + lane < length
->  if 64 * program_1 < length: ...

A grid has as many programs for each entry as for the longest one. Those past the end of a short one would compute what
is never stored. The program becomes one branch, of a number of run time that is read before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ninetoothed import dtypes, ir
from ninetoothed.expr import Expr, simplify
from ninetoothed.ir.effects import has_effect
from ninetoothed.passes.overhang.masks import MaskBuilder
from ninetoothed.passes.row_halves import HALF


def skip(program: ir.Program) -> ir.Program | None:
    """Put what follows the lengths of entries into a branch; None where programs do more than store in an entry."""
    before, rest = _parted(program)
    effects = [operation for operation in ir.walk(rest) if has_effect(operation) and not ir.blocks(operation)]
    stores = [operation for operation in effects if isinstance(operation, ir.Store)]
    if not stores or len(stores) < len(effects):
        return None
    first, *others = (dict(_ends(program, before, store.access)) for store in stores)
    shared = next((remaining for remaining in first if all(remaining in other for other in others)), None)
    if shared is None:
        return None
    wide = any(parameter.wide for parameter in program.parameters)
    builder = MaskBuilder(program.facts, dtypes.int64 if wide else dtypes.int32)
    type = ir.TileType(builder.index_type)
    sides = (builder.index(e, (), first[shared], type) for e in (shared[0], shared[1]))
    condition = builder.apply("lt", tuple(sides))
    return replace(program, body=(*before, *builder.top, ir.If(condition, rest)))


def _parted(program: ir.Program) -> tuple[ir.Block, ir.Block]:
    """Part a program after the last number of run time that guards of its stores mention."""
    stores = [operation for operation in ir.walk(program.body) if isinstance(operation, ir.Store)]
    bound = {value for store in stores for _, value in store.access.bindings if value.type.is_scalar}
    last = [i for i, each in enumerate(program.body) if not bound.isdisjoint(ir.results(each)) and not ir.blocks(each)]
    end = last[-1] + 1 if last else 0
    return program.body[:end], program.body[end:]


def _ends(program: ir.Program, before: ir.Block, access: ir.Access) -> Iterator[tuple[tuple[Expr, Expr], ir.Bindings]]:
    """Yield (index, size) of the guards that hold in no lane where `index >= size`, with the numbers of run time.

    Tasks that have a half of a program's rows each are lanes, too: they do the same rounds.
    """
    known = {value for operation in before for value in ir.results(operation)}
    lanes = {lane.name for lane in access.lanes} | {HALF}
    inner = {each.variable for each in ir.walk(program.body) if isinstance(each, ir.For)} | lanes
    for guard in access.guards:
        linear = guard.index.linear(lanes)
        if not guard.upper or linear is None or any(not c.is_constant or c.constant < 0 for c in linear[0].values()):
            continue
        index, size = simplify(linear[1], program.facts), simplify(guard.size, program.facts)
        names = index.variables | size.variables
        bindings = tuple((name, value) for name, value in access.bindings if name in names)
        if bindings and names.isdisjoint(inner) and all(value in known for _, value in bindings):
            yield (index, size), bindings
