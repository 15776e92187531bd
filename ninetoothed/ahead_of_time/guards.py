"""Write down what a compiled variant relies on, as conditions on the sizes and strides of a call.

    known      input_stride_1 = 1             stride(1) == 1, unless there is one element along that dimension
    equal      other_size_0 = input_size_1    other.shape[0] == input.shape[1]
    divisors   input_size_0 by 16             input.shape[0] % 16 == 0
    bounds     input_size_1 up to 1024        input.shape[1] <= 1024
    narrow                                    no offset needs more than 32 bits

and what each call is checked for: requirements of the program, conditions of arrangements, outermost shapes that agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ninetoothed.arrangement.sizes import plain_name
from ninetoothed.built.formula import Formula, formula_of, written
from ninetoothed.definition import KernelDefinition
from ninetoothed.expr import as_expr
from ninetoothed.expr.sizes import evaluate
from ninetoothed.runtime.agreement import agreed
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.conditions import SizeCondition
from ninetoothed.runtime.selection.choices import Selection
from ninetoothed.runtime.specialise import HIGHEST, WIDE
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.runtime.variants import Variant


@dataclass(frozen=True, eq=False)
class CallNames:
    """The names of a call: formulas of its sizes and strides, numbers of blocks and constexpr symbols.

    described: the positions of arguments behind descriptors, whose strides count along dimensions of one element, too.
    """

    plan: SpecialisationPlan
    call: BoundCall
    selection: Selection
    described: frozenset[int] = frozenset()

    @property
    def definition(self) -> KernelDefinition:
        return self.plan.definition

    @cached_property
    def tensors(self) -> tuple[int, ...]:
        """The positions of arguments that are tensors with sizes, those that are touched first."""
        found = [
            i
            for i, (parameter, value) in enumerate(zip(self.definition.parameters, self.call.arguments, strict=True))
            if parameter.source.ndim and getattr(value, "ndim", None) == parameter.source.ndim
        ]
        return tuple(sorted(found, key=lambda i: self.plan.roles[i] != "tensor"))

    @cached_property
    def names(self) -> dict[str, Formula]:
        """The formula of each name in an expression of this variant."""
        names: dict[str, Formula] = {}
        for i in self.tensors:
            for dim, (size, stride) in enumerate(self._dimensions(i)):
                if not isinstance(size, int) and size.name is not None:
                    names.setdefault(size.name, f"size_{i}_{dim}")
                names.setdefault(plain_name(stride), self._stride(i, dim, size))
        numbers = {**dict(self.call.constants), **self.selection.schedule.blocks}
        return names | {name: number for name, number in numbers.items() if name not in names}

    def _dimensions(self, position: int) -> Iterator[tuple]:
        source = self.definition.parameters[position].source
        return zip(source.sizes, source.strides, strict=True)

    def _stride(self, position: int, dim: int, size: object) -> str:
        is_exact = position in self.described or str(size) in self.plan.counted
        return f"{'stride' if is_exact else 'step'}_{position}_{dim}"

    def of(self, e: Any) -> Formula:
        """Write an expression, or a size."""
        return formula_of(as_expr(e), self.names)


def guards_of(places: CallNames, variant: Variant) -> tuple[Formula, ...]:
    """List what must hold of a call for which a variant is right; what always holds is left out."""
    parts = (_one_name(places), _facts(places, variant), _narrow(places, variant), _agreement(places, variant))
    found: dict[Formula, None] = dict.fromkeys(guard for part in parts for guard in part if not isinstance(guard, int))
    footprints = variant.program.footprints
    if footprints is not None and footprints.questions:
        # Numbers have told that its programs do not race: it serves calls of these numbers.
        values = places.selection.values
        names = [(name, formula) for name, formula in places.names.items() if not isinstance(formula, int)]
        found |= dict.fromkeys(written("==", formula, values[name]) for name, formula in names if name in values)
    return tuple(found)


def _one_name(places: CallNames) -> Iterator[Formula]:
    """Sizes that are numbers or formulas, and names that several dimensions share."""
    for i in places.tensors:
        for dim, (size, stride) in enumerate(places._dimensions(i)):
            is_touched = places.plan.roles[i] == "tensor"
            own = f"size_{i}_{dim}"
            wanted = size if isinstance(size, int) else places.of(size)
            if is_touched and wanted != own:
                yield written("==", own, wanted)
            first = places.names[plain_name(stride)]
            if is_touched and isinstance(first, str) and first.partition("_")[2] != f"{i}_{dim}":
                yield written("==", first, f"step_{i}_{dim}")


def _facts(places: CallNames, variant: Variant) -> Iterator[Formula]:
    """Yield what its specialisation knows of calls."""
    known = variant.selection.specialisation
    for name, value in known.known:
        if not isinstance(places.names.get(name, 1), int):
            yield _of_stride(places.names[name], written("==", places.names[name], places.of(value)))
    for name, divisor in known.divisors:
        yield _of_stride(places.names[name], written("==", written("%", places.names[name], divisor), 0))
    for name, bound in known.bounds:
        yield written("<=", places.names[name], bound)


def _of_stride(name: Formula, guard: Formula) -> Formula:
    """Ask nothing of the stride of a dimension with one element, unless that counts."""
    if isinstance(name, str) and name.startswith("step_"):
        return written("or", guard, written("==", name.replace("step", "size"), 1))
    return guard


def _narrow(places: CallNames, variant: Variant) -> Iterator[Formula]:
    """Yield that no offset, index or size of a tensor needs more than 32 bits; as `specialise` counts them."""
    for i, argument in enumerate(variant.selection.specialisation.arguments):
        rank = places.definition.parameters[i].source.ndim
        if argument.role != "tensor" or argument.wide or not rank:
            continue
        sizes, steps = ([f"{what}_{i}_{dim}" for dim in range(rank)] for what in ("size", "step"))
        last = written(
            "+", *(written("*", written("+", size, -1), step) for size, step in zip(sizes, steps, strict=True))
        )
        yield written("<=", written("max", last, written("*", *sizes), *sizes, *steps), WIDE - 1)


def _agreement(places: CallNames, variant: Variant) -> Iterator[Formula]:
    """Yield what is checked of each call: sizes that agree, and how high the grid may be."""
    plan, selection = places.plan, places.selection
    for requirement in variant.program.requirements:
        yield written("==", places.of(requirement.left), places.of(requirement.right))
    for condition in plan.conditions:
        yield _condition(places, condition)
    for a, b in agreed(plan, selection.values):
        yield written("==", places.of(a), places.of(b))
    shapes = _outermost(places)
    for shape, other in itertools.pairwise(shapes):
        yield from _same_shape(places, shape, other)
    if shapes:
        sizes = [places.of(size) for size in shapes[0]]
        yield written("<=", written("*", 1, *sizes), 2**31 - 1)
        if selection.specialisation.spread:
            yield written("<=", written("*", selection.schedule.parts, *sizes[:-1]), HIGHEST)


def _condition(places: CallNames, condition: SizeCondition) -> Formula:
    size, wanted = places.of(condition.size), places.of(condition.wanted)
    if condition.rule == "fit":
        return written("==", size, wanted)
    if condition.rule == "squeeze":
        return written("<=", size, 1)
    if condition.rule == "expand":
        is_one = (written("==", size, each) for each in (0, 1, wanted))
        return written("and", written("<=", 0, wanted), written("or", *is_one))
    return written("<=", 0 if condition.rule == "pad" else 1, size)


def _outermost(places: CallNames) -> list[tuple]:
    pairs = zip(places.definition.parameters, places.plan.roles, strict=True)
    return [
        parameter.outermost
        for parameter, role in pairs
        if role == "tensor" or (role == "scalar" and parameter.outermost)
    ]


def _same_shape(places: CallNames, shape: tuple, other: tuple) -> Iterator[Formula]:
    """Yield that two outermost shapes are equal, once dimensions are dropped that are 1 in the sample."""
    if len(shape) == len(other) and places.selection.specialisation.shared_grid:
        yield from (written("==", places.of(a), places.of(b)) for a, b in zip(shape, other, strict=True))
        return
    kept = []
    for each in (shape, other):
        ones = [size for size in each if evaluate(as_expr(size), places.selection.values) == 1]
        yield from (written("==", places.of(size), 1) for size in ones)
        kept.append([size for size in each if size not in ones])
    yield from (written("==", places.of(a), places.of(b)) for a, b in zip(*kept, strict=True))
