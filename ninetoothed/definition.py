"""The definition of a kernel: `make` collects it, and every later stage reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ninetoothed.arrangement.sizes import plain_name
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tiling import Tilings, tilings
from ninetoothed.arrangement.value import Arrangement, Shape, Size, SourceTensor


@dataclass(frozen=True)
class Jagged:
    """The entries of a jagged parameter: what says where they are (see `ninetoothed.jagged`).

    dim: the dimension whose size differs from entry to entry; dimension 0 counts the entries.
    sizes: the sizes as users see them, with the longest entry along `dim`.
    offsets, lengths, entries, sharing: the names of the parameters beside it.
    """

    dim: int
    sizes: Shape
    offsets: str
    lengths: str
    entries: str
    sharing: str

    @property
    def longest(self) -> Size:
        """The length of the longest entry."""
        return self.sizes[self.dim]


@dataclass(frozen=True)
class KernelParameter:
    """One parameter of a kernel: its name in the application and its arranged tensor.

    touched: whether the application's text mentions it. One that is never touched is exempt from checks; one that only
        some variants touch is exempt in the others (see `runtime.dispatch`).
    tiled: whether the text mentions its tile, rather than only its source or shape.
    jagged: where its entries are, if their sizes differ. part_of: the jagged parameter that this one belongs to;
        callers and applications do not see it.
    """

    name: str
    arrangement: Arrangement
    touched: bool = True
    tiled: bool = True
    jagged: Jagged | None = None
    part_of: str | None = None

    @property
    def source(self) -> SourceTensor:
        return self.arrangement.source

    @property
    def as_given(self) -> Arrangement:
        """The arrangement of the tensor as callers see it, where a jagged dimension counts its longest entry."""
        if self.jagged is None:
            return self.arrangement
        return replace(self.arrangement, source=replace(self.source, sizes=self.jagged.sizes))

    @property
    def outermost(self) -> tuple[int | Symbol, ...]:
        return self.arrangement.levels[0]

    @property
    def innermost(self) -> tuple[int | Symbol, ...]:
        """The shape of the tiles that are loaded; () for single elements."""
        return self.arrangement.levels[-1] if len(self.arrangement.levels) > 1 else ()


@dataclass(frozen=True, eq=False)
class KernelDefinition:
    """An arrangement applied to symbolic tensors, together with an application.

    symbols: the constexpr and meta symbols that occur in the arrangement, by name (sizes aside).
    num_warps, num_stages: what the user gave, as tuples to choose from; None leaves the choice to the compiler.
    tune: whether to choose by measuring, among at most `max_num_configs` configurations.
    given_names: the user's names for generated ones (of block sizes, say), for messages.
    """

    name: str
    parameters: tuple[KernelParameter, ...]
    application: Callable[..., Any]
    symbols: dict[str, Symbol]
    num_warps: tuple[int, ...] | None = None
    num_stages: tuple[int, ...] | None = None
    max_num_configs: int | None = None
    tune: bool = False
    given_names: Mapping[str, str] = field(default_factory=dict)

    def without(self, names: frozenset[str]) -> KernelDefinition:
        """Return the definition for variants that touch none of these parameters."""
        parameters = (replace(each, touched=each.touched and each.name not in names) for each in self.parameters)
        return replace(self, parameters=tuple(parameters))

    @cached_property
    def given(self) -> tuple[KernelParameter, ...]:
        """The parameters for which callers give arguments, and which the application has."""
        return tuple(parameter for parameter in self.parameters if parameter.part_of is None)

    def as_given(self) -> KernelDefinition:
        """Return the definition without what is behind jagged parameters, as `make` was given it."""
        return replace(self, parameters=tuple(replace(p, arrangement=p.as_given, jagged=None) for p in self.given))

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each parameter."""
        return {parameter.name: position for position, parameter in enumerate(self.parameters)}

    @cached_property
    def is_jagged(self) -> bool:
        """Tell whether some parameter is jagged."""
        return any(parameter.jagged for parameter in self.parameters)

    @cached_property
    def tilings(self) -> tuple[tuple[tuple[Tilings, ...], ...], ...]:
        """Return how the dimensions of each level were cut, for each parameter."""
        return tilings([parameter.as_given for parameter in self.parameters])

    @cached_property
    def meta_symbols(self) -> dict[str, Symbol]:
        return {name: symbol for name, symbol in self.symbols.items() if symbol.meta}

    @cached_property
    def tile_sizes(self) -> frozenset[str]:
        """The symbols that are extents of tiles by themselves, and not a part of one."""
        sizes = (size for parameter in self.parameters for size in parameter.innermost)
        return frozenset(size.name for size in sizes if isinstance(size, Symbol) and size.name in self.symbols)

    @cached_property
    def constexpr_symbols(self) -> dict[str, Symbol]:
        return {name: symbol for name, symbol in self.symbols.items() if not symbol.meta}

    @cached_property
    def size_symbols(self) -> frozenset[str]:
        """The constexpr symbols that are sizes of parameters: tensors give their values, and calls may."""
        sizes = (size for parameter in self.parameters for size in parameter.source.sizes)
        return frozenset(plain_name(size) for size in sizes if isinstance(size, Symbol) and size.constexpr)
