"""Check what a traced program requires of the sizes of a call, and explain what it does not meet.

z = x + y    tiles of x_size_1 and of y_size_1 elements: x_size_1 == y_size_1
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from ninetoothed import ir
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import RaceWarning, SizeError
from ninetoothed.expr import as_expr, const, maximum, var
from ninetoothed.expr.sizes import evaluate
from ninetoothed.frontend.oversights import warn_at
from ninetoothed.races import Footprints, race_error, undecided, waiting


def check_requirements(
    definition: KernelDefinition, requirements: Iterable[ir.Requirement], values: Mapping[str, int]
) -> None:
    """Raise `SizeError` for the first requirement that a call's numbers do not meet."""
    for requirement in requirements:
        if not is_met(requirement, values):
            raise unmet(definition, requirement, values)


def is_met(requirement: ir.Requirement, values: Mapping[str, int]) -> bool:
    """Tell whether a call's numbers meet a requirement."""
    return evaluate(requirement.left, values) == evaluate(requirement.right, values)


def answered(
    definition: KernelDefinition, values: Mapping[str, int], requirement: ir.Requirement, known: Container[str]
) -> tuple[ir.Requirement, ...]:
    """Answer a requirement of tracing with what this call's numbers meet; `SizeError` where there is nothing."""
    return (requirement,) if is_met(requirement, values) else narrowed(definition, values, requirement, known)


def narrowed(
    definition: KernelDefinition, values: Mapping[str, int], requirement: ir.Requirement, known: Container[str]
) -> tuple[ir.Requirement, ...]:
    """Return what a call meets instead of a requirement that it does not, for a variant of such calls alone.

    An extent that is 1 here broadcasts, once the sizes that it is made of are fixed, unless these are `known` already:
    a class tells which sizes are 1, but not which formulas are, such as `x_size_0 - 2`. And a number that 32 bits do
    not hold here may take 64.
    """
    if requirement.is_width:
        return (replace(requirement, left=maximum(requirement.left, requirement.right + 1), right=requirement.left),)
    sides = (requirement.left, requirement.right)
    names = {name for side in sides if evaluate(side, values) == 1 for name in side.variables if name not in known}
    if not names:
        raise unmet(definition, requirement, values)
    return tuple(replace(requirement, left=var(name), right=const(values[name])) for name in sorted(names))


def check_races(definition: KernelDefinition, footprints: Footprints | None, values: Mapping[str, int]) -> None:
    """Raise `RaceError` where programs of a call race; warn, once a line, where nothing tells."""
    if footprints is None:
        return
    found = [(each, verdict) for each in footprints.questions if (verdict := each.answer(values)) is not None]
    if found and footprints.waiting is not None:
        # Atomics order what the questions take to be in any order.
        message = waiting([question.parameter for question, _ in found])
        _warn(definition, message, footprints.waiting.location)
        return
    for question, verdict in found:
        if verdict.clash is not None:
            raise race_error(definition.name, question, verdict)
        _warn(definition, undecided(question.parameter, verdict.is_by_index), verdict.location)


def _warn(definition: KernelDefinition, message: str, location: ir.SourceLocation | None) -> None:
    warn_at(definition.application, RaceWarning, f"kernel {definition.name!r}: {message}", location)


def unmet(definition: KernelDefinition, requirement: ir.Requirement, values: Mapping[str, int]) -> SizeError:
    """Make the error for a requirement that a call's numbers do not meet."""
    sides = requirement.left, requirement.right
    names = dict.fromkeys(name for side in sides for name in sorted(side.variables))
    numbers = [
        f"{side} is {evaluate(side, values)}"
        for side in sides
        if side.variables and side != as_expr(min(side.variables))
    ]
    sizes = [_whose(definition, name, values[name]) for name in names]
    place = requirement.location
    at = f"\n  at {place}" + (f": {place.text.strip()}" if place.text else "") if place else ""
    error = SizeError(
        f"kernel `{definition.name}`: {requirement.message}; {', '.join([*numbers, *sizes])}: pass tensors whose sizes"
        f" agree{at}"
    )
    error.requirement = requirement
    return error


def _whose(definition: KernelDefinition, name: str, number: int) -> str:
    """Say whose size a number is: `x` has size 5 in dimension 0."""
    place = next(_places(definition, name), None)
    return f"{name} is {number}" if place is None else f"`{place[0]}` has size {number} in dimension {place[1]}"


def _places(definition: KernelDefinition, name: str) -> Iterator[tuple[str, int]]:
    """Yield the parameters and dimensions that a size is of."""
    for parameter in definition.as_given().parameters:
        for dim, size in enumerate(parameter.source.sizes):
            if as_expr(size) == as_expr(name):
                yield parameter.name, dim
