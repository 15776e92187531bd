"""Pass: count through two nested loops with one, whose pipeline does not run empty after each round of the outer one.

    for i in range(first, stop):                          for step in range((stop - first) * 8):
        for head in range(8):                        ->       i, head = first + step // 8, step % 8
            total = total + dot(a[head, i], b)                total = total + dot(a[head, i], b)

One loop takes fewer registers than two, as well.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.expr import Facts, bounds, const, var
from ninetoothed.passes.operations import is_dot

GREATEST = 2**31 - 1


def flatten(program: ir.Program) -> ir.Program:
    """Put one loop in place of two where the inner one is pipelined: it multiplies tiles that it loads."""
    flattener = _NestFlattener(facts=program.facts)
    body = flattener.block(program.body)
    return replace(program, body=body, facts=flattener.facts)


@dataclass(kw_only=True)
class _NestFlattener(ir.Rewriter):
    """Flattens loops. facts: those of the program, and of the counters of new loops."""

    facts: Facts

    def operation(self, operation: ir.Operation) -> ir.Block:
        match operation:
            case ir.For(body=(ir.For() as inner,)) if _is_nest(operation, inner) and self.is_short(operation, inner):
                return (self.flat(operation, inner),)
        return (self.rebuilt(operation),)

    def is_short(self, outer: ir.For, inner: ir.For) -> bool:
        """Tell whether 32 bits hold the number of all rounds, however large the sizes of tensors are."""
        facts = self.facts
        for name, known in facts.ranges.items():
            facts = facts if known.hi is not None else facts.bind(name, known.lo, GREATEST, known.multiple_of)
        ends = (bounds(end * (inner.stop - inner.start), facts) for end in (outer.start, outer.stop))
        return all(low is not None and high is not None and -GREATEST <= low <= high <= GREATEST for low, high in ends)

    def flat(self, outer: ir.For, inner: ir.For) -> ir.For:
        """Return one loop for two."""
        name = next(new for number in itertools.count() if (new := f"step_0{number}") not in self.facts.ranges)
        rounds, step = inner.stop - inner.start, var(name)
        stop = (outer.stop - outer.start) * rounds
        self.facts = self.facts.bind(name, 0, stop - 1)
        places = outer.start + step // rounds, inner.start + step % rounds
        counters = tuple(zip((outer.variable, inner.variable), places, strict=True))
        before = {each.argument: each.initial for each in outer.carried}
        after = {each.yielded: each.result for each in outer.carried}
        carried = tuple(replace(c, initial=before[c.initial], result=after[c.result]) for c in inner.carried)
        return replace(inner, variable=name, start=const(0), stop=stop, counters=counters, carried=carried)


def _is_nest(outer: ir.For, inner: ir.For) -> bool:
    """Tell whether all that a loop does is another one, of a known number of rounds, that goes on where it ended."""
    after = {each.argument: each.yielded for each in outer.carried}
    goes_on = len(inner.carried) == len(after) and all(after.get(c.initial) is c.result for c in inner.carried)
    rounds, loads = inner.stop - inner.start, (isinstance(each, ir.Load) for each in inner.body)
    is_pipelined = any(map(is_dot, inner.body)) and any(loads) and not any(map(ir.blocks, inner.body))
    return (
        _is_plain(outer)
        and _is_plain(inner)
        and goes_on
        and is_pipelined
        and rounds.is_constant
        and rounds.constant > 1
    )


def _is_plain(loop: ir.For) -> bool:
    return loop.step == 1 and not (loop.hints or loop.bindings or loop.merge)
