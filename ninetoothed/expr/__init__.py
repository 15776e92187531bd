"""Integer expressions: canonical when built (`algebra`), what is known of variables (`facts`),
and what follows from it (`intervals`, `proof`, `simplification`)."""

from ninetoothed.expr.algebra import Expr, as_expr, cdiv, const, maximum, minimum, offset, var
from ninetoothed.expr.atoms import Atom, FloorDiv, Max, Min, Mod, Var
from ninetoothed.expr.division import condition
from ninetoothed.expr.facts import Facts
from ninetoothed.expr.intervals import bounds, divisor
from ninetoothed.expr.proof import is_nonnegative
from ninetoothed.expr.ranges import Range
from ninetoothed.expr.simplification import simplify

__all__ = [
    "Atom",
    "Expr",
    "Facts",
    "FloorDiv",
    "Max",
    "Min",
    "Mod",
    "Range",
    "Var",
    "as_expr",
    "bounds",
    "cdiv",
    "condition",
    "const",
    "divisor",
    "is_nonnegative",
    "maximum",
    "minimum",
    "offset",
    "simplify",
    "var",
]
