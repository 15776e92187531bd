"""What arrangements ask of sizes that only a call tells: looked at before a launch, since no later stage does.

    x.squeeze(0)            the size is 1
    x.expand((n, -1))       the size is 1, or n
    x.tile((B,), (S,))      a stride and a dilation are 1 or more

A dimension of size 0 may be squeezed and expanded, too: it has no element that could be missed, and reads as `other`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ninetoothed.arrangement import Size, Step
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.expr import as_expr
from ninetoothed.runtime.arguments import problem
from ninetoothed.runtime.structure import evaluate


@dataclass(frozen=True)
class Condition:
    """That a step of a parameter's arrangement fits a size; `wanted` is what a dimension is expanded to."""

    parameter: KernelParameter
    kind: str
    size: Size
    wanted: Size = 1

    def problem(self, values: Mapping[str, int]) -> tuple[str, str] | None:
        """What is wrong in a call, and the remedy."""
        number, wanted = evaluate(as_expr(self.size), values), evaluate(as_expr(self.wanted), values)
        size = f"{self.size}, which is {number} in this call"
        if self.kind == "squeeze" and number > 1:
            return (
                f"is squeezed along a dimension of size {size}",
                "a dimension that is squeezed has one element",
            )
        if self.kind == "expand" and (number not in (0, 1, wanted) or wanted < 0):
            return (
                f"is expanded to {self.wanted}, which is {wanted} in this call, along a dimension of size {size}",
                "a dimension that is expanded has one element, or as many as are wanted",
            )
        if self.kind in ("stride", "dilation") and number < 1:
            return f"is cut into tiles with a {self.kind} of {size}", "give 1 or more"
        return None


def conditions_of(parameter: KernelParameter) -> tuple[Condition, ...]:
    """The conditions that making the arrangement could not check, since they are on symbols."""
    conditions = (Condition(parameter, *row) for step in parameter.arrangement.steps for row in _rows(step))
    return tuple(each for each in conditions if not (isinstance(each.size, int) and isinstance(each.wanted, int)))


def _rows(step: Step) -> Iterator[tuple]:
    match step.operation:
        case "squeeze":
            yield from (("squeeze", step.shape[dim]) for dim in step.arguments[0])
        case "expand":
            dims, wanted = step.arguments
            yield from (("expand", step.shape[dim], wanted[dim]) for dim in dims)
        case "tile":
            for kind, sizes in zip(("stride", "dilation"), step.arguments, strict=True):
                yield from ((kind, size) for size in sizes)


def check(definition: KernelDefinition, conditions: tuple[Condition, ...], values: Mapping[str, int]) -> None:
    """Raises `ArgumentError` for a condition that a call's numbers do not meet."""
    for condition in conditions:
        found = condition.problem(values)
        if found is not None:
            raise problem(definition, condition.parameter, *found)
