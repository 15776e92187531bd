"""Integer expressions: canonical when built (`algebra`), and what can be proved of them (`facts`)."""

from ninetoothed.expr.algebra import (
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Var,
    as_expr,
    cdiv,
    const,
    maximum,
    minimum,
    var,
)
from ninetoothed.expr.facts import Facts, Range, bounds, divisor, is_nonnegative, simplify

__all__ = [
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
    "const",
    "divisor",
    "is_nonnegative",
    "maximum",
    "minimum",
    "simplify",
    "var",
]
