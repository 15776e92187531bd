"""Pass: compute several programs of straight-line code side by side in one, so that short rows fill the warps.

    x = load(x_ptr + pid * n + arange(n)); store(y_ptr + pid * n + arange(n), x / sum(x))
->  rows = pid * 16 + arange(16)
    x = load(x_ptr + rows[:, None] * n + arange(n)); store(y_ptr + rows[:, None] * n + arange(n), x / sum(x, axis=1))

Values that depend on the program index get an axis for it, before their others; all programs use the same of the rest.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.dtypes import PointerType
from ninetoothed.expr import Expr, Facts, cdiv, const, var
from ninetoothed.ir.rewriter import access_at
from ninetoothed.language.primitive import Effect
from ninetoothed.passes.operations import is_dot
from ninetoothed.passes.scheduled import ScheduledProgram
from ninetoothed.schedule import DataParallel

_LANE = "coarsened"


def coarsen(program: ir.Program, sharing: DataParallel) -> ScheduledProgram | None:
    """Compute several programs along the last axis of the grid in one; None where an operation forbids it."""
    count = sharing.coarsening
    axes = [axis for axis, extent in zip(program.axes, program.grid, strict=True) if extent != 1]
    if not axes or count == 1:
        return None
    position = program.axes.index(axes[-1])
    extent = program.grid[position]
    index = f"{axes[-1]}_coarsened"
    facts = program.facts.bind(index, 0, cdiv(extent, count) - 1).bind(_LANE, 0, count - 1)
    coarsener = _Coarsener(
        axis=axes[-1], index=var(index) * count + var(_LANE), count=count, guard=_guard(index, extent, count, facts)
    )
    try:
        for operation in program.body:
            coarsener.repeat(operation)
    except _Uncoarsenable:
        return None
    new = replace(
        program,
        grid=(*program.grid[:position], cdiv(extent, count), *program.grid[position + 1 :]),
        axes=(*program.axes[:position], index, *program.axes[position + 1 :]),
        body=tuple(coarsener.operations),
        facts=facts,
    )
    return ScheduledProgram(new, coarsening=count)


def _guard(index: str, extent: Expr, count: int, facts: Facts) -> tuple[Guard, ...]:
    """Guard against programs that do not exist; none where `count` divides how many there are."""
    guard = Guard(var(index) * count + var(_LANE), extent, lower=False)
    return () if guard.holds(facts) else (guard,)


class _Uncoarsenable(Exception):
    """An operation cannot be done for several programs at once."""


@dataclass(kw_only=True)
class _Coarsener(ir.Rewriter):
    """Rewrites operations for several programs: `index`, along a new axis, stands for the program index `axis`.

    values: those that depend on the program, with their new axis. operations: those so far.
    """

    axis: str
    index: Expr
    count: int
    guard: tuple[Guard, ...]
    operations: list[ir.Operation] = field(default_factory=list)

    def repeat(self, operation: ir.Operation) -> None:
        """Append an operation that does the work of all programs at once."""
        match operation:
            case ir.Constant() | ir.ScalarArgument():
                self.operations.append(operation)
            case ir.Index(expr=e, lanes=lanes):
                if self.axis in e.variables:
                    self._bare(operation.bindings)
                    wide = replace(operation, lanes=self._lanes(lanes))
                    self.operations.append(self.rebuilt(wide))
                else:
                    self.operations.append(self._common(operation))
            case ir.Load(access=access):
                self.operations.append(self.rebuilt(operation) if self._varies(access) else self._common(operation))
            case ir.Store(access=access):
                if not self._varies(access):
                    raise _Uncoarsenable
                self.operations.append(self.rebuilt(operation))
            case ir.Apply():
                self._apply(operation)
            case _:
                raise _Uncoarsenable

    def _apply(self, operation: ir.Apply) -> None:
        """Repeat an application: with one axis more, or as it is where its operands are the same for all programs."""
        is_common = not any(operand in self.values for operand in operation.operands)
        # A product of more axes is slower than those of several programs.
        if operation.primitive.effect is not Effect.NONE or (is_dot(operation) and not is_common):
            raise _Uncoarsenable
        if is_common:
            self.operations.append(operation)
        elif operation.function == "full":
            first = self._with_rank(operation.operands[0], len(operation.result.type.lanes))
            results = (self.new(operation.result),)
            self.operations.append(replace(operation, function="broadcast", operands=(first,), results=results))
        else:
            self.operations.append(self.rebuilt(self._with_axis(operation)))

    def _with_axis(self, operation: ir.Apply) -> ir.Apply:
        """Return an operation that does the same along the other axes of tiles with one more."""
        attributes, sides = dict(operation.attributes), (operation.operands, operation.results)
        if "axis" in operation.primitive.attributes.known:
            axis, rank = attributes.get("axis"), max(len(value.type.lanes) for side in sides for value in side)
            if axis is None and rank != 1:
                raise _Uncoarsenable
            attributes["axis"] = (axis or 0) % rank + 1
        if "dims" in attributes:
            attributes["dims"] = (0, *(dim + 1 for dim in attributes["dims"]))
        operands, results = ([(self.count, *value.type.lanes) for value in side] for side in sides)
        axes = operation.primitive.axes_of(operands, results, attributes)
        places = itertools.product(range(len(operands)), range(len(results)))
        if axes is None or any(axes.kept(*place).get(0) != 0 for place in places):
            raise _Uncoarsenable
        return replace(operation, attributes=tuple(attributes.items()))

    # -- values that depend on the program --

    def new(self, value: ir.Value) -> ir.Value:
        """Give a result an axis for the programs."""
        if isinstance(value.type.dtype, PointerType):
            raise _Uncoarsenable
        self.values[value] = ir.Value(self._type(value.type), value.hint)
        return self.values[value]

    def _type(self, type: ir.TileType) -> ir.TileType:
        return replace(type, shape=(const(self.count), *type.shape), lanes=(self.count, *type.lanes))

    def at(self, e: Expr) -> Expr:
        return e.subs({self.axis: self.index})

    def _lanes(self, lanes: tuple[ir.Lane, ...]) -> tuple[ir.Lane, ...]:
        moved = (replace(lane, axis=lane.axis + 1) for lane in lanes)
        return (ir.Lane(_LANE, 0, self.count), *moved)

    def _varies(self, access: ir.Access) -> bool:
        """Tell whether programs access tiles of their own."""
        return any(self.axis in e.variables for e in access.expressions)

    def access(self, operation: ir.Load | ir.Store) -> ir.Access:
        """Access the tiles of all programs."""
        access = operation.access
        self._bare(access.bindings)
        moved = access_at(access, self.at)
        return replace(
            moved,
            type=self._type(access.type),
            guards=(*self.guard, *moved.guards),
            lanes=self._lanes(access.lanes),
        )

    def _bare(self, bindings: ir.Bindings) -> None:
        if bindings:
            raise _Uncoarsenable

    # -- values that do not --

    def _common(self, operation: ir.Operation) -> ir.Operation:
        """Keep an operation that is the same for all programs."""
        if any(operand in self.values for operand in ir.operands(operation)):
            raise _Uncoarsenable
        return operation

    def value(self, value: ir.Value) -> ir.Value:
        """Give a value an axis for the programs, along which it is broadcast if it depends on none."""
        if value in self.values:
            return self.values[value]
        result = ir.Value(self._type(value.type))
        function = "full" if value.type.is_scalar else "broadcast"
        own = value if value.type.is_scalar else self._expanded(value, 0)
        self.operations.append(ir.Apply((result,), function, (own,)))
        return result

    def _expanded(self, value: ir.Value, axis: int) -> ir.Value:
        """Give a value an axis of one element."""
        self.operations.append(expansion := ir.Apply.of("expand_dims", (value,), hint=value.hint, axis=axis))
        return expansion.result

    def _with_rank(self, value: ir.Value, rank: int) -> ir.Value:
        """Give a value an axis for the programs, and axes of one element up to `rank` beside that."""
        value = self.value(value)
        while len(value.type.lanes) < rank + 1:
            value = self._expanded(value, len(value.type.lanes))
        return value
