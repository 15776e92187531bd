"""Plan how calls of a kernel are specialised: which facts about its sizes and strides are worth knowing.

Made once for a kernel, before any call.

Elements that lie side by side are read and written 16 bytes at once (8 halves, or 4 floats) where all rows start and
end between two such vectors: where, along a dimension of unit stride, the strides of the other dimensions are multiples
of 8, and so are the dimension's size and what its index is made of. Multiples of 16 are told apart everywhere; those of
8 cost variants, and so only where it matters: `SourceDimension` says where.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ninetoothed.arrangement.metaops import index_map
from ninetoothed.arrangement.sizes import plain_name
from ninetoothed.arrangement.symbol import Symbol, leaves_of
from ninetoothed.arrangement.tiling import Tiling, cut_alike
from ninetoothed.arrangement.value import Arrangement, Size
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.expr import as_expr, var
from ninetoothed.runtime.arguments import role_of
from ninetoothed.runtime.conditions import SizeCondition, conditions_of


@dataclass(frozen=True)
class SourceDimension:
    """One dimension of a source: the name of its stride, and the names in its size and in what indexes it."""

    stride: str
    names: frozenset[str]


def source_dimensions(arrangement: Arrangement) -> tuple[SourceDimension, ...]:
    """List the dimensions of the source."""
    indices, _ = index_map(arrangement)
    source = arrangement.source
    return tuple(
        SourceDimension(plain_name(stride), as_expr(size).variables | index.variables)
        for index, size, stride in zip(indices, source.sizes, source.strides, strict=True)
    )


@dataclass(frozen=True)
class SpecialisationPlan:
    """The facts about a kernel's sizes and strides that are known before any call."""

    definition: KernelDefinition

    def without(self, absent: frozenset[str]) -> SpecialisationPlan:
        """Return the plan of variants that touch none of these parameters."""
        return SpecialisationPlan(self.definition.without(absent))

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The role of each parameter (see `role_of`)."""
        return tuple(role_of(parameter) for parameter in self.definition.parameters)

    @cached_property
    def apart(self) -> frozenset[int]:
        """The places of the parameters that are no part of another one, with which it shares its memory."""
        return frozenset(i for i, parameter in enumerate(self.definition.parameters) if parameter.part_of is None)

    @cached_property
    def tensors(self) -> tuple[KernelParameter, ...]:
        """The parameters that are tensors which the application touches."""
        pairs = zip(self.definition.parameters, self.roles, strict=True)
        return tuple(parameter for parameter, role in pairs if role == "tensor")

    @cached_property
    def needed(self) -> frozenset[str]:
        """Names of sizes that the arrangements of touched tensors mention."""
        return frozenset(name for parameter in self.tensors for name in parameter.arrangement.symbols)

    @cached_property
    def exact(self) -> frozenset[str]:
        """Sizes declared constexpr."""
        sizes = (size for parameter in self.definition.parameters for size in parameter.source.sizes)
        return frozenset(name for size in sizes for name, leaf in leaves_of(size).items() if leaf.constexpr)

    @cached_property
    def order(self) -> dict[str, tuple[int, int]]:
        """The names of sizes, each with the last parameter and dimension that it is the size of."""
        return {
            size.name: (position, dim)
            for position, parameter in enumerate(self.definition.parameters)
            for dim, size in enumerate(parameter.source.sizes)
            if isinstance(size, Symbol) and size.name is not None
        }

    @cached_property
    def sizes(self) -> frozenset[str]:
        """Collect every name to which the size of some parameter gives a value."""
        return frozenset(self.order)

    @cached_property
    def tiled(self) -> frozenset[str]:
        """Sizes that bound what is loaded at once: those in a parameter's innermost level."""
        names = (name for parameter in self.tensors for size in parameter.innermost for name in leaves_of(size))
        return frozenset(names) & self.sizes

    @cached_property
    def counted(self) -> frozenset[str]:
        """Sizes that count the rows of a kernel of rows, of which each program has a whole one.

        A single row is in the same class as many: each row is computed by the same code, with its sums in the same
        order, however many there are.
        """
        is_of_rows = all(len(each.arrangement.levels) == 2 for each in self.tensors) and self.tiled
        if self.definition.meta_symbols or not is_of_rows:
            return frozenset()
        names = (name for each in self.tensors for size in each.outermost for name in leaves_of(size))
        return frozenset(names) & self.sizes - self.tiled

    @cached_property
    def dimensions(self) -> tuple[tuple[SourceDimension, ...], ...]:
        """The dimensions of each tensor's source."""
        return tuple(source_dimensions(parameter.arrangement) for parameter in self.tensors)

    @cached_property
    def conditions(self) -> tuple[SizeCondition, ...]:
        """Return what the arrangements of touched tensors ask of their sizes."""
        return tuple(each for parameter in self.tensors for each in conditions_of(parameter, self._others(parameter)))

    def _others(self, parameter: KernelParameter) -> frozenset[str]:
        """Return the names of sizes of other parameters."""
        own = {name for size in parameter.source.sizes for name in leaves_of(size)}
        others = (size for each in self.definition.parameters if each is not parameter for size in each.source.sizes)
        return frozenset(name for size in others for name in leaves_of(size)) - own

    @cached_property
    def outermost(self) -> tuple[tuple[str, tuple[Tiling, ...]], ...]:
        """The names of touched tensors, and the plain tilings of their outermost dimensions."""
        return tuple(
            (parameter.name, tuple(tiling for dimension in levels[0] for tiling in dimension if tiling.is_plain))
            for parameter, role, levels in zip(
                self.definition.parameters, self.roles, self.definition.tilings, strict=True
            )
            if role == "tensor" and levels[0]
        )

    @cached_property
    def decisive(self) -> frozenset[str]:
        """The block sizes that decide whether a call's sizes fit this kernel."""
        sizes = [as_expr(size) for parameter in self.tensors for size in parameter.outermost]
        sizes += [as_expr(size) for condition in self.conditions for size in (condition.size, condition.wanted)]
        return frozenset(name for size in sizes for name in size.variables) & self.definition.meta_symbols.keys()

    @cached_property
    def twins(self) -> tuple[tuple[str, str], ...]:
        """Pairs (name, earlier name) of sizes in equal formulas at equal places of two arrangements: likely equal.

        Those of outermost dimensions that are cut alike are surely equal, also where tiles are cut again.
        """
        earliest: dict[tuple, list[str]] = {}
        pairs: set[tuple[str, str]] = set()
        for place, size in self._places():
            formula = as_expr(size)
            names = sorted(formula.variables & self.order.keys(), key=self.order.__getitem__)
            formula = formula.subs({name: var(f"_{number}") for number, name in enumerate(names)})
            others = earliest.setdefault((*place, formula), names)
            pairs.update(self._ordered(*pair) for pair in zip(names, others, strict=True))
        pairs.update(self._ordered(*names) for names in self._cut_alike() if set(names) <= self.order.keys())
        return tuple(sorted(pairs, key=lambda pair: [self.order[name] for name in pair]))

    def _ordered(self, first: str, second: str) -> tuple[str, str]:
        """Two names, the later one first."""
        return (first, second) if self.order[first] >= self.order[second] else (second, first)

    def _cut_alike(self) -> Iterator[tuple[str, str]]:
        """Yield the sizes of dimensions of two outermost levels that are cut alike."""
        used = zip(self.definition.tilings, self.roles, strict=True)
        shapes = [levels[0] for levels, role in used if role == "tensor"]
        for own, others in itertools.combinations(shapes, 2):
            if len(own) == len(others):
                pairs = (pair for both in zip(own, others, strict=True) for pair in cut_alike(*both) or ())
                yield from ((str(a.size), str(b.size)) for a, b in pairs)

    def _places(self) -> Iterator[tuple[tuple[int, ...], Size]]:
        """Yield where each size of each arrangement stands (how many levels, which, its rank, which dimension)."""
        for parameter in self.tensors:
            levels = parameter.arrangement.levels
            for level, shape in enumerate(levels):
                for dim, size in enumerate(shape):
                    yield (len(levels), level, len(shape), dim), size
