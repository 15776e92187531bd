"""Check what one arrangement asks of sizes that only a call tells (`SizeCondition`).

    x.squeeze(0)                        the size is 1
    x.tile((y.shape[0],)).squeeze(0)    the sizes of x and y are equal
    x.expand((n, -1))                   the size is 1, or n
    x.tile((B,), (S,))                  a stride and a dilation are 1 or more
    x.pad(((0, n),))                    n is 0 or more

A dimension of size 0 may be squeezed and expanded, too: it has no element that could be missed, and reads as `other`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ninetoothed.arrangement.metaops import paddings
from ninetoothed.arrangement.tiling import squeezed
from ninetoothed.arrangement.value import Size, Step
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import SizeError
from ninetoothed.expr import Expr, as_expr
from ninetoothed.expr.sizes import evaluate
from ninetoothed.runtime.arguments import problem


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
        if self.rule == "fit" and number != wanted:
            return (
                f"has size {number} ({self.size}) along a dimension that is cut into tiles of {self.wanted}, which"
                f" is {wanted} in this call, and then squeezed: one tile is the whole of it",
                "pass tensors whose sizes agree",
            )
        if self.rule == "squeeze" and number > 1:
            return (
                f"is squeezed along a dimension of size {_told(self.size, number)}",
                "a dimension that is squeezed has one element",
            )
        if self.rule == "expand" and (number not in (0, 1, wanted) or wanted < 0):
            return (
                f"is expanded to {_told(self.wanted, wanted)}, along a dimension of size {_told(self.size, number)}",
                f"only a dimension of size 1 can be expanded{f', or one that has {wanted}' if wanted > 1 else ''}",
            )
        if self.rule == "pad" and number < 0:
            return f"is padded by {_told(self.size, number)}", "an amount of padding is 0 or more"
        if self.rule in ("stride", "dilation") and number < 1:
            return f"is cut into tiles with a {self.rule} of {_told(self.size, number)}", "give 1 or more"
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
