"""Read and check the operands of meta-operations. Errors name the call, the tensor, the user's line and the remedy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from ninetoothed.arrangement.sizes import as_int, as_size
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.value import Arrangement, Shape, Size, Step
from ninetoothed.errors import ArrangementError, arrangement_error
from ninetoothed.expr import Expr, Facts, as_expr, is_nonnegative
from ninetoothed.wording import brief, counted

_T = TypeVar("_T")


def shape_text(shape: Iterable[Size | Expr]) -> str:
    """Print a shape, its symbolic sizes simplified: `(4, x_size_0 // 2)`."""
    sizes = [str(as_expr(size)) for size in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def described(arrangement: Arrangement, level: int) -> str:
    """Name a level of an arranged tensor in a message: `x.dtype`, of shape (2, 2)."""
    return f"`{arrangement.source.name}{'.dtype' * level}`, of shape {shape_text(arrangement.levels[level])}"


def several(value: Any) -> tuple:
    """Return the items of a tuple or a list; of any other value, that one."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def one_by_one(function: Callable[..., _T]) -> Callable[..., _T]:
    """Wrap a method that takes several sizes or dimensions at once, so that it takes them one by one, too.

    x.permute(1, 0)              x.permute((1, 0))
    x.tile(2, -1, strides=...)   x.tile((2, -1), strides=...)
    """

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> _T:
        if len(args) > 1 and all(_is_single(each) for each in args):
            args = (args,)
        return function(self, *args, **kwargs)

    return call


def _is_single(value: Any) -> bool:
    return value is None or isinstance(value, str | Symbol) or as_int(value) is not None


@dataclass(frozen=True)
class KeywordArgument:
    """An argument that is given by name."""

    name: str
    value: Any


@dataclass(frozen=True)
class MetaOperation:
    """Hold a meta-operation applied to one level of an arrangement, with its arguments as written."""

    arrangement: Arrangement
    level: int
    operation: str
    arguments: tuple[Any, ...] = ()

    @property
    def shape(self) -> Shape:
        """The shape of the level."""
        return self.arrangement.levels[self.level]

    def error(self, what: str, remedy: str) -> ArrangementError:
        """Make the error at the user's line.

        tile((2, 3)) of `x`, of shape (x_size_0,): tile_shape (2, 3) has 2 entries; give 1, one a dimension
        """
        return arrangement_error(f"{self} of {described(self.arrangement, self.level)}: {what}", remedy)

    def then(self, arguments: tuple, *shapes: Shape) -> Arrangement:
        """Return the arrangement after it, with the arguments of its index rule and the shapes that it makes."""
        return self.arrangement.then(Step(self.operation, self.level, self.shape, arguments), *shapes)

    def __str__(self) -> str:
        if self.operation == "index":
            (key,) = self.arguments
            return f"[{', '.join(map(_item_text, key if isinstance(key, tuple) else (key,)))}]"
        return f"{self.operation}({', '.join(map(_text, self.arguments))})"

    def sizes(self, values: Any, name: str) -> Shape:
        """Read ints and symbols, one or several."""
        try:
            return tuple(map(as_size, several(values)))
        except (TypeError, ArrangementError) as error:
            raise self.error(f"{name}: {error.args[0]}", "sizes are ints or symbols") from None

    def per_dimension(self, values: Any, name: str) -> Shape:
        """Read one int or symbol for each dimension."""
        values, rank = self.sizes(values, name), len(self.shape)
        if len(values) != rank:
            what = f"{name} {shape_text(values)} has {counted(len(values), 'entry', 'entries')}"
            raise self.error(what, f"give {rank}, one a dimension")
        return values

    def dimension(self, dim: Any, count: int | None = None, wrap: int | None = None) -> int:
        """Read a dimension below `count` (by default the rank); negative ones count from `wrap`."""
        count = len(self.shape) if count is None else count
        wrap = count if wrap is None else wrap
        read = as_int(dim)
        if read is None or not -wrap <= read < count:
            remedy = f"use {-wrap} to {count - 1}" if count else "it has none"
            raise self.error(f"there is no dimension {_text(dim)}", remedy)
        return read % wrap if read < 0 else read

    def dimensions(self, dims: Any) -> tuple[int, ...]:
        """Read several dimensions, each named once."""
        read = tuple(self.dimension(dim) for dim in several(dims))
        if len(set(read)) != len(read):
            raise self.error("a dimension is named twice", "name each once")
        return read

    def pairs(self, values: Any, name: str) -> tuple[Shape, ...]:
        """Read a pair of ints or symbols for each dimension."""
        given, rank = several(values), len(self.shape)
        if len(given) != rank or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in given):
            pairs = f"{counted(rank, 'pair')} (before, after)"
            raise self.error(f"{name} is {_text(values)}", f"give {pairs}, one a dimension, such as ((1, 1),) for one")
        return tuple(self.sizes(pair, name) for pair in given)


def _text(value: Any) -> str:
    """Print an argument; symbolic sizes are simplified."""
    if isinstance(value, KeywordArgument):
        return f"{value.name}={_text(value.value)}"
    if isinstance(value, tuple | list):
        items = ", ".join(map(_text, value))
        return f"({items}{',' if len(value) == 1 else ''})"
    return str(value.expr) if isinstance(value, Symbol) else brief(value)


def _item_text(item: Any) -> str:
    """Print an item of a subscript as Python writes it."""
    if not isinstance(item, slice):
        return "..." if item is Ellipsis else _text(item)
    start, stop = ("" if bound is None else _text(bound) for bound in (item.start, item.stop))
    return f"{start}:{stop}" + ("" if item.step is None else f":{_text(item.step)}")


def is_below(value: Size, bound: int) -> bool:
    """Tell whether a size is known to be below a number."""
    return isinstance(value, int) and value < bound


def never_negative(size: Symbol, sizes: frozenset[str] | None = None) -> bool:
    """Tell whether a size is 0 or more if its names are; with `sizes`, if these names and block sizes are."""
    facts = Facts()
    for name, leaf in size.leaves.items():
        if sizes is None or leaf.meta or name in sizes:
            facts = facts.bind(name, 0)
    return is_nonnegative(size.expr, facts)
