"""Pass: peel the last round off a loop where that round alone needs a mask.

    for k in range(cdiv(n, 64)):
        x = load(x_ptr + k * 64 + arange(64), mask=arange(64) < n - k * 64)
->  for k in range(n // 64):
        x = load(x_ptr + k * 64 + arange(64))
    for k in range(n // 64, cdiv(n, 64)):
        x = load(x_ptr + k * 64 + arange(64), mask=arange(64) < n - k * 64)

Such a mask takes memory apart into single elements. Where n is known to be whole vectors it does not, and what is
left of it, one comparison for each vector, costs less than a second loop. `trip_count` keeps that loop from being
pipelined.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard, unimplied
from ninetoothed.expr import Expr, Facts, divisor, minimum, offset, simplify, var
from ninetoothed.ir.lanes import with_lanes
from ninetoothed.ir.rewriter import access_at
from ninetoothed.passes.operations import is_dot, is_ordered
from ninetoothed.passes.trip_count import has_at_most, is_at_least

# More operations are not worth having twice, and fewer rounds not worth a loop of their own.
MOST_OPERATIONS = 64
FEWEST_ROUNDS = 4
VECTOR = 128  # bits


def peel(program: ir.Program, tma_tiles: Container[ir.Operation]) -> ir.Program:
    """Take loops apart where that spares masks, of which accesses by TMA have none."""
    peeler = _Peeler(program=program, tma_tiles=tma_tiles, facts=program.facts)
    body = peeler.block(program.body)
    return replace(program, body=body, facts=peeler.facts)


@dataclass(kw_only=True)
class _Peeler(ir.Rewriter):
    """Peels loops. facts: those of the program, and of the counters of new loops."""

    program: ir.Program
    tma_tiles: Container[ir.Operation]
    facts: Facts

    def operation(self, operation: ir.Operation) -> ir.Block:
        match operation:
            case ir.For(body=body) if not any(map(ir.blocks, body)):
                return self.loop(operation)
        return (self.rebuilt(operation),)

    def loop(self, loop: ir.For) -> tuple[ir.For, ...]:
        if _is_repeatable(loop) and not has_at_most(FEWEST_ROUNDS - 1, loop, self.facts):
            for limit in dict.fromkeys(self.limits(loop)):
                end = self.end(loop, limit)
                if end is not None:
                    return self.parts(loop, end)
        return (loop,)

    def parts(self, loop: ir.For, end: Expr) -> tuple[ir.For, ir.For]:
        """Take a loop apart into the rounds before `end`, without masks, and those from there on."""
        guarded = dict(self.guarded(loop))
        counter = _fresh(loop.variable, self.facts)
        self.facts = self.facts.bind(counter, loop.start, end - 1)
        first = _UnmaskedRounds(loop=loop, counter=counter, facts=self.facts, guarded=guarded).until(end)
        carried = ir.Carried.of(first.results, loop.arguments, loop.yields, loop.results)
        return first, replace(loop, start=end, carried=carried, hints=())

    def end(self, loop: ir.For, limit: Expr) -> Expr | None:
        """Find where the rounds end whose counter is less than `limit`; None where more than one may be left."""
        if not is_at_least(limit + 1, loop.stop, self.facts):
            return None
        end = limit if is_at_least(loop.stop, limit, self.facts) else minimum(limit, loop.stop)
        return end if is_at_least(end, loop.start, self.facts) else None

    def guarded(self, loop: ir.For) -> Iterator[tuple[ir.Operation, ir.Access]]:
        """Yield the accesses of a loop that may have masks, without guards that others imply."""
        for operation in loop.body:
            if isinstance(operation, ir.Load | ir.Store) and operation not in self.tma_tiles:
                access = operation.access
                guards = unimplied(access.guards, with_lanes(self.facts, access.lanes))
                yield operation, replace(access, guards=guards)

    def limits(self, loop: ir.For) -> Iterator[Expr]:
        """Yield the values of the counter from which on a costly guard can fail."""
        for _, access in self.guarded(loop):
            for guard in access.guards:
                limit = _limit(loop.variable, access, guard) if guard.upper else None
                if limit is not None and self.is_costly(loop, access, guard):
                    yield simplify(limit, self.facts)

    def is_costly(self, loop: ir.For, access: ir.Access, guard: Guard) -> bool:
        """Tell whether a guard tells elements apart that would be read together."""
        strides, bits = self.program.parameter(access.parameter).strides, access.type.dtype.bits
        is_aligned = all(divisor(stride, self.facts) * bits % VECTOR == 0 for stride in strides if stride != 1)
        if not is_aligned and bits >= 32 and any(map(is_dot, loop.body)):
            return False  # each element is copied ahead by itself, mask or not
        lanes = {lane.name: 0 for lane in access.lanes}
        linear = offset(access.indices, strides).linear(lanes)
        near = {name for name in lanes if linear is None or linear[0][name] == 1}
        remaining = (guard.size - guard.index).subs(lanes)
        return bool(near & guard.index.variables) and divisor(remaining, self.facts) * bits % VECTOR != 0


def _is_repeatable(loop: ir.For) -> bool:
    """Tell whether a loop may stand twice in the text: it is short, counts by one, and at most stores."""
    is_plain = all(
        isinstance(o, ir.Constant | ir.ScalarArgument | ir.Index | ir.Load | ir.Store)
        or (isinstance(o, ir.Apply) and o.results and not is_ordered(o))
        for o in loop.body
    )
    is_counted = not loop.bindings and loop.step == 1
    # A number of rounds that is known may be unrolled: masks are then known, too.
    is_open = not (loop.stop - loop.start).is_constant
    return is_plain and is_counted and is_open and len(loop.body) <= MOST_OPERATIONS


def _limit(counter: str, access: ir.Access, guard: Guard) -> Expr | None:
    """Find the counter from which on `index < size` fails in some lane; None where it may hold again."""
    lanes = {lane.name: lane.count - 1 for lane in access.lanes}
    linear = (guard.size - 1 - guard.index).linear((counter, *lanes))
    if linear is None or not all(coefficient.is_constant for coefficient in linear[0].values()):
        return None
    coefficients, remaining = linear
    if any(name in remaining.variables for name, _ in access.bindings):
        return None  # not known before the loop
    growth = -coefficients.pop(counter).constant
    taken = sum(min(coefficients[name].constant, 0) * last for name, last in lanes.items())
    return (remaining + taken) // growth + 1 if growth > 0 else None


def _fresh(counter: str, facts: Facts) -> str:
    """Name a counter after another: `k_03` after `k_1`. Names that tracing makes have no 0 there."""
    name = re.sub(r"_\d+$", "", counter)
    return next(new for number in itertools.count() if (new := f"{name}_0{number}") not in facts.ranges)


@dataclass(kw_only=True)
class _UnmaskedRounds(ir.Cloner):
    """Clones a loop for its first rounds, without the guards that hold in all of them.

    counter: that of the clone, whose range is among `facts`. guarded: the accesses of operations, without guards that
    others imply.
    """

    loop: ir.For
    counter: str
    facts: Facts
    guarded: dict[ir.Operation, ir.Access]

    def until(self, end: Expr) -> ir.For:
        """Return the rounds before `end`."""
        clone = self.rebuilt(self.loop)
        assert isinstance(clone, ir.For)
        return replace(clone, variable=self.counter, stop=end)

    def access(self, operation: ir.Load | ir.Store) -> ir.Access:
        access = self.guarded.get(operation, operation.access)
        facts = with_lanes(self.facts, access.lanes)
        moved = access_at(access, self.at)
        guards = tuple(guard for guard in moved.guards if not self.holds(guard, facts))
        return replace(moved, guards=guards, bindings=self.bindings(access.bindings))

    def holds(self, guard: Guard, facts: Facts) -> bool:
        """Tell whether a guard that depends on the counter is proved in all of these rounds."""
        return self.counter in guard.variables and guard.holds(facts)  # Without the counter it would not be there.

    def at(self, e: Expr) -> Expr:
        return e.subs({self.loop.variable: var(self.counter)})
