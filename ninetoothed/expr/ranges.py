"""The range of a variable, which may be symbolic."""

from dataclasses import dataclass

from ninetoothed.expr.algebra import Expr, ExprLike, as_expr

Bound = ExprLike | None


@dataclass(frozen=True, init=False)
class Range:
    """`lo <= x <= hi` (inclusive; `None`: unknown), and `x` is a multiple of `multiple_of`."""

    lo: Expr | None
    hi: Expr | None
    multiple_of: int

    def __init__(self, lo: Bound = None, hi: Bound = None, multiple_of: int = 1):
        object.__setattr__(self, "lo", None if lo is None else as_expr(lo))
        object.__setattr__(self, "hi", None if hi is None else as_expr(hi))
        object.__setattr__(self, "multiple_of", multiple_of)

    @property
    def value(self) -> int | None:
        """The only value in the range; None where there are several or none is known."""
        if self.lo is not None and self.lo.is_constant and self.lo == self.hi:
            return self.lo.constant
        return None
