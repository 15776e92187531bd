"""Check the sizes of a call against the arrangement, before anything is traced: no later stage does.

What one arrangement asks of sizes that only a call tells (`SizeCondition`):

    x.squeeze(0)            the size is 1
    x.tile((y.shape[0],)).squeeze(0)    the sizes of x and y are equal
    x.expand((n, -1))       the size is 1, or n
    x.tile((B,), (S,))      a stride and a dilation are 1 or more
    x.pad(((0, n),))        n is 0 or more

A dimension of size 0 may be squeezed and expanded, too: it has no element that could be missed, and reads as `other`.

What two arrangements ask, whose outermost shapes must be equal (`check_agreement`): sizes that one block cuts are
equal, whatever the block, and so are the numbers of tiles (`grid_of`). Where blocks that differ cut, the latter is a
matter of the blocks, and some are chosen for which they are.

    x.tile((B,)), y.tile((B,))        x_size_0 == y_size_0: 90 and 100 have one tile of 128 each, and four of 32 differ
    x.tile((B, C)), y.tile((1, C))    as many tiles as y has rows; of y with one row, a block that covers x
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninetoothed.arrangement import Size, Step
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import ArgumentError, SizeError
from ninetoothed.expr import Expr, as_expr
from ninetoothed.metaops import paddings
from ninetoothed.runtime.arguments import problem
from ninetoothed.runtime.sizes import evaluate
from ninetoothed.symbol import leaves_of
from ninetoothed.tiling import Tiling, squeezed

if TYPE_CHECKING:
    from ninetoothed.runtime.specialisation_plan import SpecialisationPlan

# -- what one arrangement asks --


@dataclass(frozen=True)
class SizeCondition:
    """A step of a parameter's arrangement that asks something of a size.

    rule: the meta-operation, "stride" or "dilation" of `tile`, or "fit" for one tile that is a whole dimension.
    wanted: what the dimension is expanded to, or the tile that is the whole of it.
    """

    parameter: KernelParameter
    rule: str
    size: Size | Expr
    wanted: Size | Expr = 1

    def problem(self, values: Mapping[str, int]) -> tuple[str, str] | None:
        """Say what is wrong in a call, and the remedy; None where nothing is."""
        number, wanted = evaluate(as_expr(self.size), values), evaluate(as_expr(self.wanted), values)
        size, target = _told(self.size, number), _told(self.wanted, wanted)
        if self.rule == "fit" and number != wanted:
            return (
                f"has size {number} ({self.size}) along a dimension that is cut into tiles of {self.wanted}, which"
                f" is {wanted} in this call, and then squeezed: one tile is the whole of it",
                "pass tensors whose sizes agree",
            )
        if self.rule == "squeeze" and number > 1:
            return (
                f"is squeezed along a dimension of size {size}",
                "a dimension that is squeezed has one element",
            )
        if self.rule == "expand" and (number not in (0, 1, wanted) or wanted < 0):
            return (
                f"is expanded to {target}, along a dimension of size {size}",
                f"only a dimension of size 1 can be expanded{f', or one that has {wanted}' if wanted > 1 else ''}",
            )
        if self.rule == "pad" and number < 0:
            return f"is padded by {size}", "an amount of padding is 0 or more"
        if self.rule in ("stride", "dilation") and number < 1:
            return f"is cut into tiles with a {self.rule} of {size}", "give 1 or more"
        return None


def _told(size: Size | Expr, number: int) -> str:
    """Say a size, and its number where it is another in other calls."""
    return str(number) if as_expr(size).is_constant else f"{size}, which is {number} in this call"


def conditions_of(parameter: KernelParameter, others: frozenset[str] = frozenset()) -> tuple[SizeCondition, ...]:
    """List the conditions that making the arrangement could not check, since they are on symbols.

    others: the names of sizes of other parameters.
    """
    conditions = (SizeCondition(parameter, *row) for step in parameter.arrangement.steps for row in _rows(step))
    unknown = (each for each in conditions if not all(isinstance(size, int) for size in (each.size, each.wanted)))
    tilings = squeezed(parameter.arrangement)
    fitting = (tiling for tiling in tilings if tiling.block.variables and tiling.block.variables <= others)
    return (*(SizeCondition(parameter, "fit", each.size, each.block) for each in fitting), *unknown)


def _rows(step: Step) -> Iterator[tuple]:
    """Yield (rule, size) or (rule, size, wanted) for what a step asks."""
    match step.operation:
        case "squeeze":
            yield from (("squeeze", step.shape[dim]) for dim in step.arguments[0])
        case "expand":
            dims, wanted = step.arguments
            yield from (("expand", step.shape[dim], wanted[dim]) for dim in dims)
        case "pad":
            yield from (("pad", amount) for amount in paddings(step))
        case "tile":
            for rule, sizes in zip(("stride", "dilation"), step.arguments, strict=True):
                yield from ((rule, size) for size in sizes)


def check_conditions(
    definition: KernelDefinition, conditions: tuple[SizeCondition, ...], values: Mapping[str, int]
) -> None:
    """Raise `SizeError` for a condition that a call's numbers do not meet."""
    for condition in conditions:
        found = condition.problem(values)
        if found is not None:
            raise problem(definition, condition.parameter, *found, SizeError)


# -- what two arrangements ask --


