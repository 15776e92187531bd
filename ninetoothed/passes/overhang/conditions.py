"""Conditions that a program computes itself: whether they leave out what lies past an edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ninetoothed import dtypes, ir
from ninetoothed.expr import Expr, Min, condition as simplest, const, is_nonnegative, simplify
from ninetoothed.ir import Value
from ninetoothed.ir.lanes import forwards
from ninetoothed.passes.overhang import edges as edges_
from ninetoothed.passes.overhang.edges import BoundEdge, OverhangEdge

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter

_Producers = Mapping[Value, ir.Operation]


def is_implied(rewriter: OverhangRewriter, condition: Value, edge: OverhangEdge) -> bool:
    """Tell whether lanes where a condition holds are not past an edge: the program has its own mask."""
    if not isinstance(edge, BoundEdge) or edge.reached:
        return False
    facts = rewriter.facts
    for e in conjuncts(rewriter.producers, condition):
        if simplify(simplest(e) - edge.remaining, facts) == 0:
            return True
        facts = facts.assume(e, 1)
    return facts is not rewriter.facts and is_nonnegative(edge.remaining - 1, facts)


def conjuncts(producers: _Producers, condition: Value) -> Iterator[Expr]:
    """Yield expressions that are above 0 where a condition holds."""
    operation = producers.get(condition)
    if not isinstance(operation, ir.Apply):
        return
    if operation.function == "and":
        for side in operation.operands:
            yield from conjuncts(producers, side)
    elif operation.function in ("lt", "le", "gt", "ge", "eq"):
        a, b = (expression(producers, raw) for raw in operation.operands)
        if a is not None and b is not None:
            pairs = {"l": [(a, b)], "g": [(b, a)], "e": [(b, a), (a, b)]}[operation.function[0]]
            for low, high in pairs:
                # What is below the least of several numbers is below each.
                least = high.sole_atom
                for bound in least.operands if isinstance(least, Min) else (high,):
                    yield bound - low + (operation.function in ("le", "ge", "eq"))
    elif operation.primitive.is_view:
        for e in conjuncts(producers, operation.operands[0]):
            if (moved := _moved(e, operation)) is not None:
                yield moved


def expression(producers: _Producers, raw: Value) -> Expr | None:
    """Return an integer as an expression in the lanes of its axes; None where it is none."""
    match producers.get(raw):
        case ir.Constant(value=number) if isinstance(number, int):
            return const(int(number))
        case ir.Index(expr=e):
            return e
        case ir.Apply(function="cast", operands=(inner,)) if raw.type.dtype in (dtypes.int32, dtypes.int64):
            return expression(producers, inner)
        case ir.Apply() as operation if operation.primitive.is_view:
            inside = expression(producers, operation.operands[0])
            return None if inside is None else _moved(inside, operation)
    return None


def _moved(e: Expr, view: ir.Apply) -> Expr | None:
    """Express an expression over the lanes of a view's operand in those of its result; None where one is lost."""
    return edges_.expressed(e, view.operands[0].type, forwards(view))
