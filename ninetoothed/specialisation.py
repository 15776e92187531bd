"""The specialisation of a call: a hashable value with everything that a compiled variant may rely on.

Two calls whose specialisations are equal run the same code. Only *classes* of run-time numbers enter it, so that a new
batch size or sequence length compiles nothing once its class has been seen:

    any size or stride            1 (a stride: 0), divisible by 16, or neither
    where rows are read at once   divisible by 8, too: strides beside one of 1, and sizes along the latter's dimension;
                                  sizes that only count programs, such as batches and rows, are not told apart by it
    a size loaded as a tile       also its power-of-two bucket
    a size declared constexpr     its value
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr, Facts, as_expr, divisor, var

T = TypeVar("T")


@dataclass(frozen=True)
class ArgumentClass:
    """The class of one argument of a call.

    role: "tensor", "scalar" (a number known at run time), "constant" (a number known when compiling), or "absent" (an
        argument that the variant never touches, of which nothing is known).
    wide: whether some element lies beyond 2^31 - 1 elements from the first.
    aligned: whether the address is a multiple of 16 bytes.
    """

    role: str
    dtype: DType | None = None
    wide: bool = False
    aligned: bool = True
    value: Any = None


@dataclass(frozen=True)
class Specialisation:
    """The facts under which one variant of a kernel is compiled.

    arguments: one a kernel parameter, in order.
    known: (name, number or formula) for symbols that need not be passed. A number: constexprs, chosen block sizes,
        sizes and strides that are 1, strides that are 0. Another name: sizes that must agree and did, so that one
        run-time argument serves both. A product of sizes: strides of tensors without gaps in memory.
    divisors: (name, 16 or 8) for sizes and strides that are multiples of it; of 8 only where elements then make whole
        vectors (see `runtime.specialise_plan`).
    bounds: (name, upper bound) for sizes loaded as tiles: the next power of two (0 or 1 for such sizes).
    shared_grid: whether all parameters have the same outermost shape, dimension by dimension, so that one set of
        program indices serves all.
    spread: whether a GPU can count the programs along its own axes: not too many along any but the last.
    in_place: whether tensors of the call may be the same memory: two of them begin at one address.
    dot_precision: "high" where products of float32 may be of tf32, else "highest".
    """

    arguments: tuple[ArgumentClass, ...]
    known: tuple[tuple[str, int | Expr], ...] = ()
    divisors: tuple[tuple[str, int], ...] = ()
    bounds: tuple[tuple[str, int], ...] = ()
    shared_grid: bool = True
    spread: bool = True
    in_place: bool = True
    dot_precision: str = "highest"

    @property
    def numbers(self) -> dict[str, int]:
        """The symbols that are known exactly, by name."""
        return {name: value for name, value in self.known if isinstance(value, int)}

    def bindings(self) -> dict[str, Expr]:
        """Return the expressions to substitute for the known symbols."""
        return {name: as_expr(value) for name, value in self.known}

    def with_numbers(self, numbers: Mapping[str, int]) -> Specialisation:
        """Add symbols that are known exactly; no formula mentions them."""
        return replace(self, known=_sorted({**dict(self.known), **numbers}))

    def unified(self, name: str, size: Expr) -> Specialisation:
        """Rename a size to another, or to a number; facts about either then hold for both."""
        known = {each: _size(as_expr(value).subs({name: size})) for each, value in self.known}
        known[name] = _size(size)
        first, bounds, divisors = str(size), dict(self.bounds), dict(self.divisors)
        if name in bounds and not size.is_constant:
            bounds[first] = min(bounds[name], bounds.get(first, bounds[name]))
        if name in divisors and not size.is_constant:
            divisors[first] = max(divisors[name], divisors.get(first, 1))
        return replace(self, known=_sorted(known), divisors=_sorted(divisors), bounds=_sorted(bounds))

    def widened(self) -> Specialisation:
        """Let all integers take 64 bits."""
        return replace(self, arguments=tuple(replace(each, wide=each.role == "tensor") for each in self.arguments))

    def facts(self, names: Iterable[str]) -> Facts:
        """Collect the ranges and divisors of the run-time integers `names`."""
        upper, divisors = dict(self.bounds), dict(self.divisors)
        facts = Facts()
        for name in names:
            facts = facts.bind(name, 0, upper.get(name), divisors.get(name, 1))
        return facts

    def multiple_of(self, name: str) -> int:
        """Return a number known to divide a size or a stride."""
        value = self.bindings().get(name, var(name))
        return divisor(value, self.facts(value.variables))


def _size(value: Expr) -> int | Expr:
    return value.constant if value.is_constant else value


def _sorted(numbers: Mapping[str, T]) -> tuple[tuple[str, T], ...]:
    return tuple((name, numbers[name]) for name in sorted(numbers))