@dataclass(frozen=True)
class _Cut:
    """A tiling in a call: the number of elements, and the block but for what is not chosen yet."""

    tiling: Tiling
    size: int
    block: Expr


def check_agreement(plan: SpecialisationPlan, values: Mapping[str, int]) -> None:
    """Raise `SizeError` for parameters that one block cuts in different sizes."""
    fixed = {name: value for name, value in values.items() if name not in plan.definition.meta_symbols}
    cuts = [(name, _cuts(tilings, values, fixed)) for name, tilings in plan.outermost]
    for (name, own), (other, others) in itertools.combinations(cuts, 2):
        for a, b in _unequal(own, others):
            raise _disagreement(plan.definition, (name, a), (other, b))


def _unequal(own: Sequence[_Cut], others: Sequence[_Cut]) -> tuple[tuple[_Cut, _Cut], ...]:
    """Return the pairs that have unequal sizes, where there is no way to pair that leaves none."""
    pairings = [tuple((a, b) for a, b in pairs if a.size != b.size) for pairs in _pairings(own, others)]
    return min(pairings, key=len)


def _cuts(tilings: Sequence[Tiling], values: Mapping[str, int], fixed: Mapping[str, int]) -> tuple[_Cut, ...]:
    """Return the cuts into more than single elements, whose numbers say it all."""
    cuts = (_Cut(tiling, evaluate(tiling.size, values), tiling.block.subs(fixed)) for tiling in tilings)
    return tuple(cut for cut in cuts if cut.block != 1)


def _pairings(own: Sequence[_Cut], others: Sequence[_Cut]) -> list[tuple[tuple[_Cut, _Cut], ...]]:
    """List the ways to pair cuts by one block: all of them, less those of one element, or else as many as can be."""
    if _blocks(own) == _blocks(others):
        shapes = (own, others), ([cut for cut in own if cut.size != 1], [cut for cut in others if cut.size != 1])
        return [tuple(zip(*pair, strict=True)) for pair in shapes if _blocks(pair[0]) == _blocks(pair[1])]
    found = list(_matches(own, others))
    most = max(map(len, found))
    return [pairs for pairs in found if len(pairs) == most]


def _blocks(cuts: Sequence[_Cut]) -> list[Expr]:
    return [cut.block for cut in cuts]


def _matches(own: Sequence[_Cut], others: Sequence[_Cut]) -> Iterator[tuple[tuple[_Cut, _Cut], ...]]:
    """Yield all ways to pair some cuts of one block, in order."""
    if not own or not others:
        yield ()
        return
    if own[0].block == others[0].block:
        yield from (((own[0], others[0]), *rest) for rest in _matches(own[1:], others[1:]))
    yield from _matches(own[1:], others)
    yield from _matches(own, others[1:])


def _disagreement(definition: KernelDefinition, first: tuple[str, _Cut], second: tuple[str, _Cut]) -> SizeError:
    (name, own), (other, others) = first, second
    names = _owner(definition, name, own), _owner(definition, other, others)
    return SizeError(
        f"kernel `{definition.name}`: parameters `{names[0]}` and `{names[1]}` are both cut into tiles of"
        f" {own.tiling.block} and have sizes {own.size} ({own.tiling.size}) and {others.size} ({others.tiling.size});"
        " each program works on one tile of either: pass tensors whose sizes agree, or `pad` one of them in the"
        " arrangement",
        (name, other),
    )


def _owner(definition: KernelDefinition, name: str, cut: _Cut) -> str:
    """Return the parameter that a size is of: what is expanded has another's."""
    for parameter in definition.parameters:
        own = {leaf for size in parameter.source.sizes for leaf in leaves_of(size)}
        if cut.tiling.size.variables and cut.tiling.size.variables <= own:
            return parameter.name
    return name


# -- the grid --


def outermost_shapes(plan: SpecialisationPlan, values: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Compute the outermost shape of every parameter that says how many programs there are.

    Scalars do not, and neither do parameters that the application never touches.
    """
    return {
        parameter.name: tuple(evaluate(as_expr(size), values) for size in parameter.outermost)
        for parameter, role in zip(plan.definition.parameters, plan.roles, strict=True)
        if role == "tensor" or (role == "scalar" and parameter.outermost)
    }


def grid_of(plan: SpecialisationPlan, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the common outermost shape, one program an element.

    Raises `ArgumentError` naming two parameters whose shapes differ beyond dimensions of size 1, and for more than
    2^31 - 1 programs.
    """
    definition = plan.definition
    if not shapes:
        return ()
    first, reference = next(iter(shapes.items()))
    for name, shape in shapes.items():
        if _without_ones(shape) != _without_ones(reference):
            raise SizeError(
                f"kernel `{definition.name}`: the outermost shapes of parameters `{first}` {reference} and `{name}` "
                f"{shape} differ; each of their elements is one program, so arrange both into as many tiles (sizes of "
                "1 aside), or pass tensors whose sizes agree",
                (first, name),
            )
    if math.prod(reference) > 2**31 - 1:
        raise ArgumentError(
            f"kernel `{definition.name}`: the outermost shape {reference} of parameter `{first}` makes "
            f"{math.prod(reference)} programs, more than 2^31 - 1; arrange it into larger tiles"
        )
    return reference


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
