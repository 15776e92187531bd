"""Check what two arrangements ask of a call, whose outermost shapes must be equal.

Sizes that one block cuts are equal, whatever the block, and so are the numbers of tiles (`choices.grid_of`). Where
different blocks cut, the numbers of tiles depend on the blocks, and blocks are chosen for which they are equal.

    x.tile((B,)), y.tile((B,))        x_size_0 == y_size_0: 90 and 100 have one tile of 128 each, and four of 32 differ
    x.tile((B, C)), y.tile((1, C))    as many tiles as y has rows; of y with one row, a block that covers x
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninetoothed.arrangement.symbol import leaves_of
from ninetoothed.arrangement.tiling import Tiling, cut_alike
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import SizeError
from ninetoothed.expr import Expr, const
from ninetoothed.expr.sizes import evaluate

if TYPE_CHECKING:
    from ninetoothed.runtime.specialise_plan import SpecialisationPlan


@dataclass(frozen=True, kw_only=True)
class _Cut(Tiling):
    """A tiling with the numbers of a call, but for blocks that are not chosen yet; `formula` has none of them."""

    formula: Tiling


def check_agreement(plan: SpecialisationPlan, values: Mapping[str, int]) -> None:
    """Raise `SizeError` for parameters that one block cuts in different sizes."""
    fixed = {name: value for name, value in values.items() if name not in plan.definition.meta_symbols}
    cuts = [(name, _cuts(tilings, values, fixed)) for name, tilings in plan.outermost]
    for (name, own), (other, others) in itertools.combinations(cuts, 2):
        for a, b in _unequal(own, others):
            raise _disagreement(plan.definition, (name, a), (other, b))


def agreed(plan: SpecialisationPlan, values: Mapping[str, int]) -> tuple[tuple[Expr, Expr], ...]:
    """Return pairs of formulas whose equality lets other calls pass, as that of a call that passes does.

    Blocks that are sizes of a call, and 1 in this one, must be 1 in others.
    """
    fixed = {name: value for name, value in values.items() if name not in plan.definition.meta_symbols}
    cuts = [_cuts(tilings, values, fixed) for _, tilings in plan.outermost]
    whole = (each.block for _, tilings in plan.outermost for each in tilings if each.block.subs(fixed) == 1)
    pairs = [(block, const(1)) for block in whole if not block.is_constant]
    for own, others in itertools.combinations(cuts, 2):
        met = (pairing for pairing in _pairings(own, others) if all(a.size == b.size for a, b in pairing))
        pairs += [(a.formula.size, b.formula.size) for a, b in next(met)]
    return tuple(pairs)


def _unequal(own: Sequence[_Cut], others: Sequence[_Cut]) -> tuple[tuple[_Cut, _Cut], ...]:
    """Return the pairs that have unequal sizes, where there is no way to pair that leaves none."""
    pairings = [tuple((a, b) for a, b in pairs if a.size != b.size) for pairs in _pairings(own, others)]
    return min(pairings, key=len)


def _cuts(tilings: Sequence[Tiling], values: Mapping[str, int], fixed: Mapping[str, int]) -> tuple[_Cut, ...]:
    """Return the cuts into more than single elements, whose numbers say it all."""
    sizes = (const(evaluate(tiling.size, values)) for tiling in tilings)
    cuts = (_Cut(size, each.block.subs(fixed), formula=each) for size, each in zip(sizes, tilings, strict=True))
    return tuple(cut for cut in cuts if not cut.is_whole)


def _pairings(own: Sequence[_Cut], others: Sequence[_Cut]) -> list[tuple[tuple[_Cut, _Cut], ...]]:
    """List the ways to pair cuts by one block: all of them, less those of one element, or else as many as can be."""
    if cut_alike(own, others) is not None:
        larger = [cut for cut in own if cut.size != 1], [cut for cut in others if cut.size != 1]
        return [pairs for both in ((own, others), larger) if (pairs := cut_alike(*both)) is not None]
    parts = ([p for n in range(len(cuts) + 1) for p in itertools.combinations(cuts, n)] for cuts in (own, others))
    found = [pairs for both in itertools.product(*parts) if (pairs := cut_alike(*both)) is not None]
    most = max(map(len, found))
    return [pairs for pairs in found if len(pairs) == most]


def _disagreement(definition: KernelDefinition, first: tuple[str, _Cut], second: tuple[str, _Cut]) -> SizeError:
    (name, own), (other, others) = first, second
    names = _owner(definition, name, own), _owner(definition, other, others)
    return SizeError(
        f"kernel `{definition.name}`: parameters `{names[0]}` and `{names[1]}` are both cut into tiles of"
        f" {own.formula.block} and have sizes {own.size} ({own.formula.size}) and {others.size}"
        f" ({others.formula.size}); each program works on one tile of either: pass tensors whose sizes agree, or `pad`"
        " one of them in the arrangement",
        (name, other),
    )


def _owner(definition: KernelDefinition, name: str, cut: _Cut) -> str:
    """Return the parameter that a size is of: what is expanded has another's."""
    for parameter in definition.parameters:
        own = {leaf for size in parameter.source.sizes for leaf in leaves_of(size)}
        if cut.formula.size.variables and cut.formula.size.variables <= own:
            return parameter.part_of or parameter.name
    return name
