"""Drop guards that others imply, so that an access checks each bound once.

(o < cdiv(s, b)) & (o * b + n < s)  ->  o * b + n < s        for any n >= 0
"""

from __future__ import annotations

from dataclasses import replace

from ninetoothed.expr import Expr, Facts, FloorDiv, cdiv, is_nonnegative
from ninetoothed.lowering import Guard


def unimplied(guard: Guard, guards: tuple[Guard, ...], facts: Facts) -> Guard | None:
    """Return the part of a guard that the others of its access do not imply; None if they imply all of it."""
    for other in guards:
        for block in _divisors(guard.size) if other.upper and other is not guard else ():
            if guard.size in (cdiv(other.size, block), (other.size + block - 1) // block):
                if is_nonnegative(other.index - guard.index * block, facts):
                    return replace(guard, upper=False) if guard.lower else None
    return guard


def _divisors(e: Expr) -> tuple[Expr, ...]:
    return tuple(atom.denominator for atom in e.atoms if isinstance(atom, FloorDiv))
