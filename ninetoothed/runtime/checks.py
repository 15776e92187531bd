"""Name the sizes of a call, and check them: against the arrangement before tracing, against the program after it.

`measure` names the numbers of a call: what launching passes, and what grids are computed from.

What one arrangement asks of sizes that only a call tells (`SizeCondition`):

    x.squeeze(0)            the size is 1
    x.tile((y.shape[0],)).squeeze(0)    the sizes of x and y are equal
    x.expand((n, -1))       the size is 1, or n
    x.tile((B,), (S,))      a stride and a dilation are 1 or more
    x.pad(((0, n),))        n is 0 or more

A dimension of size 0 may be squeezed and expanded, too: it has no element that could be missed, and reads as `other`.

What two arrangements ask, whose outermost shapes must be equal (`check_agreement`): sizes that one block cuts are
equal, whatever the block, and so are the numbers of tiles (`choices.grid_of`). Where blocks that differ cut, the latter
is a matter of the blocks, and some are chosen for which they are.

    x.tile((B,)), y.tile((B,))        x_size_0 == y_size_0: 90 and 100 have one tile of 128 each, and four of 32 differ
    x.tile((B, C)), y.tile((1, C))    as many tiles as y has rows; of y with one row, a block that covers x

What a traced program takes for granted (`check_requirements`), with the numbers of each call whose sizes are new:

    z = x + y    tiles of x_size_1 and of y_size_1 elements: x_size_1 == y_size_1
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ninetoothed import ir
from ninetoothed.arrangement import Size, Step
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import ApplicationError, ArgumentError, RaceError, SizeError
from ninetoothed.expr import Expr, as_expr
from ninetoothed.expr.sizes import evaluate
from ninetoothed.metaops import paddings
from ninetoothed.runtime.arguments import BoundCall, problem
from ninetoothed.symbol import leaves_of, plain_name
from ninetoothed.tiling import Tiling, squeezed

if TYPE_CHECKING:
    from ninetoothed.runtime.specialise import SpecialisationPlan

# -- the numbers of a call --


def measure(plan: SpecialisationPlan, call: BoundCall) -> dict[str, int]:
    """Give every constexpr symbol, size and stride its number, by name.

    Raises `ArgumentError` where one name would have two values, and where an arrangement mentions a size that no
    parameter gives.
    """
    definition, values = plan.definition, dict(call.constants)
    expressions: list[tuple[KernelParameter, int, Size, int]] = []
    for parameter, role, tensor in zip(definition.parameters, plan.roles, call.arguments, strict=True):
        rank = parameter.source.ndim
        if not isinstance(tensor, torch.Tensor) or tensor.ndim != rank or (role == "unused" and not rank):
            continue
        for dim, (size, number) in enumerate(zip(parameter.source.sizes, tensor.shape, strict=True)):
            if isinstance(size, int):
                continue
            if size.name is None:
                expressions.append((parameter, dim, size, number))
            elif (role == "tensor" or size.name in plan.needed) and values.setdefault(size.name, number) != number:
                raise _two_numbers(definition, parameter, dim, size, number, values[size.name])
        if role == "tensor":
            for stride, number in zip(parameter.source.strides, tensor.stride(), strict=True):
                name = plain_name(stride)
                if values.setdefault(name, number) != number:
                    raise _one_tensor(definition, parameter, f"stride {number}", values[name])
    for parameter, dim, size, number in expressions:
        expected = as_expr(size).evaluate(values) if as_expr(size).variables <= values.keys() else number
        if expected != number:
            raise _two_numbers(definition, parameter, dim, size, number, expected)
    missing = plan.needed - values.keys() - definition.meta_symbols.keys()
    if missing:
        raise ArgumentError(
            f"kernel `{definition.name}`: its arrangement uses {', '.join(sorted(missing))}, which no argument gives; "
            "pass the tensor that it is a size of, with the right rank"
        )
    return values


def _two_numbers(
    definition: KernelDefinition, parameter: KernelParameter, dim: int, size: Size, number: int, expected: int
) -> ArgumentError:
    if len(_twins(definition, parameter)) > 1:
        error = _one_tensor(definition, parameter, f"size {number} in dimension {dim}", expected)
    else:
        what = f"has size {number} in dimension {dim}, and {size} is {expected}"
        error = problem(definition, parameter, what, "pass tensors whose sizes agree")
    error.parameters = ()  # It may be about whichever gives the other number.
    return error


def _one_tensor(definition: KernelDefinition, parameter: KernelParameter, what: str, expected: int) -> ArgumentError:
    """Make the error for a parameter that differs from another, where one Tensor stands for both."""
    *names, last = (f"`{name}`" for name in _twins(definition, parameter))
    what = f"has {what} where {names[0]} has {expected}, and one Tensor stands for {', '.join(names)} and {last}"
    return problem(definition, parameter, what, "make a Tensor of its own for each parameter")


def _twins(definition: KernelDefinition, parameter: KernelParameter) -> list[str]:
    """List the parameters that one Tensor stands for, this one among them."""
    return [each.name for each in definition.parameters if each.source.strides == parameter.source.strides]


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


# -- what a traced program asks --


def check_requirements(
    definition: KernelDefinition, requirements: Iterable[ir.Requirement], values: Mapping[str, int]
) -> None:
    """Raise `SizeError`, or `RaceError`, for the first requirement that a call's numbers do not meet."""
    for requirement in requirements:
        if evaluate(requirement.left, values) != evaluate(requirement.right, values):
            raise unmet(definition, requirement, values)


def unmet(
    definition: KernelDefinition, requirement: ir.Requirement, values: Mapping[str, int]
) -> SizeError | RaceError:
    """Make the error for a requirement that a call's numbers do not meet."""
    if requirement.is_race:
        return _race(definition, requirement, evaluate(requirement.left, values))
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


def _race(definition: KernelDefinition, requirement: ir.Requirement, programs: int) -> RaceError:
    message, place = f"kernel {definition.name!r}, {programs} programs: {requirement.message}", requirement.location
    if place is None:
        return RaceError(message)
    return RaceError(message, place.file, place.line, place.column + 1, place.text)


def explained(definition: KernelDefinition, error: ApplicationError, values: Mapping[str, int]) -> Exception:
    """Add the numbers of the call to an error of tracing that is one of sizes; return any other unchanged."""
    requirement = error.unmet
    if requirement is None or evaluate(requirement.left, values) == evaluate(requirement.right, values):
        return error
    return unmet(definition, requirement, values)


def _whose(definition: KernelDefinition, name: str, number: int) -> str:
    """Say whose size a number is: `x` has size 5 in dimension 0."""
    place = next(_places(definition, name), None)
    return f"{name} is {number}" if place is None else f"`{place[0]}` has size {number} in dimension {place[1]}"


def _places(definition: KernelDefinition, name: str) -> Iterator[tuple[str, int]]:
    """Yield the parameters and dimensions that a size is of."""
    for parameter in definition.parameters:
        for dim, size in enumerate(parameter.source.sizes):
            if as_expr(size) == as_expr(name):
                yield parameter.name, dim
