"""Find races: stores of different values by several programs to one place. (Tiles that overlap: see `overlaps`.)

    arrangement  x.tile((8,)), y.tile((1,)).expand((n,))     n programs share the one element of y
    y = ntl.sum(x)                                           refused: the value depends on the program
    y = y + ntl.sum(x)                                       refused, too: what the others stored is lost
    y = ntl.full((1,), 3, ntl.float32)                       one value, stored by all: runs
    ntl.atomic_add(y.source.data_ptr() + ..., ntl.sum(x))    runs

The dependence of each value on program indices and on loaded parameters is followed through the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ninetoothed import ir
from ninetoothed.definition import KernelParameter
from ninetoothed.dtypes import PointerType
from ninetoothed.expr import Expr, Facts, as_expr, maximum, simplify, var
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.overlaps import may_overlap, overlaps
from ninetoothed.language.primitive import Effect

Names = frozenset[str]
_NOTHING: Names = frozenset()


def races(context: TraceContext, body: ir.Block) -> tuple[ir.Requirement, ...]:
    """Require one program along the axes of the grid on which a store's value depends, and its place does not."""
    stores: dict[str, list[tuple[ir.Store, tuple[ir.Value, ...]]]] = {}
    for store, conditions in _stores(body):
        stores.setdefault(store.access.parameter, []).append((store, conditions))
    found: list[ir.Requirement | None] = []
    for parameter in context.definition.parameters:
        own = stores.get(parameter.name, [])
        is_shared = _has_common_elements(parameter) or any(_may_be_shared(store, context) for store, _ in own)
        has_overlaps = bool(own) and may_overlap(context, parameter)
        if own and (is_shared or has_overlaps):
            axes = _Axes.of(context, parameter)
            known = _Dependence.of(body, axes)
            producers = {result: operation for operation in ir.walk(body) for result in ir.results(operation)}
            for store, conditions in own:
                # A condition that differs between programs may select one, unless it depends on what they store.
                chosen = (known.values[condition] for condition in conditions)
                selected = _NOTHING.union(*(names for names in chosen if _loaded(parameter.name) not in names))
                found.append(_race(parameter, store, known, selected, axes.sizes))
                if has_overlaps:
                    programs = frozenset(_deciding(parameter, known.values[store.value], context.axes, selected))
                    found += overlaps(context, store, producers, programs, selected)
    return tuple(requirement for requirement in found if requirement is not None)


def _may_be_shared(store: ir.Store, context: TraceContext) -> bool:
    """Tell whether a store's place may be the same for several programs: that of `y.source[0] = ...` is."""
    mentioned = {name for e in store.access.indices for name in e.variables}
    sizes = zip(context.axes, context.grid, strict=True)
    return any(axis not in mentioned and size != 1 for axis, size in sizes)


def _deciding(parameter: KernelParameter, value: Names, axes: Iterable[str], selected: Names) -> list[str]:
    """Return the axes on which a value that is stored depends, but for those by which one program is selected."""
    return [axis for axis in axes if axis not in selected and (axis in value or _loaded(parameter.name) in value)]


def _has_common_elements(parameter: KernelParameter) -> bool:
    """Tell whether programs may share elements of a parameter by its arrangement."""
    steps = parameter.arrangement.steps
    expands = any(step.operation == "expand" and not step.level and step.arguments[0] for step in steps)
    return expands or not parameter.outermost


@dataclass(frozen=True)
class _Axes:
    """The axes along which programs are counted; the dimensions of a flattened one are axes of their own.

    sizes: how many programs there are along each, whatever the blocks are: no choice of them makes a race legal.
    parts: for each flattened index, the expression over the indices that it is made of.
    """

    sizes: dict[str, Expr]
    parts: dict[str, Expr]
    facts: Facts

    @classmethod
    def of(cls, context: TraceContext, parameter: KernelParameter) -> _Axes:
        """Take the axes of the grid apart as a parameter flattened them."""
        blocks = dict.fromkeys(context.definition.meta_symbols, 1)
        outermost = () if context.launching is None else context.definition.parameters[context.launching].outermost
        sizes, parts, facts = dict(zip(context.axes, map(as_expr, outermost), strict=True)), {}, context.facts
        steps = [step for step in parameter.arrangement.steps if not step.level]
        if steps and steps[-1].operation == "flatten" and context.specialisation.shared_grid:
            start, end = steps[-1].arguments
            axis, whole = context.axes[start], as_expr(0)
            del sizes[axis]
            for dim, size in enumerate(steps[-1].shape[start:end]):
                part = f"{axis}_{dim}"
                sizes[part], facts = as_expr(size), facts.bind(part, 0, context.number(size) - 1)
                whole = whole * context.number(size) + var(part)
            parts[axis] = whole
        return cls({axis: size.subs(blocks) for axis, size in sizes.items()}, parts, facts)

    def within(self, expressions: Iterable[Expr]) -> Names:
        """Return the variables of expressions, flattened indices taken apart."""
        taken = (simplify(e.subs(self.parts), self.facts) if self.parts else e for e in expressions)
        return _NOTHING.union(*(e.variables for e in taken))


