"""Walk through a program, and note each load and store with its place, the loops around it and what must hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.dtypes import PointerType
from ninetoothed.expr import Expr, Range, cdiv, const, is_nonnegative, var
from ninetoothed.language.primitive import Effect
from ninetoothed.races.integers import Integers
from ninetoothed.races.site import Site


@dataclass(frozen=True)
class Around:
    """The surroundings of an operation: its place in the order, what must hold, and loops.

    unknown: conditions of run time, and whether they must hold. in_rounds: those that each round of a loop asks anew.
    """

    order: tuple[Expr, ...] = ()
    guards: tuple[Guard, ...] = ()
    rounds: tuple[str, ...] = ()
    unknown: tuple[tuple[ir.Value, bool], ...] = ()
    in_rounds: tuple[ir.Value, ...] = ()

    def at(self, place: Expr) -> Around:
        """Go on to a place in the order."""
        return replace(self, order=(*self.order, place))

    def within(
        self,
        guards: tuple[Guard, ...] = (),
        rounds: tuple[str, ...] = (),
        unknown: tuple[tuple[ir.Value, bool], ...] = (),
    ) -> Around:
        """Go into a loop or a branch."""
        in_rounds = tuple(condition for condition, _ in unknown) if self.rounds else ()
        return Around(
            self.order, self.guards + guards, self.rounds + rounds, self.unknown + unknown, self.in_rounds + in_rounds
        )


@dataclass(eq=False)
class Walk:
    """Walk through a program, and keep what is found.

    rounds: the name of each loop's round, which counts from 0. ranges: theirs. counters: what decides how many there
    are. going: the condition of each `while`, by its round.
    """

    integers: Integers
    programs: tuple[str, ...]
    sites: list[Site] = field(default_factory=list)
    rounds: dict[ir.Operation, str] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    counters: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    going: dict[str, ir.Value] = field(default_factory=dict)

    @property
    def loaded(self) -> Mapping[str, ir.Value]:
        """The values that names of run time stand for."""
        return self.integers.loaded

    def block(self, body: ir.Block, around: Around) -> None:
        """Walk through a block."""
        for number, operation in enumerate(body):
            here = around.at(const(number))
            match operation:
                case ir.Load(access=access):
                    self._access(operation, access, None, here)
                case ir.Store(access=access, value=value):
                    self._access(operation, access, value, here)
                case ir.Apply() if operation.primitive.effect in (Effect.READS, Effect.WRITES):
                    self._pointed(operation, here)
                case ir.For():
                    self._for(operation, here)
                case ir.While():
                    self._while(operation, here)
                case ir.If(condition=condition):
                    for holds, branch in ((True, operation.then_body), (False, operation.else_body)):
                        guards = self.integers.guards(condition, holds)
                        unknown = ((condition, holds),) if guards is None else ()
                        self.block(branch, here.at(const(int(holds))).within(guards or (), unknown=unknown))

    def _for(self, loop: ir.For, around: Around) -> None:
        """Walk through the body of a loop, whose counter is `start + step * round`."""
        start, stop, step = (self.integers.within(e, loop.bindings) for e in (loop.start, loop.stop, loop.step))
        is_round = start == 0 and step == 1
        name = self.rounds[loop] = loop.variable if is_round else f"round.{len(self.rounds)}"
        is_down = step.is_constant and step.constant < 0
        length, width = (start - stop, -step) if is_down else (stop - start, step)
        depends = self._depends(start, stop, step)
        self.counters[name] = start, stop, step
        self.ranges[name] = Range(0, cdiv(length, width) - 1)
        if not is_round:
            self.integers.counters[loop.variable] = start + step * var(name)
        self.integers.carried.update({each.argument: (each, name) for each in loop.carried})
        guards = (Guard(width * var(name), length),) if depends else ()
        self.block(loop.body, around.at(var(name)).within(guards, (name,)))

    def _while(self, loop: ir.While, around: Around) -> None:
        """Walk through the body of a `while`, with what holds in each round, where that can be read."""
        name = self.rounds[loop] = f"round.{len(self.rounds)}"
        self.going[name] = loop.condition
        self.ranges[name] = Range(0)
        self.integers.carried.update({each.argument: (each, name) for each in loop.carried})
        guards = self._going(loop, name)
        unknown = ((loop.condition, True),) if guards is None else ()
        self.block(loop.body, around.at(var(name)).within(guards or (), (name,), unknown))

    def _going(self, loop: ir.While, name: str) -> tuple[Guard, ...] | None:
        """Return what holds in the rounds of a `while`; None where that cannot be read, or may end and begin again.

        A round is entered if the one before said so; the first, if the same held before the loop.
        """
        entered, after = (self.integers.guards(each[0], True) for each in (loop.initial, loop.yields))
        if entered is None or after is None or any(guard.upper for guard in after):
            return None
        guards = []
        for index in (guard.index - guard.size for guard in after):
            form = index.linear((name,))
            if form is None or not is_nonnegative(-form[0][name] - 1, self.integers.facts):
                return None
            slope, first = -form[0][name], form[1] - form[0][name]
            if not is_nonnegative(first, self.integers.facts) and first not in (e.index - e.size for e in entered):
                return None
            guards.append(Guard(first - slope * var(name), const(0), upper=False))
            self.ranges[name] = Range(0, first // slope)
            is_exact = len(after) == 1 and not self._depends(first, slope)
        return () if is_exact else tuple(guards)

    def _depends(self, *expressions: Expr) -> bool:
        """Tell whether numbers depend on the program, or on the rounds of loops around."""
        return any(each in self.programs or each in self.ranges for e in expressions for each in e.variables)

    def _access(self, operation: ir.Operation, access: ir.Access, value: ir.Value | None, around: Around) -> None:
        bindings = []
        for name, index in access.bindings:
            if any(guard.lower and guard.index == var(name) for guard in access.guards):
                index, around = self._in_bounds(index, around)
            bindings.append((name, index))

        def read(e: Expr) -> Expr:
            return self.integers.within(e, tuple(bindings))

        guards = tuple(guard.at(read) for guard in access.guards)
        place = tuple(map(read, access.indices))
        self._add(operation, access.parameter, access.type, place, value, around.within(guards))

    def _in_bounds(self, index: ir.Value, around: Around) -> tuple[ir.Value, Around]:
        """Follow an index that is negative unless a condition holds: so the frontend writes one that is masked."""
        match self.integers.producers.get(index):
            case ir.Apply(function="where", operands=(condition, chosen, other)):
                out = self.integers.expr_of(other)
                if out.is_constant and out.constant < 0:
                    guards = self.integers.guards(condition, True)
                    return chosen, around.within(guards or (), unknown=((condition, True),) if guards is None else ())
        return index, around

    def _pointed(self, operation: ir.Apply, around: Around) -> None:
        pointers, *rest = operation.operands
        assert isinstance(pointers.type.dtype, PointerType)
        value = rest.pop(0) if operation.primitive.effect is Effect.WRITES else None
        guards: tuple[Guard, ...] | None = self.integers.guards(rest[0], True) if rest else ()
        around = around.within(guards or (), unknown=((rest[0], True),) if guards is None else ())
        place = (self.integers.expr_of(pointers),)
        self._add(operation, pointers.type.dtype.parameter, pointers.type, place, value, around, True)

    def _add(
        self,
        operation: ir.Operation,
        parameter: str,
        type: ir.TileType,
        place: tuple[Expr, ...],
        value: ir.Value | None,
        around: Around,
        is_pointed: bool = False,
    ) -> None:
        lanes = tuple(lane for lane in type.axes if lane.count != 1)
        # What is read of the element itself keeps no two programs apart.
        is_certain = all((parameter, place) in self._read_by(condition) for condition, _ in around.unknown)
        site = Site(
            parameter, value, place, is_pointed, around.guards, around.rounds, lanes, around.order, is_certain,
            frozenset(around.unknown), around.in_rounds, operation.location,
        )  # fmt: skip
        self.sites.append(site)

    def _read_by(self, value: ir.Value) -> frozenset[tuple[str, tuple[Expr, ...]]]:
        """Return the parameters that are loaded to compute a value, and where."""
        found, pending, seen = set(), [value], set()
        while pending:
            operation = self.integers.producers.get(pending.pop())
            if operation is None or operation in seen:
                continue
            seen.add(operation)
            pending += ir.operands(operation)
            if isinstance(operation, ir.Load):
                access = operation.access
                found.add((access.parameter, tuple(self.integers.within(e, access.bindings) for e in access.indices)))
        return frozenset(found)

    def trips_of(self, site: Site) -> Iterator[Expr]:
        """Return what decides how often the loops around a site run, of those whose counter it does not mention."""
        for counter in site.rounds:
            if counter in self.counters and counter not in site.mentioned:
                yield from self.counters[counter]
