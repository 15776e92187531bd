"""Facts about variables: ranges that may be symbolic, and expressions known to lie in a range."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from ninetoothed.expr.algebra import Expr, ExprLike, as_expr, var
from ninetoothed.expr.atoms import Atom, Var
from ninetoothed.expr.ranges import Bound, Range
from ninetoothed.expr.samples import DRAWS, Samples

_ENOUGH = 12  # draws that must not refute an inequality before a proof is tried


Assumption = tuple[Expr, Expr | None, Expr | None]


@dataclass(frozen=True)
class Facts:
    """Ranges of variables, in the order in which they were bound, and expressions known to lie in a range.

    The same step from the same facts leads to the same object, which remembers what was proved.

    bare: the facts with these ranges and no assumptions; None for those themselves.
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    bare: "Facts | None" = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.ranges, MappingProxyType):
            object.__setattr__(self, "ranges", MappingProxyType(dict(self.ranges)))

    def __hash__(self) -> int:
        return hash((tuple(self.ranges.items()), self.assumptions))

    def __reduce__(self) -> "tuple[type[Facts], tuple[dict[str, Range], tuple[Assumption, ...]]]":
        return Facts, (dict(self.ranges), self.assumptions)

    def bind(self, name: str, lo: Bound = None, hi: Bound = None, multiple_of: int = 1) -> "Facts":
        """Add a variable, or replace its range."""
        known = Range(lo, hi, multiple_of)
        if self.ranges.get(name) == known:
            return self
        if (name, known) not in self._next:
            ranges = {key: value for key, value in self.ranges.items() if key != name}
            bare = None if self.bare is None else self.bare.bind(name, lo, hi, multiple_of)
            self._next[name, known] = Facts({**ranges, name: known}, self.assumptions, bare)
        return self._next[name, known]

    def assume(self, expression: ExprLike, lo: Bound = None, hi: Bound = None) -> "Facts":
        """Add that `lo <= expression <= hi`."""
        known = as_expr(expression), None if lo is None else as_expr(lo), None if hi is None else as_expr(hi)
        if self._knows(*known):
            return self
        if known not in self._next:
            kept = tuple(other for other in self.assumptions if not _is_implied(other, known))
            self._next[known] = Facts(self.ranges, (*kept, known), self.bare or self)
        return self._next[known]

    def _knows(self, e: Expr, lo: Expr | None, hi: Expr | None) -> bool:
        atom = e.sole_atom
        known = self.ranges.get(atom.name) if isinstance(atom, Var) else None
        as_bound = known is not None and lo in (None, known.lo) and hi in (None, known.hi)
        return as_bound or (e, lo, hi) in self.assumptions

    def range_of(self, name: str) -> Range:
        """Return the range of a variable; unbounded if it is not known."""
        return self.ranges.get(name, _UNKNOWN)

    @cached_property
    def _next(self) -> dict[tuple[str, Range] | Assumption, "Facts"]:
        return {}

    @cached_property
    def proofs(self) -> dict[Expr, bool]:
        """The outcomes of proofs that an expression is at least 0; for `is_nonnegative` alone."""
        return {}

    @cached_property
    def intervals(self) -> dict[Atom, tuple[int | None, int | None]]:
        """The constant bounds of quotients, remainders, minima and maxima, for `bounds` alone."""
        return {}

    @cached_property
    def simplified(self) -> dict[Expr, Expr]:
        """The results of `simplify`, for it alone."""
        return {}

    @cached_property
    def assumed(self) -> Mapping[Expr, list[tuple[Expr | None, Expr | None]]]:
        """`{e: [(lo, hi), ...]}` of the assumptions, constants moved from `e` to the bounds."""
        found: dict[Expr, list[tuple[Expr | None, Expr | None]]] = {}
        for known, lo, hi in self.assumptions:
            c = known.constant_term
            found.setdefault(known - c, []).append((None if lo is None else lo - c, None if hi is None else hi - c))
        return found

    @cached_property
    def slacks(self) -> tuple[Expr, ...]:
        """The assumptions as expressions that are at least 0."""
        return tuple(slack for assumption in self.assumptions for slack in _slacks(assumption))

    @cached_property
    def samples(self) -> Samples:
        """Values of the variables within their ranges."""
        return Samples(self.ranges) if self.bare is None else self.bare.samples

    @cached_property
    def draws(self) -> tuple[int, ...]:
        """The indices of the samples that the assumptions allow."""
        allowed = tuple(range(DRAWS))
        for slack in self.slacks:
            values = self.samples.values(slack, allowed)
            allowed = tuple(i for i, value in zip(allowed, values, strict=True) if value >= 0)
        return allowed

    @cached_property
    def scaled(self) -> "tuple[Mapping[str, Expr], Facts]":
        """`m * x'` for each `x` that is a multiple of `m`, and the facts of `x'`."""
        return _scaled(self)


_UNKNOWN = Range()


def _slacks(assumption: Assumption) -> Iterator[Expr]:
    """Yield an assumption as expressions that are at least 0."""
    e, low, high = assumption
    if low is not None:
        yield e - low
    if high is not None:
        yield high - e


def _is_implied(other: Assumption, known: Assumption) -> bool:
    """Tell whether an assumption follows from another by a number: n - 1 >= 0 from n - 2 >= 0.

    Steps one after another, such as padding, assume ever more of one index.
    """
    differences = [[slack - stronger for stronger in _slacks(known)] for slack in _slacks(other)]
    return all(any(d.is_constant and d.constant >= 0 for d in each) for each in differences)


def refuted(e: Expr, facts: Facts) -> bool:
    """Tell whether a draw that the facts allow makes `e` negative."""
    return any(value < 0 for value in facts.samples.values(e, facts.draws[:_ENOUGH]))


def _scaled(facts: Facts) -> tuple[Mapping[str, Expr], Facts]:
    """Write variables as multiples, so that what divides shows: `4 * n'` for an n that 4 divides."""
    multiples = {name: known.multiple_of for name, known in facts.ranges.items() if known.multiple_of > 1}
    if not multiples:
        return {}, facts
    # What divides then shows in the canonical form.
    values = {name: var(f"{name}'") * m for name, m in multiples.items()}
    ranges = {}
    for name, known in facts.ranges.items():
        m = known.multiple_of
        lo, hi = _subs(known.lo, values), _subs(known.hi, values)
        if m > 1:
            name = f"{name}'"
            lo, hi = None if lo is None else (lo + (m - 1)) // m, None if hi is None else hi // m
        ranges[name] = Range(lo, hi)
    assumptions = tuple(
        (known.subs(values), _subs(lo, values), _subs(hi, values)) for known, lo, hi in facts.assumptions
    )
    return values, Facts(ranges, assumptions)


def _subs(bound: Expr | None, values: Mapping[str, Expr]) -> Expr | None:
    return None if bound is None else bound.subs(values)