def _race(
    parameter: KernelParameter, store: ir.Store, known: _Dependence, selected: Names, sizes: dict[str, Expr]
) -> ir.Requirement | None:
    """Return the requirement that only one program stores; None where all store one value, or each elsewhere."""
    value = known.values[store.value]
    axes = _deciding(parameter, value, sizes, selected | known.of_access(store.access))
    programs = maximum(math.prod((sizes[axis] for axis in axes), start=as_expr(1)), 1)
    if programs == 1:
        return None
    reasons = {
        "the program": not value.isdisjoint(axes),
        f"{parameter.name!r} itself": _loaded(parameter.name) in value,
    }
    depends = " and on ".join(reason for reason, holds in reasons.items() if holds)
    how = "is expanded over several programs (`expand`)"
    if not _has_common_elements(parameter):
        how = "has one place that this line means in several programs"
    elif not parameter.outermost:
        how = "is one element for all programs"
    message = (
        f"parameter {parameter.name!r} {how}, which all store to the same elements, and what they store depends on"
        f" {depends}: the programs race; use an atomic, such as"
        f" `ntl.atomic_add({parameter.name}, value)`, or a tile that covers the axis, so that one program does it all,"
        " or give each program an element of its own"
    )
    return ir.Requirement(programs, as_expr(1), message, store.location, racing="programs")


def _stores(block: ir.Block, conditions: tuple[ir.Value, ...] = ()) -> Iterator[tuple[ir.Store, tuple[ir.Value, ...]]]:
    """Return the stores of a block, each with the conditions under which it runs."""
    for operation in block:
        own = conditions
        match operation:
            case ir.Store():
                yield operation, conditions
            case ir.If(condition=condition) | ir.While(condition=condition):
                own = (*conditions, condition)
        for nested in ir.blocks(operation):
            yield from _stores(nested, own)


def _loaded(parameter: str) -> str:
    return f"elements of {parameter}"


@dataclass
class _Dependence:
    """The names that each value depends on: program axes, and what was loaded (see `_loaded`)."""

    axes: _Axes
    values: dict[ir.Value, Names] = field(default_factory=dict)
    counters: dict[str, Names] = field(default_factory=dict)

    @classmethod
    def of(cls, body: ir.Block, axes: _Axes) -> _Dependence:
        """Follow a program to a fixed point: loop-carried variables bring dependences back."""
        known, before = cls(axes), -1
        while before != (count := sum(map(len, (*known.values.values(), *known.counters.values())))):
            before = count
            for operation in ir.walk(body):
                known.follow(operation)
        return known

    def of_access(self, access: ir.Access) -> Names:
        """Return the variables on which the place of an access depends."""
        guarded = (e for guard in access.guards for e in (guard.index, guard.size))
        return self.of_expressions((*access.indices, *guarded), access.bindings)

    def of_expressions(self, expressions: Iterable[Expr], bindings: ir.Bindings) -> Names:
        """Return the variables of expressions, and those that their bindings depend on."""
        names = self.axes.within(expressions)
        bound = [self.values.get(value, _NOTHING) for name, value in bindings if name in names]
        counted = [self.counters[name] for name in names & self.counters.keys()]
        return (names & self.axes.sizes.keys()).union(*bound, *counted)

    def join(self, targets: Iterable[ir.Value], *sources: Names) -> None:
        """Add dependences to values."""
        for target in targets:
            self.values[target] = self.values.get(target, _NOTHING).union(*sources)

    def follow(self, operation: ir.Operation) -> None:
        """Add what an operation's results depend on, and what the blocks in it see."""
        self.join(ir.results(operation), *(self.values.get(value, _NOTHING) for value in ir.operands(operation)))
        match operation:
            case ir.Index(result=result):
                self.join((result,), self.of_expressions((operation.expr,), operation.bindings))
            case ir.Load(result=result, access=access):
                self.join((result,), self.of_access(access), frozenset({_loaded(access.parameter)}))
            case ir.Apply():
                self.join(operation.results, self._of_memory(operation))
            case ir.For():
                bounds = self.of_expressions((operation.start, operation.stop, operation.step), operation.bindings)
                self.counters[operation.variable] = self.counters.get(operation.variable, _NOTHING) | bounds
                self._follow_loop_carried(operation, bounds)
            case ir.While():
                self._follow_loop_carried(operation, self.values.get(operation.condition, _NOTHING))

    def _follow_loop_carried(self, loop: ir.For | ir.While, rounds: Names) -> None:
        """Let loop-carried variables depend on their initial values, on the last round and on the trip count."""
        variables = zip(loop.initial, loop.arguments, loop.yields, loop.results, strict=True)
        for initial, argument, yielded, result in variables:
            sources = (self.values.get(each, _NOTHING) for each in (initial, yielded))
            self.join((argument,), *sources)
            self.values[result] = self.values[argument] | rounds

    def _of_memory(self, operation: ir.Apply) -> Names:
        """Follow reads through pointers; the result of an atomic depends on the programs that came before."""
        effect = operation.primitive.effect
        if effect is Effect.UPDATES:
            return frozenset(self.axes.sizes)
        pointers = (v.type.dtype for v in operation.operands if isinstance(v.type.dtype, PointerType))
        return frozenset(_loaded(pointer.parameter) for pointer in pointers if effect is Effect.READS)
