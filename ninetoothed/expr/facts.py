"""What is known of variables: ranges that may be symbolic, and values that they allow."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from types import MappingProxyType

from ninetoothed.expr.algebra import Expr, as_expr, var

_POOL, _SAMPLES = 64, 12  # draws that must not refute an inequality before a proof is tried


@dataclass(frozen=True)
class Range:
    """`lo <= x <= hi` (inclusive; `None`: unknown), and `x` is a multiple of `multiple_of`."""

    lo: Expr | int | None = None
    hi: Expr | int | None = None
    multiple_of: int = 1

    def __post_init__(self):
        object.__setattr__(self, "lo", None if self.lo is None else as_expr(self.lo))
        object.__setattr__(self, "hi", None if self.hi is None else as_expr(self.hi))

    @property
    def value(self) -> int | None:
        """The only value in the range, where there is just one."""
        one = self.lo is not None and self.lo.is_constant and self.lo == self.hi
        return self.lo.constant if one else None


@dataclass(frozen=True)
class Facts:
    """Ranges of variables, in the order in which they were bound, and expressions known to lie in a range."""

    ranges: Mapping[str, Range] = field(default_factory=dict)
    assumptions: tuple[tuple[Expr, Expr | None, Expr | None], ...] = ()
    parent: "Facts | None" = field(default=None, compare=False, repr=False)  # these facts, less the last assumption

    def __post_init__(self):
        object.__setattr__(self, "ranges", MappingProxyType(dict(self.ranges)))

    def __hash__(self):
        return hash((tuple(self.ranges.items()), self.assumptions))

    def __reduce__(self):
        return Facts, (dict(self.ranges), self.assumptions)

    def bind(self, name: str, lo=None, hi=None, multiple_of: int = 1) -> "Facts":
        ranges = {key: value for key, value in self.ranges.items() if key != name}
        return Facts({**ranges, name: Range(lo, hi, multiple_of)}, self.assumptions)

    def assume(self, expression, lo=None, hi=None) -> "Facts":
        lo, hi = (None if bound is None else as_expr(bound) for bound in (lo, hi))
        return Facts(self.ranges, (*self.assumptions, (as_expr(expression), lo, hi)), self)

    def range_of(self, name: str) -> Range:
        return self.ranges.get(name, _UNKNOWN)

    @cached_property
    def assumed(self) -> Mapping[Expr, tuple[tuple[Expr | None, Expr | None], ...]]:
        """`{e: ((lo, hi), ...)}` of the assumptions, constants moved from `e` to the bounds."""
        found: dict[Expr, tuple[tuple[Expr | None, Expr | None], ...]] = {}
        for known, lo, hi in self.assumptions:
            c = known.constant_term
            bound = (None if lo is None else lo - c, None if hi is None else hi - c)
            found[known - c] = (*found.get(known - c, ()), bound)
        return found

    @cached_property
    def bare(self) -> "Facts":
        """The ranges alone."""
        return (self.parent.bare if self.parent else Facts(self.ranges)) if self.assumptions else self

    @cached_property
    def pool(self) -> tuple[Mapping[str, int], ...]:
        """Some values of the variables for which all the facts hold."""
        if self.assumptions:
            known = self.assumptions[-1:] if self.parent else self.assumptions
            return tuple(values for values in (self.parent or self.bare).pool if _allows(known, values))
        random = Random(0)
        drawn = (_draw(self, random) for _ in range(4 * _POOL))
        return tuple(itertools.islice((values for values in drawn if values is not None), _POOL))

    @cached_property
    def samples(self) -> tuple[Mapping[str, int], ...]:
        return self.pool[:_SAMPLES]

    @cached_property
    def scaled(self) -> "tuple[Mapping[str, Expr], Facts]":
        """`m * x'` for each `x` that is a multiple of `m`, and the facts of `x'`."""
        return _scaled(self)


_UNKNOWN = Range()


def _draw(facts: Facts, random: Random) -> dict[str, int] | None:
    """Values within the ranges, the ends often, or None where they leave nothing to choose."""
    values: dict[str, int] = {}
    typical = random.choice((1, 3, 8, 40))

    def end(bound):
        for name in bound.variables:
            if name not in values:
                values[name] = random.randint(1, typical)
        return bound.positively(values)

    try:
        for name, known in facts.ranges.items():
            m = known.multiple_of
            low, high = (None if bound is None else end(bound) for bound in (known.lo, known.hi))
            if low is None:
                low = (high if high is not None else 0) - typical * m
            high = low + typical * m if high is None else high
            low, high = -(-low // m), high // m
            if low > high:
                return None
            # Ends refute most, but a size of 0, the end of an open range, leaves no index to draw.
            ends = 0.1 if known.lo is None or known.hi is None else 0.6
            values[name] = m * (
                random.choice((low, low, high)) if random.random() < ends else random.randint(low, high)
            )
    except ZeroDivisionError:
        return None
    return values


def _allows(assumptions, values: Mapping[str, int]) -> bool:
    try:
        for known, lo, hi in assumptions:
            value = _at(known, values)
            if (lo is not None and value < _at(lo, values)) or (hi is not None and value > _at(hi, values)):
                return False
    except ZeroDivisionError:
        return False
    return True


def _at(e: Expr, values: Mapping[str, int]) -> int:
    """A name of which nothing is known may as well be 1."""
    return e.positively(values if e.variables <= values.keys() else dict.fromkeys(e.variables, 1) | dict(values))


def refuted(e: Expr, facts: Facts) -> bool:
    for values in facts.samples:
        try:
            if _at(e, values) < 0:
                return True
        except ZeroDivisionError:
            continue
    return False


def _scaled(facts: Facts) -> tuple[Mapping[str, Expr], Facts]:
    multiples = {name: known.multiple_of for name, known in facts.ranges.items() if known.multiple_of > 1}
    if not multiples:
        return {}, facts
    # What divides then shows in the canonical form.
    values = {name: var(f"{name}'") * m for name, m in multiples.items()}

    def convert(bound):
        return None if bound is None else bound.subs(values)

    ranges = {}
    for name, known in facts.ranges.items():
        m = known.multiple_of
        lo, hi = convert(known.lo), convert(known.hi)
        if m > 1:
            name = f"{name}'"
            lo, hi = None if lo is None else (lo + (m - 1)) // m, None if hi is None else hi // m
        ranges[name] = Range(lo, hi)
    assumptions = tuple((known.subs(values), convert(lo), convert(hi)) for known, lo, hi in facts.assumptions)
    scaled = Facts(ranges, assumptions)
    scaled.__dict__["pool"] = tuple(
        {f"{name}'" if name in multiples else name: x // multiples.get(name, 1) for name, x in values.items()}
        for values in facts.pool
    )
    return values, scaled
