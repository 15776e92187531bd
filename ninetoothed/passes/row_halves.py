"""Pass: let two tasks compute a half of a program's rows each.

    total = zeros(128)                             a_half = a[half * 64 :][:64]; total = zeros(64)
    for k in range(n):                     ->      for k in range(n):
        total += sum(dot(a, b[k]), axis=1)             total += sum(dot(a_half, b[k]), axis=1)
    store(c, total)                                store(c[half * 64 :][:64], total)

What does not depend on `half` is the same for both: tiles such as b[k], and the number of rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.expr import const, var
from ninetoothed.passes.dead_code import remove_dead
from ninetoothed.passes.operations import producers
from ninetoothed.passes.subtile import AxisSlice, Inseparable, Subtile, SubtileBuilder, subtile_type

HALF = "half"
HALVES = 2


def halve(program: ir.Program, rows: int) -> ir.Program | None:
    """Return the program of a half of so many rows, which axis 0 of all that is stored has; None where it has none."""
    piece = (AxisSlice(0, rows // HALVES, var(HALF) * (rows // HALVES)),)
    builder = _LoopsToo(producers(program.body), _never)
    stores: list[ir.Store] = []
    try:
        for operation in program.body:
            match operation:
                case ir.Store(value=value) if value.type.lanes[:1] == (rows,):
                    stores.append(builder.stored(operation, piece))
                case ir.Store() | ir.If() | ir.While() | ir.Print() | ir.Breakpoint() | ir.Apply(results=()):
                    return None
    except Inseparable:
        return None
    return replace(
        program,
        grid=(*program.grid, const(HALVES)),
        axes=(*program.axes, HALF),
        body=remove_dead((*builder.operations, *stores)),
        facts=program.facts.bind(HALF, 0, HALVES - 1),
    )


def _never(value: ir.Value, piece: Subtile) -> ir.Value:
    raise Inseparable


@dataclass
class _LoopsToo(SubtileBuilder):
    """Builds subtiles of what loops carry, too: of all of it at once, along its first axis."""

    def computed(self, operation: ir.Operation, value: ir.Value, piece: Subtile) -> ir.Value:
        """Compute a half of a value: of a loop's result by a loop over that half."""
        if not isinstance(operation, ir.For):
            return super().computed(operation, value, piece)
        if operation.merge is not None or operation.bindings or not piece or piece[0].axis != 0:
            raise Inseparable
        pieces = {each: piece if each.argument.type.lanes[:1] not in ((), (1,)) else () for each in operation.carried}
        known = {(each.argument, part): _like(each.argument, part) for each, part in pieces.items()}
        within = _LoopsToo(producers(operation.body), self.of, known=dict(known))
        yields = [within.of(each.yielded, part) for each, part in pieces.items()]
        initial = [self.of(each.initial, part) for each, part in pieces.items()]
        results = {(each.result, part): _like(each.result, part) for each, part in pieces.items()}
        carried = ir.Carried.of(initial, known.values(), yields, results.values())
        self.operations.append(replace(operation, carried=carried, body=tuple(within.operations)))
        self.known |= results
        return self.known[value, piece]


def _like(value: ir.Value, piece: Subtile) -> ir.Value:
    """Return a new value for a piece of another."""
    return ir.Value(subtile_type(value.type, piece), value.hint)
