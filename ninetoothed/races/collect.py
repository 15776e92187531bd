"""List what an application touches of the parameters that it stores to, and ask what no proof answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.dtypes import PointerType
from ninetoothed.expr import Expr, Facts, Range, const, var
from ninetoothed.language.primitive import Effect
from ninetoothed.lowering import Guard
from ninetoothed.races.footprints import Footprints, TensorMemory
from ninetoothed.races.integers import Integers
from ninetoothed.races.question import Question
from ninetoothed.races.site import Site, Space
from ninetoothed.races.values import Values


def survey(
    body: ir.Block, memories: Mapping[str, TensorMemory], axes: Mapping[str, tuple[Expr, Expr]], facts: Facts
) -> Footprints:
    """List the sites of a program, and keep the questions that are left to the numbers of a call.

    axes: how many programs there are along each, and how many for the smallest blocks.
    """
    producers = {result: operation for operation in ir.walk(body) for result in ir.results(operation)}
    walked = _Walk(Integers(producers, facts), tuple(axes))
    walked.block(body, _Around())
    counts, smallest = ({axis: own[i] for axis, own in axes.items()} for i in (0, 1))
    names = _names(walked.sites)
    loaded = dict.fromkeys(walked.integers.loaded, ())
    space = Space(smallest, counts, _ranges(facts, walked, names), loaded, walked.integers.computed())
    waits = _waits(body, producers)
    orders = any(isinstance(each, ir.Apply) and each.primitive.effect is Effect.ORDERS for each in ir.walk(body))
    changed = _changed(body)
    questions: list[Question] = []
    values: Values | None = None
    for name in () if waits else dict.fromkeys(site.parameter for site in walked.sites if site.is_store):
        sites = tuple(site for site in walked.sites if site.parameter == name)
        placed = sites
        if any(site in walked.pointed for site in sites):
            placed = tuple(site if site in walked.pointed else memories[name].flat(site) for site in sites)
        if Question(name, placed, space, facts).left():
            if values is None:
                values = Values(walked.integers, walked.rounds, tuple(axes), changed)
                values.settle(body)
            keyed = (_with_keys(site, walked, values) for site in sites)
            placed = tuple(replace(site, place=at.place) for site, at in zip(keyed, placed, strict=True))
            question = Question(name, placed, replace(space, loaded=_loaded(walked, values)), facts)
            questions += [question] if question.left() else []
    return Footprints(
        tuple(questions),
        tuple(walked.sites),
        frozenset(walked.pointed),
        memories,
        changed,
        waits or orders,
        space,
        facts,
    )


def _changed(body: ir.Block) -> frozenset[str]:
    """Return the parameters that atomic functions change."""
    applied = (each for each in ir.walk(body) if isinstance(each, ir.Apply))
    types = (each.operands[0].type.dtype for each in applied if each.primitive.effect is Effect.UPDATES)
    return frozenset(type.parameter for type in types if isinstance(type, PointerType))


def _names(sites: Iterable[Site]) -> frozenset[str]:
    return frozenset().union(*(site.mentioned.union(*(key.variables for key in site.keys)) for site in sites))


def _ranges(facts: Facts, walked: _Walk, names: frozenset[str]) -> dict[str, Range]:
    """Return the ranges of counters, lanes and numbers of run time, those of counters first."""
    ranges = {name: facts.range_of(name) for name in walked.counters}
    ranges |= {lane.name: Range(0, lane.count - 1) for site in walked.sites for lane in site.lanes}
    ranges |= {name: facts.range_of(name) for name in sorted(names & walked.integers.loaded.keys())}
    return ranges


def _loaded(walked: _Walk, values: Values) -> dict[str, tuple[Expr, ...]]:
    return {name: _sorted(values.keys(value)) for name, value in walked.integers.loaded.items()}


def _sorted(keys: Iterable[Expr]) -> tuple[Expr, ...]:
    return tuple(sorted(keys, key=lambda e: e.text))


def _with_keys(site: Site, walked: _Walk, values: Values) -> Site:
    value = walked.stored.get(site)
    if value is None:
        return site
    tag, keys = values.formula(value, {each.parameter for each in walked.sites if each.is_store} | values.changed)
    trips = values.of_expressions(walked.trips_of(site))
    # How often a `while` goes round follows from what decides on its condition.
    trips = trips.union(*(values.keys(walked.going[name]) for name in site.rounds if name in walked.going))
    if not site.mentioned.issuperset(site.rounds):
        # Which round is the last that stores follows from the conditions, too.
        trips = trips.union(*(values.keys(condition) for condition in walked.in_rounds[site]))
    return replace(site, keys=(*keys, *_sorted(trips if keys else ())), tag=tag)


def _waits(body: ir.Block, producers: Mapping[ir.Value, ir.Operation]) -> bool:
    """Tell whether programs wait for each other: what an atomic function gives decides on a branch or a loop."""
    found = {
        result
        for operation in ir.walk(body)
        if isinstance(operation, ir.Apply) and operation.primitive.effect is Effect.UPDATES
        for result in operation.results
    }
    before = 0
    while found and before != len(found):
        before = len(found)
        for operation in ir.walk(body):
            if not found.isdisjoint(ir.operands(operation)):
                found.update(ir.results(operation))
                found.update(operation.arguments if isinstance(operation, ir.Loop) else ())
    return any(isinstance(operation, ir.If | ir.While) and operation.condition in found for operation in ir.walk(body))


@dataclass(frozen=True)
class _Around:
    """The surroundings of an operation: its place in the order, what must hold, and loops.

    unknown: conditions of run time, and whether they must hold. in_rounds: those that each round of a loop asks anew.
    """

    order: tuple[Expr, ...] = ()
    guards: tuple[Guard, ...] = ()
    rounds: tuple[str, ...] = ()
    unknown: tuple[tuple[ir.Value, bool], ...] = ()
    in_rounds: tuple[ir.Value, ...] = ()

    def at(self, place: Expr) -> _Around:
        return replace(self, order=(*self.order, place))

    def within(
        self,
        guards: tuple[Guard, ...] = (),
        rounds: tuple[str, ...] = (),
        unknown: tuple[tuple[ir.Value, bool], ...] = (),
    ) -> _Around:
        in_rounds = tuple(condition for condition, _ in unknown) if self.rounds else ()
        return _Around(
            self.order, self.guards + guards, self.rounds + rounds, self.unknown + unknown, self.in_rounds + in_rounds
        )


@dataclass(eq=False)
class _Walk:
    """Walk through a program, and keep what is found.

    stored: the values that sites store. pointed: the sites that pointers name. counters, rounds: those of loops.
    going: the condition of each `while`, by its round. in_rounds: those that a site's loops ask in each round.
    """

    integers: Integers
    programs: tuple[str, ...]
    sites: list[Site] = field(default_factory=list)
    stored: dict[Site, ir.Value] = field(default_factory=dict)
    pointed: set[Site] = field(default_factory=set)
    counters: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    rounds: dict[ir.Operation, str] = field(default_factory=dict)
    going: dict[str, ir.Value] = field(default_factory=dict)
    in_rounds: dict[Site, tuple[ir.Value, ...]] = field(default_factory=dict)

    def block(self, body: ir.Block, around: _Around) -> None:
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
                    self._rounds(operation, here)
                case ir.While(condition=condition):
                    self.rounds[operation] = name = f"round_{len(self.rounds)}"
                    self.going[name] = condition
                    self.block(operation.body, here.within(rounds=(name,), unknown=((condition, True),)))
                case ir.If(condition=condition):
                    for holds, branch in ((True, operation.then_body), (False, operation.else_body)):
                        guards = self.integers.guards(condition, holds)
                        unknown = ((condition, holds),) if guards is None else ()
                        self.block(branch, here.at(const(int(holds))).within(guards or (), unknown=unknown))

    def _rounds(self, loop: ir.For, around: _Around) -> None:
        """Walk through the body of a loop. Bounds that depend on other names than sizes are guards of the counter."""
        name = self.rounds[loop] = loop.variable
        start, stop, step = (self.integers.within(e, loop.bindings) for e in (loop.start, loop.stop, loop.step))
        self.counters[name] = start, stop, step
        is_down = step.is_constant and step.constant < 0
        low, high = (stop + 1, start + 1) if is_down else (start, stop)
        depends = any(each in self.programs or each in self.counters for e in (low, high) for each in e.variables)
        guards = (Guard(var(name) - low, high - low),) if depends else ()
        self.block(loop.body, around.at(-var(name) if is_down else var(name)).within(guards, (name,)))

    def _access(self, operation: ir.Operation, access: ir.Access, value: ir.Value | None, around: _Around) -> None:
        def read(e: Expr) -> Expr:
            return self.integers.within(e, access.bindings)

        guards = tuple(guard.at(read) for guard in access.guards)
        place = tuple(map(read, access.indices))
        self._add(operation, access.parameter, access.type, place, value, around.within(guards))

    def _pointed(self, operation: ir.Apply, around: _Around) -> None:
        pointers, *rest = operation.operands
        assert isinstance(pointers.type.dtype, PointerType)
        value = rest.pop(0) if operation.primitive.effect is Effect.WRITES else None
        place = self.integers.pointer(pointers)
        guards: tuple[Guard, ...] | None = self.integers.guards(rest[0], True) if rest else ()
        around = around.within(guards or (), unknown=((rest[0], True),) if guards is None else ())
        place = self.integers.name(pointers) if place is None else place
        site = self._add(operation, pointers.type.dtype.parameter, pointers.type, (place,), value, around)
        self.pointed.add(site)

    def _add(
        self,
        operation: ir.Operation,
        parameter: str,
        type: ir.TileType,
        place: tuple[Expr, ...],
        value: ir.Value | None,
        around: _Around,
    ) -> Site:
        lanes = tuple(ir.Lane.of(axis, count) for axis, count in enumerate(type.lanes) if count != 1)
        # What is read of the parameter itself keeps no two programs apart.
        is_certain = all(parameter in self._read_by(condition) for condition, _ in around.unknown)
        site = Site(
            parameter, value is not None, place, around.guards, around.rounds, lanes, around.order, is_certain,
            frozenset(around.unknown), operation.location,
        )  # fmt: skip
        self.sites.append(site)
        self.in_rounds[site] = around.in_rounds
        if value is not None:
            self.stored[site] = value
        return site

    def _read_by(self, value: ir.Value) -> frozenset[str]:
        """Return the parameters that are loaded to compute a value."""
        found, pending, seen = set(), [value], set()
        while pending:
            operation = self.integers.producers.get(pending.pop())
            if operation is None or operation in seen:
                continue
            seen.add(operation)
            pending += ir.operands(operation)
            if isinstance(operation, ir.Load):
                found.add(operation.access.parameter)
        return frozenset(found)

    def trips_of(self, site: Site) -> Iterator[Expr]:
        """Return what decides how often the loops around a site run, of those whose counter it does not mention."""
        for counter in site.rounds:
            if counter in self.counters and counter not in site.mentioned:
                yield from self.counters[counter]
