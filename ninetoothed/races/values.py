"""Find what decides on values: expressions that, where they are equal, give equal values.

x[64 * program_0 + lane_0] * 2     64 * program_0 + lane_0
sum(x[8 * program_0 + lane_0])     8 * program_0: the lanes are summed up
x[...] of a loop's last round      what the rounds begin with, their number, and what they read, less the counter
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.dtypes import PointerType
from ninetoothed.expr import Expr, const, maximum, minimum, var
from ninetoothed.expr.algebra import build, of_atom
from ninetoothed.ir.dataflow import Dataflow
from ninetoothed.language.primitive import Effect
from ninetoothed.races.integers import Integers, moved_lanes

Keys = frozenset[Expr]
_NONE: Keys = frozenset()
# With more of them, the variables of keys stand for them.
_MOST = 24


@dataclass(eq=False)
class Values(Dataflow[Keys]):
    """The keys of all values of a program, followed to a fixed point: loop-carried variables bring keys back.

    rounds: the name of each loop's round. programs: the program indices.
    changed: the parameters that atomic functions change: what is read of them depends on when.
    """

    integers: Integers
    rounds: Mapping[ir.Operation, str]
    programs: tuple[str, ...]
    changed: frozenset[str]
    _tags: dict[Any, int] = field(default_factory=dict)
    _formulas: dict[ir.Value, tuple[Any, tuple[Expr, ...]]] = field(default_factory=dict)

    def keys(self, value: ir.Value) -> Keys:
        """Return the expressions that decide on a value."""
        return self.facts.get(value, _NONE)

    def formula(self, value: ir.Value, stored: Iterable[str]) -> tuple[Any, tuple[Expr, ...]]:
        """Return how a value is computed, lane by lane, and the expressions of which: two alike are equal values.

        What is not computed lane by lane, or is read of a parameter that the kernel stores to, is alike only to itself.
        """
        if value not in self._formulas:
            tag, keys = self._written(value, stored)
            # Numbers for tags: those of tags in tags would take long to compare.
            self._formulas[value] = self._tags.setdefault(tag, len(self._tags)), keys
        return self._formulas[value]

    def _written(self, value: ir.Value, stored: Iterable[str]) -> tuple[Any, tuple[Expr, ...]]:
        match self.integers.producers.get(value):
            case ir.Constant(value=number):
                return ("constant", repr(number), str(value.type.dtype)), ()
            case ir.ScalarArgument(parameter=name):
                return ("argument", name), ()
            case ir.Index(expr=e, bindings=bindings):
                e = self.integers.within(e, bindings)
                if not self.integers.has_loaded(e):
                    return ("index", str(value.type.dtype)), (e,)
            case ir.Load(access=access) if access.parameter not in stored:
                reached = tuple(self.integers.within(e, access.bindings) for e in _reached(access))
                if not any(map(self.integers.has_loaded, reached)):
                    return ("load", access.parameter), reached
            case ir.Apply(function="full" | "broadcast", operands=(operand,)):
                return self.formula(operand, stored)
            case ir.Apply(operands=operands) as operation if _is_lane_by_lane(operation) and len(operands) < 3:
                parts = [self.formula(operand, stored) for operand in operands]
                types = tuple(str(each.type.dtype) for each in operation.results)
                keys = tuple(key for _, own in parts for key in own)
                if len(keys) <= _MOST:
                    return (operation.function, operation.attributes, types, *(tag for tag, _ in parts)), keys
        return value, tuple(sorted(self.keys(value), key=lambda e: e.text))

    def of_expressions(self, expressions: Iterable[Expr]) -> Keys:
        """Return the keys of integers: those in which no number of run time occurs, and what decides on these."""
        found: set[Expr] = set()
        for e in expressions:
            loaded = e.variables & self.integers.loaded.keys()
            if loaded:
                found.update(var(name) for name in e.variables - loaded if not self._is_size(name))
                found.update(*(self.keys(self.integers.loaded[name]) for name in loaded))
            elif not all(map(self._is_size, e.variables)):
                found.add(e)
        return frozenset(found)

    def _is_size(self, name: str) -> bool:
        return not (name.startswith("lane_") or name in self.programs or name in self.rounds.values())

    def join(self, known: Keys | None, fact: Keys) -> Keys:
        joined = fact | (known or _NONE)
        if len(joined) > _MOST:
            joined = frozenset(var(name) for e in joined for name in e.variables if not self._is_size(name))
        return joined

    def outside(self, loop: ir.Loop, fact: Keys) -> Keys:
        return self._without(fact, {self.rounds[loop]})

    def follow(self, operation: ir.Operation) -> None:
        integers = self.integers
        match operation:
            case ir.Index(result=result, expr=e, bindings=bindings):
                self.note(result, self.of_expressions((integers.within(e, bindings),)))
            case ir.Load(result=result, access=access) if access.parameter in self.changed:
                self.note(result, self._all(result))
            case ir.Load(result=result, access=access):
                reached = [integers.within(e, access.bindings) for e in _reached(access)]
                self.note(result, self.of_expressions(reached))
            case ir.Apply(results=results):
                self.note_all(results, self._applied(operation))
            case ir.For():
                trips = (operation.start, operation.stop, operation.step)
                bounds = self.of_expressions(integers.within(e, operation.bindings) for e in trips)
                self.note_all(operation.arguments, bounds | {var(self.rounds[operation])})
            case ir.While(condition=condition):
                self.note_all(operation.arguments, self.keys(condition) | {var(self.rounds[operation])})
            case ir.If(condition=condition):
                self.note_all(operation.results, self.keys(condition))

    def _applied(self, operation: ir.Apply) -> Keys:
        """Return the keys of what a primitive computes, in the lanes of its result."""
        primitive = operation.primitive
        if primitive.effect is Effect.UPDATES or (primitive.effect is Effect.READS and self._changes(operation)):
            return self._all(operation.results[0])
        if primitive.is_elementwise:
            return _NONE.union(*map(self.keys, operation.operands))
        found = _NONE
        for position, operand in enumerate(operation.operands):
            moved = moved_lanes(operation, position)
            gone = {lane.name for lane in operand.type.axes} - moved.keys()
            found |= {e.subs(moved) for e in self._without(self.keys(operand), gone)}
        own = (lane for lane in operation.results[0].type.axes if lane.axis not in operation.axes.free())
        return found if primitive.moves else found | _lanes(own)

    def _changes(self, operation: ir.Apply) -> bool:
        """Tell whether pointers are to a parameter that atomic functions change."""
        dtype = operation.operands[0].type.dtype
        return isinstance(dtype, PointerType) and dtype.parameter in self.changed

    def _all(self, value: ir.Value) -> Keys:
        """Return the keys of what is different wherever and whenever it is computed."""
        return frozenset((*map(var, self.programs), *map(var, self.rounds.values()), *_lanes(value.type.axes)))

    def _without(self, keys: Keys, gone: set[str]) -> Keys:
        """Return the keys of what depends on all numbers of some variables: what is left of keys without these."""
        found = (part for e in keys for part in _parts(e, gone))
        return frozenset(e for e in found if not all(map(self._is_size, e.variables)))


def _parts(e: Expr, gone: set[str]) -> Iterator[Expr]:
    """Yield the largest parts of an expression that are free of some variables: with these, they decide on it."""
    free = {monomial: c for monomial, c in e.terms if Expr(((monomial, c),)).variables.isdisjoint(gone)}
    yield build(free)
    for monomial in (monomial for monomial, _ in e.terms if monomial not in free):
        for atom in monomial:
            if of_atom(atom).variables.isdisjoint(gone):
                yield of_atom(atom)
            else:
                for operand in atom.operands:
                    yield from _parts(operand, gone)


def _is_lane_by_lane(operation: ir.Apply) -> bool:
    primitive = operation.primitive
    return primitive.is_elementwise and primitive.effect is Effect.NONE and len(operation.results) == 1


def _reached(access: ir.Access) -> tuple[Expr, ...]:
    """Return what decides on what an access reads: its place, and whether that is in bounds, and no overhang."""
    is_inside = math.prod((end for guard in access.guards for end in _ends(guard)), start=const(1))
    is_own = math.prod((_is_positive(edge.size - edge.index) for edge in access.edges), start=const(1))
    return (*access.indices, is_inside, is_own)


def _ends(guard: Guard) -> Iterator[Expr]:
    """Yield whether a guard holds, below and above: 0 or 1."""
    if guard.lower:
        yield _is_positive(guard.index + 1)
    if guard.upper:
        yield _is_positive(guard.size - guard.index)


def _is_positive(e: Expr) -> Expr:
    return maximum(minimum(e, 1), 0)


def _lanes(lanes: Iterable[ir.Lane]) -> Keys:
    return frozenset(var(lane.name) for lane in lanes if lane.count != 1)
