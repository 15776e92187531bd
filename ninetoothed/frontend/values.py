"""Hold the values of names and expressions while an application is traced.

A name holds an `ir.Value` (computed when the kernel runs), an `Expr` (an integer made of sizes and loop counters), a
Python object of the user's, or one of the handles below.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import numpy

from ninetoothed.dtypes import DType
from ninetoothed.errors import AbsentError
from ninetoothed.expr import Expr
from ninetoothed.ir import Value
from ninetoothed.wording import brief, counted

# What only a parameter's tile has, for it is in memory, whatever was assigned to the parameter.
MEMORY_ATTRIBUTES = ("source", "offsets", "data_ptr")


@dataclass(frozen=True)
class TileRef:
    """A handle on an element of a level of a parameter, not loaded yet. `indices`: a tuple for each level above."""

    parameter: int
    indices: tuple[tuple[Expr, ...], ...]

    @property
    def level(self) -> int:
        """The level of the element: how many levels are above it."""
        return len(self.indices)


@dataclass(frozen=True, eq=False, repr=False)
class Absent:
    """A parameter that is absent from this variant: any use raises `AbsentError`."""

    name: str

    def _touched(self, *_: Any) -> NoReturn:
        raise AbsentError(self.name)

    __getattr__ = __repr__ = __bool__ = __eq__ = __lt__ = __gt__ = __iter__ = __len__ = __getitem__ = __call__ = (
        _touched
    )
    __int__ = __float__ = __complex__ = __index__ = __add__ = __radd__ = __mul__ = __rmul__ = __neg__ = _touched
    __hash__ = object.__hash__


def absent(name: str) -> TileRef:
    """Stand in for the tile of a parameter that is absent; any use raises."""
    return cast(TileRef, Absent(name))


@dataclass(frozen=True)
class Dimension:
    """One dimension of a level of a parameter."""

    parameter: int
    level: int
    dim: int


class Chosen(Expr):
    """A number computed from blocks that the compiler chose; `origin` is the expression over their names."""

    origin: Expr


def chosen(number: Expr, origin: Expr) -> Chosen:
    """Return a number that remembers the expression over block sizes that it comes from."""
    number = Chosen(number.terms)
    object.__setattr__(number, "origin", origin)
    return number


def origin(size: Expr) -> Expr:
    """Return the expression that a number comes from, in which blocks still have names: others may be chosen."""
    return size.origin if isinstance(size, Chosen) else size


class Literal(int):
    """An index as it is written in a subscript: below zero, it counts from the end."""


class KnownCount(int):
    """A number of tiles that is known when compiling, with its dimension."""

    dimension: Dimension


class OpenCount(Expr):
    """A number of tiles that only a call tells, with its dimension."""

    dimension: Dimension


def count_of(size: Expr, dimension: Dimension) -> KnownCount | OpenCount:
    """Return the number of tiles along a dimension. Arithmetic on it gives a plain number, without the dimension."""
    count = KnownCount(size.constant) if size.is_constant else OpenCount(size.terms)
    object.__setattr__(count, "dimension", dimension)
    return count


@dataclass(frozen=True)
class LevelRef:
    """The type of a level's elements when they are tiles themselves: `x.dtype` of a hierarchical tile.

    indices: those of the tile, a tuple for each level above it.
    """

    parameter: int
    level: int
    indices: tuple[tuple[Expr, ...], ...] = ()


@dataclass(frozen=True)
class SourceRef:
    """The tensor that a parameter was arranged from: `x.source`."""

    parameter: int


@dataclass(frozen=True)
class BoundMethod:
    """A method of a tile or a handle, such as `x.to` or `x.source.stride`."""

    owner: Any
    name: str


def plain(value: Any) -> Any:
    """Convert a number of NumPy's to Python's."""
    return value.item() if isinstance(value, numpy.number | numpy.bool_) else value


def name_of(function: Any) -> str:
    """Name a function in a message."""
    return getattr(function, "__name__", None) or getattr(function, "name", None) or type(function).__name__


def shown(value: Any) -> str:
    """Describe any value in a message, in the user's terms."""
    if isinstance(value, Value):
        shape = ", ".join(map(str, value.type.shape))
        return f"a tile of {value.type.dtype} of shape ({shape})" if shape else f"a number of type {value.type.dtype}"
    if isinstance(value, TileRef | SourceRef | LevelRef):
        return {TileRef: "a tile", SourceRef: "a source", LevelRef: "the type of a tile"}[type(value)]
    if isinstance(value, tuple | list):
        return f"a sequence of {counted(len(value), 'item')}"
    if isinstance(value, FormattedText):
        return "text that is only known at run time (it can be printed)"
    if callable(value) or isinstance(value, InlineFunction | BoundMethod):
        return f"the function {name_of(value)!r}"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__!r}"
    return brief(value)


@dataclass(frozen=True)
class FormattedText:
    """An f-string with run-time values in it: for `print` alone."""

    pieces: tuple


@dataclass(frozen=True, eq=False)
class InlineFunction:
    """A function to inline: a helper, or one that the application defines, which sees the `scope` around it."""

    tree: Any
    scope: Scope | None
    parsed: Any
    name: str
    defaults: tuple = ()
    keyword_defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Between:
    """A tensor between two fused kernels that is in no memory.

    name: of the first kernel's parameter. tile: the element of another tensor that is arranged like it. is_guessed:
    whether nobody said of which type it is.
    """

    name: str
    tile: TileRef
    dtype: DType
    is_guessed: bool = False


@dataclass(eq=False)
class Cell:
    """A variable. Scopes share cells where a helper's parameter is the caller's variable (parameters are by reference).

    A cell with a `tile` is a tile parameter: assigning it stores. Its `value` is then the one assigned last, or None
    while memory holds the only copy.

    depth: how many regions were open when it was made. In these it is local, and never loop-carried.
    between: the tensor whose tile it holds, of a fused kernel that leaves that tensor out.
    """

    name: str
    value: Any = None
    tile: TileRef | None = None
    depth: int = 0
    between: Between | None = None


class _Undefined:
    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()


@dataclass(eq=False)
class Scope:
    """The variables of one function call while it is traced.

    depth: how many regions were open when it began. returns: whether the function returns a value.
    """

    parsed: Any
    cells: dict[str, Cell] = field(default_factory=dict)
    parent: Scope | None = None
    depth: int = 0
    returns: bool = False

    def find(self, name: str) -> Cell | None:
        """Find a variable by name, in this scope or one around it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.cells:
                return scope.cells[name]
            scope = scope.parent
        return None
