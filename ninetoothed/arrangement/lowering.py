"""Lower an element of an arranged tensor to its place in the source, with the guards that can fail.

    x.tile((16,)), element n of tile o
->  x[o * 16 + n] where 0 <= o * 16 + n < size     of any size
->  x[o * 16 + n]                                  of sizes that are multiples of 16

There is no state: lowering is one fold of `metaops.pull_back` over the steps, innermost indices back to the source.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed.arrangement.guards import Edge, Guard, unimplied
from ninetoothed.arrangement.metaops import pull_back
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.value import Arrangement, Step
from ninetoothed.expr import Expr, Facts, Max, Range, as_expr, bounds, const, is_nonnegative, simplify, var

Indices = tuple[tuple[Expr, ...], ...]

# In place of a step's number, where an edge is no step's: the end of an entry, and of the tiles that an entry has.
SOURCE, OUTERMOST = -1, -2


@dataclass(frozen=True)
class Location:
    """The place of an element: an index for each dimension of the source, valid where all guards hold.

    edges: the guards that tell which lanes are overhang, proved ones included.
    """

    indices: tuple[Expr, ...]
    guards: tuple[Guard, ...]
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True)
class EntryBounds:
    """One entry of a jagged source: along `dim` it has `length` elements, from `start` on.

    outermost: the shape of the outermost level, which all entries share.
    """

    dim: int
    start: Expr
    length: Expr
    outermost: tuple[Expr, ...]


def lower(
    arrangement: Arrangement,
    indices: Iterable[Iterable[Expr | int]],
    facts: Facts,
    lanes: Iterable[str] = (),
    entry: EntryBounds | None = None,
) -> Location:
    """Return the place of the element with `indices` (a tuple a level, outermost first).

    `lanes` are the variables that run over the axes of a tile. `entry` is that of a jagged source which the element is
    in; its length is a size of the arrangement.

    The element is in bounds where every index is within its extent and every step stays within the dimension that it
    divides: of these guards, those that follow from `facts` and from earlier guards are dropped. The indices hold where
    the guards do; elsewhere they may be anything (`source_indices` has them unclamped).
    """
    located, facts = _prepared(arrangement, indices, facts)
    own = {const(0), *(var(name) for name in lanes)}  # 0 along an axis of one lane
    checked = _Checked(facts)
    levels = arrangement.levels if entry is None else (entry.outermost, *arrangement.levels[1:])
    for level, (level_indices, shape) in enumerate(zip(located, levels, strict=True)):
        is_last = level == len(levels) - 1
        for index, size in zip(level_indices, shape, strict=True):
            checked = checked.check(Guard(index, as_expr(size)), not (is_last and index in own))
    outermost = located[0]
    for number, step in reversed(tuple(enumerate(arrangement.steps))):
        located, guards = pull_back(step, located)
        located = _simplified(located, checked.facts)
        for dimension, guard in enumerate(guards):
            cut = (number, dimension)
            checked = checked.cut(guard, cut) if _is_cut(step, dimension) else checked.check(guard)
    if entry is not None:
        outermost_guards = tuple(map(Guard, outermost, map(as_expr, arrangement.levels[0])))
        checked, located = _within(checked, facts, entry, located, outermost_guards)
    edges = tuple(replace(edge, reached=unimplied(edge.reached, facts)) for edge in checked.edges)
    edges = _nearest(edges, facts)
    return Location(_simplified(located, checked.facts)[0], unimplied(checked.guards, facts), edges)


def _within(
    checked: _Checked, facts: Facts, entry: EntryBounds, located: Indices, outermost: tuple[Guard, ...]
) -> tuple[_Checked, Indices]:
    """Move an index along a jagged dimension to its entry. Past the end of the entry, and of its tiles, is overhang."""
    (place,) = located
    checked = checked.ends(Guard(place[entry.dim], entry.length), facts, (SOURCE, entry.dim))
    for dim, guard in enumerate(outermost):
        if guard.size != entry.outermost[dim] and guard.unproved(checked.facts):
            checked = checked.ends(guard, facts, (OUTERMOST, dim))
    return checked, ((*place[: entry.dim], entry.start + place[entry.dim], *place[entry.dim + 1 :]),)


def with_axes(edge: Edge, arrangement: Arrangement, indices: Indices, axes: Mapping[int, int]) -> Edge:
    """Note along which axes of a tile an edge lies, where its index is the same in all lanes and so does not tell.

    So it is along axes of one lane, and along those of which an earlier edge leaves but one.
    axes: the axes of the tile, by their positions among the innermost indices.
    """
    if edge.cut[0] == OUTERMOST:
        return replace(edge, uniform=frozenset(axes.values()))
    names = {f"axis_{position}": axis for position, axis in axes.items()}
    innermost = tuple(var(f"axis_{i}") if i in axes else as_expr(index) for i, index in enumerate(indices[-1]))
    located: Indices = (*(tuple(map(as_expr, level)) for level in indices[:-1]), innermost)
    guards: tuple[Guard, ...] = ()
    for step in reversed(arrangement.steps[max(edge.cut[0], 0) :]):
        located, guards = pull_back(step, located)
    index = located[0][edge.cut[1]] if edge.cut[0] == SOURCE else guards[edge.cut[1]].index
    found = index.variables & names.keys()
    return replace(edge, uniform=frozenset(names[name] for name in found))


def source_indices(
    arrangement: Arrangement, indices: Iterable[Iterable[Expr | int]], facts: Facts | None
) -> tuple[Expr, ...]:
    """Return the indices alone, correct out of bounds too: simplified with `facts`, if any, and never with a guard."""
    located, known = _prepared(arrangement, indices, facts or Facts())
    for step in reversed(arrangement.steps):
        located, _ = pull_back(step, located)
        located = located if facts is None else _simplified(located, known)
    return located[0]


def bind_sizes(arrangement: Arrangement, bindings: Mapping[str, Expr | int]) -> Arrangement:
    """Convert sizes to expressions, with values for names; plain ints, such as dimensions, stay ints."""

    @functools.cache
    def bound(size: Symbol) -> Any:
        return as_expr(size).subs(bindings)

    return arrangement.map_sizes(lambda size: size if isinstance(size, int) else bound(size))


@dataclass(frozen=True)
class _Checked:
    """The guards kept so far, the facts that hold where they do, and the edges.

    `reached` are the guards that fail where a program reaches for elements that do not exist.
    """

    facts: Facts
    guards: tuple[Guard, ...] = ()
    edges: tuple[Edge, ...] = ()
    reached: tuple[Guard, ...] = ()

    def cut(self, guard: Guard, cut: tuple[int, int]) -> _Checked:
        """Check the guard of a dimension that `tile` cuts, and note it as an edge, without names that can only be 0."""
        index, size = simplify(_without_zeros(guard.index, self.facts), self.facts), simplify(guard.size, self.facts)
        fails = not is_nonnegative(size - 1 - index, self.facts)
        checked = self.check(guard, is_reached=False)
        return replace(checked, edges=(*self.edges, Edge(index, size, reached=self.reached, fails=fails, cut=cut)))

    def ends(self, guard: Guard, facts: Facts, cut: tuple[int, int]) -> _Checked:
        """Check the end of an entry, and note it as an edge. facts: those without what guards let be assumed."""
        index, size = simplify(guard.index, self.facts), simplify(guard.size, self.facts)
        fails = not is_nonnegative(size - 1 - index, facts)
        checked = self.check(guard, is_reached=False)
        return replace(checked, edges=(*self.edges, Edge(index, size, reached=self.reached, fails=fails, cut=cut)))

    def check(self, guard: Guard, is_reached: bool = True) -> _Checked:
        """Keep a guard unless it is proved, and assume it from then on."""
        index, size = simplify(guard.index, self.facts), simplify(guard.size, self.facts)
        new = Guard(index, size).unproved(self.facts)
        # Proved or kept, it holds from here on.
        facts = self.facts if index.is_constant else self.facts.assume(index, 0, size - 1)
        reached = (*self.reached, *new) if is_reached else self.reached
        return _Checked(_with_positive(facts, size), (*self.guards, *new), self.edges, reached)


def _is_cut(step: Step, dimension: int) -> bool:
    """Tell whether a tile of a step may end past the dimension; a tile that is the whole dimension does not."""
    if step.operation != "tile":
        return False
    strides, dilation = step.arguments
    return strides[dimension] != 0 or dilation[dimension] != 1


def _nearest(edges: tuple[Edge, ...], facts: Facts) -> tuple[Edge, ...]:
    """Drop edges that others under the same conditions imply."""
    return unimplied(edges, facts, lambda edge, other: other.fails and other.reached == edge.reached)


def _with_positive(facts: Facts, size: Expr) -> Facts:
    """Assume that a dimension with an element is not empty: then no factor `max(n, 0)` of its size is 0."""
    low = bounds(size, facts)[0]
    if low is not None and low > 0:
        return facts
    facts = facts.assume(size, 1)
    for atom in size.atoms:
        if isinstance(atom, Max) and len(size.terms) == 1:
            inner = [operand for operand in atom.operands if not operand.is_constant]
            if len(inner) == 1 and all(o.is_constant and o.constant <= 0 for o in atom.operands if o is not inner[0]):
                facts = facts.assume(inner[0], 1)
    return facts


def _prepared(arrangement: Arrangement, indices: Iterable[Iterable[Expr | int]], facts: Facts) -> tuple[Indices, Facts]:
    facts = _with_sizes(arrangement, facts)
    simplified = tuple(tuple(simplify(as_expr(i), facts) for i in level) for level in indices)
    given, wanted = tuple(map(len, simplified)), tuple(map(len, arrangement.levels))
    assert given == wanted, f"indices of ranks {given} for levels of ranks {wanted}"
    return simplified, facts


def _with_sizes(bound: Arrangement, facts: Facts) -> Facts:
    """Assume that sizes are at least 0 where `facts` do not say."""
    names = {name for size in bound.source.sizes for name in as_expr(size).variables if as_expr(size).sole_atom}
    missing = {name: Range(0) for name in sorted(names) if name not in facts.ranges}
    return Facts({**missing, **facts.ranges}, facts.assumptions) if missing else facts


def _without_zeros(index: Expr, facts: Facts) -> Expr:
    """Replace names that can only be 0."""
    return index.subs({name: const(0) for name in index.variables if bounds(var(name), facts) == (0, 0)})


def _simplified(indices: Indices, facts: Facts) -> Indices:
    return tuple(tuple(simplify(index, facts) for index in level) for level in indices)
