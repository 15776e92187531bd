"""Edges of values: conditions on lanes. A lane is overhang if it fails one of them.

An edge is an inequality, `remaining > 0`, in the variables of the value's axes (a `BoundEdge`): of tiles of 64 that end
at n, `n - 64 * program_0 - lane_0_64 > 0`. Or it is a value (a `MaskEdge`) where no inequality is known: a variable
that each round of a loop replaces keeps the mask of the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ninetoothed import ir
from ninetoothed.arrangement.guards import Edge
from ninetoothed.expr import Expr, Facts, condition, const, is_nonnegative, maximum, minimum, simplify, var
from ninetoothed.ir.lanes import Told


@dataclass(frozen=True, kw_only=True)
class BoundEdge(Edge):
    """Lanes are elements where `index < size`, which is `remaining > 0`, or where some guard of `reached` fails.

    Edges are equal if `remaining`, `reached` and `uniform` are. uniform: the axes along which the value was broadcast
    since, too. parameter: whose end it is; None where it only rounds an extent up.
    """

    remaining: Expr
    index: Expr = field(compare=False)
    size: Expr = field(compare=False)
    lanes: tuple[ir.Lane, ...] = field(compare=False)
    bindings: ir.Bindings = field(default=(), compare=False)
    fails: bool = field(default=True, compare=False)
    parameter: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, edge: Edge, lanes: Iterable[ir.Lane], facts: Facts, **rest: Any) -> BoundEdge:
        # Lanes that do not matter have no counterpart later, and are not to be mentioned.
        index, size, remaining = (simplify(e, facts) for e in (edge.index, edge.size, edge.size - edge.index))
        names = remaining.variables.union(*(guard.variables for guard in edge.reached))
        own = tuple(lane for lane in lanes if lane.name in names)
        rest = {"reached": edge.reached, "uniform": edge.uniform, "fails": edge.fails, **rest}
        return cls(remaining=condition(remaining), index=index, size=size, lanes=own, **rest)

    @property
    def axes(self) -> frozenset[int]:
        """The axes along which the edge lies."""
        return self.uniform.union(lane.axis for lane in self.lanes)

    @property
    def names(self) -> frozenset[str]:
        """Collect all variables, lanes aside."""
        found = self.remaining.variables.union(*(guard.variables for guard in self.reached))
        return found - {lane.name for lane in self.lanes}

    def over(self, values: Mapping[str, Expr], lanes: Iterable[ir.Lane], facts: Facts) -> BoundEdge:
        """Return the bound for other lanes. values: the expressions, in `lanes`, of those that it has now."""
        moved = self.at(lambda e: e.subs(values))
        return BoundEdge.of(moved, lanes, facts, bindings=self.bindings, parameter=self.parameter)

    @property
    def is_prefix(self) -> bool:
        """Tell whether the elements come first along each axis."""
        linear = self.remaining.linear([lane.name for lane in self.lanes])
        return linear is not None and all(c.is_constant and c.constant < 0 for c in linear[0].values())


@dataclass(frozen=True)
class MaskEdge:
    """Lanes are elements where `value` holds: an int1, with one lane along axes on which it does not depend.

    edges, number: of `where(c, x, 0)`, the edges of x, and 0. Past them, lanes are overhang where c holds, and 0
    elsewhere: all of them may be filled with 0, and no mask of c is needed.
    origins: the edges that it was made of, where it is a choice between them.
    """

    value: ir.Value
    edges: tuple[BoundEdge, ...] = ()
    number: int | float | None = None
    origins: frozenset[OverhangEdge] = frozenset()

    fails = True
    parameter = None
    is_prefix = False
    names: frozenset[str] = frozenset()
    uniform: frozenset[int] = frozenset()

    @property
    def axes(self) -> frozenset[int]:
        """The axes along which the edge lies."""
        return frozenset(axis for axis, lanes in enumerate(self.value.type.lanes) if lanes != 1)


OverhangEdge = BoundEdge | MaskEdge


def rounding(type: ir.TileType, facts: Facts) -> tuple[BoundEdge, ...]:
    """Return the edges of a tile whose extents are rounded up to powers of two, or to 1 from 0."""
    found = []
    for axis, (size, count) in enumerate(zip(type.shape, type.lanes, strict=True)):
        if not (size.is_constant and size.constant == count) and count > 1:
            variable = type.axes[axis]
            found.append(BoundEdge.of(Edge(var(variable.name), size), (variable,), facts))
        elif count == 1 and not is_nonnegative(size - 1, facts):
            found.append(BoundEdge.of(Edge(const(0), size, uniform=frozenset((axis,))), (), facts))
    return tuple(found)


# -- through shape operations ----------------------------------------------------------------------


def expressed(e: Expr, source: ir.TileType, axes: Told) -> Expr | None:
    """Put for each lane of a tile of `source` its expression in `axes`; None where an axis has none there."""
    names = {lane.name: lane.axis for lane in source.axes}
    own = {name: names[name] for name in e.variables if name in names}
    return e.subs({name: axes[axis] for name, axis in own.items()}) if axes.keys() >= {*own.values()} else None


def moved(
    bound: BoundEdge, axes: Told, type: ir.TileType, facts: Facts, places: Mapping[int, int] | None = None
) -> BoundEdge | None:
    """Move a bound to a tile of `type`, given its operand's axes there; None where one has no counterpart.

    places: the numbers of the axes whose lanes `axes` does not tell, where they change.
    """
    if not all(lane.axis in axes for lane in bound.lanes):
        return None
    if places is not None:
        names = {axis: axes[axis].variables if axis in axes else frozenset() for axis in bound.uniform}
        told = {lane.axis for lane in type.axes if any(lane.name in own for own in names.values())}
        rest = {places[axis] for axis, own in names.items() if not own and axis in places}
        bound = replace(bound, uniform=frozenset(told | rest))
    values = {lane.name: axes[lane.axis] for lane in bound.lanes}
    return bound.over(values, type.axes, facts)


def equal_counts(a: BoundEdge, b: BoundEdge, sizes: frozenset[str]) -> tuple[Expr, Expr] | None:
    """Return two sizes to compare in a call: the edges are equal where these are. None where no sizes tell."""
    lanes = {lane.name: const(0) for lane in (*a.lanes, *b.lanes)}
    if not (a.is_prefix and b.is_prefix):
        return None
    difference = a.remaining - b.remaining
    if difference.is_constant and difference.constant == 0:
        return const(0), const(0)
    left, right = (bound.remaining.subs(lanes) for bound in (a, b))
    if left.variables | right.variables <= sizes:
        count = const(max(lane.count for lane in (*a.lanes, *b.lanes)))
        return minimum(maximum(left, 0), count), minimum(maximum(right, 0), count)
    return (difference, const(0)) if difference.variables and difference.variables <= sizes else None


def told(edge: OverhangEdge) -> str:
    """Describe an edge in a message."""
    if isinstance(edge, BoundEdge) and edge.parameter is not None:
        names = {name: var(value.hint) for name, value in edge.bindings if value.hint}
        begin = edge.index.subs({lane.name: const(0) for lane in edge.lanes} | names)
        return f"a tile of {edge.parameter!r} that begins at {begin} and ends at {edge.size}"
    return "a tile whose end is known only when the kernel runs"
