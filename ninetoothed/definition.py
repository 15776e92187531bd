"""The definition of a kernel: `make` collects it, and every later stage reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ninetoothed.arrangement.sizes import plain_name
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tiling import Tilings, tilings
from ninetoothed.arrangement.value import Arrangement, SourceTensor


@dataclass(frozen=True)
class KernelParameter:
    """One parameter of a kernel: its name in the application and its arranged tensor.

    touched: whether the application's text mentions it. One that is never touched is exempt from checks; one that only
        some variants touch is exempt in the others (see `runtime.dispatch`).
    tiled: whether the text mentions its tile, rather than only its source or shape.
    """

    name: str
    arrangement: Arrangement
    touched: bool = True
    tiled: bool = True

    @property
    def source(self) -> SourceTensor:
        return self.arrangement.source

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
    def tilings(self) -> tuple[tuple[tuple[Tilings, ...], ...], ...]:
        """Return how the dimensions of each level were cut, for each parameter."""
        return tilings([parameter.arrangement for parameter in self.parameters])

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
