"""Pass: in a loop over two products, compute the second of each round in the round after it.

    for j in range(n):                                    scores = dot(query, key[0])
        scores = dot(query, key[j])                       peak, weights = f(scores, peak)
        peak, weights = f(scores, peak)                   total = g(total, peak)
        total = g(total, peak)                     ->     for j in range(1, n):
        total = total + dot(weights, value[j])                scores = dot(query, key[j])
                                                              total = total + dot(weights, value[j - 1])
                                                              peak, weights = f(scores, peak)
                                                              total = g(total, peak)
                                                          total = total + dot(weights, value[n - 1])

No product waits for the other of its round then, and where products run on by themselves, f is computed meanwhile.
Several loops, each of which goes on where the one before has stopped, are one such loop with several forms of f.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ninetoothed import ir
from ninetoothed.expr import Expr, maximum, var
from ninetoothed.passes.operations import compared
from ninetoothed.passes.product_rounds import Round, rounds_of

_Values = tuple[ir.Value, ...]


def overlap(program: ir.Program) -> ir.Program | None:
    """Return the program with its loops over two products rewritten; None where there are none, or others too."""
    found = rounds_of(program)
    if not found:
        return None
    loops = [each.loop for each in found]
    position = program.body.index(loops[0])
    end = program.body.index(loops[-1])
    # What stands between loops reads nothing of theirs.
    between = (operation for operation in program.body[position:end] if operation not in loops)
    before, after = (*program.body[:position], *between), program.body[end + 1 :]
    return replace(program, body=(*before, *_Overlapped(found).block(), *after))


@dataclass(kw_only=True)
class _At(ir.Cloner):
    """Clones a part of a round for another value of its counter. bounds: what stands in bounds of loops."""

    counters: Mapping[str, Expr]
    bounds: ir.Bindings = ()

    def at(self, e: Expr) -> Expr:
        return e.subs(self.counters)

    def operation(self, operation: ir.Operation) -> ir.Block:
        (new,) = super().operation(operation)
        match new:
            case ir.Index(expr=e):
                return (replace(new, bindings=self._bound(new.bindings, e)),)
            case ir.Load(access=access):
                bindings = self._bound(access.bindings, *access.expressions)
                return (replace(new, access=replace(access, bindings=bindings)),)
        return (new,)

    def _bound(self, bindings: ir.Bindings, *expressions: Expr) -> ir.Bindings:
        """Add what has come into expressions with the number of a round."""
        names = frozenset[str]().union(*(e.variables for e in expressions))
        return tuple(dict.fromkeys((*bindings, *(each for each in self.bounds if each[0] in names))))


@dataclass(frozen=True)
class _State:
    """The values that one round leaves for the next: the scaled total, the weights, and all else that is carried."""

    others: _Values
    scaled: ir.Value
    weights: ir.Value

    @property
    def values(self) -> _Values:
        return (*self.others, self.scaled, self.weights)

    @classmethod
    def of(cls, values: _Values) -> _State:
        return cls(values[:-2], *values[-2:])

    def like(self) -> _State:
        """Return new values of the same types."""
        return _State.of(tuple(ir.Value(value.type, value.hint) for value in self.values))


@dataclass(frozen=True)
class _Overlapped:
    """Builds the operations in place of loops that follow each other. rounds: those of each loop."""

    rounds: tuple[Round, ...]

    @property
    def start(self) -> Expr:
        return self.rounds[0].loop.start

    @property
    def bounds(self) -> ir.Bindings:
        return tuple(dict.fromkeys(bound for each in self.rounds for bound in each.loop.bindings))

    def _at(self, counters: Mapping[str, Expr], values: Mapping[ir.Value, ir.Value] = MappingProxyType({})) -> _At:
        return _At(counters=counters, values=dict(values), bounds=self.bounds)

    def block(self) -> ir.Block:
        """Compute the results of the last loop; without any round, they are the initial values of the first."""
        stop, last = self.rounds[-1].loop.stop, self.rounds[-1]
        block: list[ir.Operation] = []
        state = self._first(block)
        for each in self.rounds:
            state = self._loop(each, state, block)
        total = self._added(last, state.weights, state.scaled, _counters(last.loop, stop - 1), block)
        yields = (*state.others[: last.total], total, *state.others[last.total :])
        has_any, condition = compared("lt", self.start, stop, self.bounds)
        outcomes = ir.Outcome.of(yields, self.rounds[0].loop.initial, last.loop.results)
        return (*condition, ir.If(has_any, tuple(block), outcomes=outcomes))

    def _first(self, block: list[ir.Operation]) -> _State:
        """Compute the first round, but for its second product, as the first loop with a round does."""
        last = self.rounds[-1]
        first = self._at(_counters(last.loop, self.start))
        block += first.block(last.first)
        scores = first.value(last.scores)
        initial = self.rounds[0].loop.initial
        return self._branches(self.rounds, scores, initial, block)

    def _branches(
        self, rounds: Sequence[Round], scores: ir.Value, initial: _Values, block: list[ir.Operation]
    ) -> _State:
        """Branch by which of several loops has the first round."""
        own, *others = rounds
        if not others:
            first = self._at(_counters(own.loop, self.start))
            return _middle(own, scores, initial, initial[own.total], first, block)
        then_body: list[ir.Operation] = []
        else_body: list[ir.Operation] = []
        then = self._branches((own,), scores, initial, then_body)
        other = self._branches(others, scores, initial, else_body)
        results = then.like()
        is_own, condition = compared("lt", self.start, own.loop.stop, self.bounds)
        outcomes = ir.Outcome.of(then.values, other.values, results.values)
        block += (*condition, ir.If(is_own, tuple(then_body), tuple(else_body), outcomes))
        return results

    def _loop(self, own: Round, state: _State, block: list[ir.Operation]) -> _State:
        """Compute the rounds of a loop, but for the very first."""
        loop, carried, results = own.loop, state.like(), state.like()
        body: list[ir.Operation] = []
        here = self._at({})
        body += here.block(own.first)
        total = self._added(own, carried.weights, carried.scaled, _counters(loop, var(loop.variable) - 1), body)
        arguments = (*carried.others[: own.total], total, *carried.others[own.total :])
        end = _middle(own, here.value(own.scores), arguments, total, self._at({}), body)
        start = self.start + 1 if own is self.rounds[0] else maximum(loop.start, self.start + 1)
        rows = ir.Carried.of(state.values, carried.values, end.values, results.values)
        block.append(replace(loop, carried=rows, body=tuple(body), start=start, bindings=self.bounds))
        return results

    def _added(
        self,
        own: Round,
        weights: ir.Value,
        scaled: ir.Value,
        counters: Mapping[str, Expr],
        block: list[ir.Operation],
    ) -> ir.Value:
        """Add the second product of a round, whose number is in `counters`, to the scaled total."""
        there = self._at(counters, {own.weights: weights, own.scaled: scaled})
        block += there.block(own.second)
        return there.value(own.sum)


def _counters(loop: ir.For, number: Expr) -> dict[str, Expr]:
    """Return all that counts the rounds of a loop, as it is in one of them: of a nest there is more than its number."""
    there = {loop.variable: number}
    return there | {name: place.subs(there) for name, place in loop.counters}


def _middle(
    own: Round,
    scores: ir.Value,
    arguments: _Values,
    total: ir.Value,
    here: _At,
    block: list[ir.Operation],
) -> _State:
    """Compute what lies between the products of a round, and what is made of the total before the second is added."""
    here.values |= dict(zip(own.loop.arguments, arguments, strict=True))
    here.values |= {own.scores: scores, own.loop.arguments[own.total]: total}
    block += (*here.block(own.middle), *here.block(own.scaling))
    others = tuple(map(here.value, own.without_total(own.loop.yields)))
    return _State(others, here.value(own.scaled), here.value(own.weights))
