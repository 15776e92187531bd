"""The specialisation of a call: a plain, hashable value with all that a compiled variant may rely on.

Two calls whose specialisations are equal run the same code. Only *classes* of run-time numbers enter it, so that a new
batch size or sequence length compiles nothing once its class has been seen:

    any size or stride            1 (a stride: 0), divisible by 16, or neither
    where rows are read at once   divisible by 8, too: strides beside one of 1, and sizes along the latter's dimension;
                                  sizes that only count programs, such as batches and rows, are not told apart by it
    a size loaded as a tile       also its power-of-two bucket
    a size declared constexpr     its value
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr, Facts, Range, const, divisor, var


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
    constants: (name, number) for symbols known exactly: constexprs, chosen block sizes, constexpr sizes, sizes and
        strides that are 1, strides that are 0.
    aliases: (name, other name) for sizes that must agree and did, so that one run-time argument serves both.
    products: (name, number, sizes) for strides of tensors without gaps in memory: number times the sizes.
    divisible: sizes and strides that are multiples of 16.
    half_divisible: those that are multiples of 8, and not of 16, where elements then make whole vectors; see
        `runtime.vectors`.
    buckets: (name, upper bound) for sizes loaded as tiles; the bound is a power of two (0 or 1 for such sizes).
    shared_grid: whether all parameters have the same outermost shape, dimension by dimension, so that one set of
        program indices serves all.
    spread: whether a GPU can count the programs along its own axes: not too many along any but the last.
    dot_precision: `torch.get_float32_matmul_precision()`.
    """

    arguments: tuple[ArgumentClass, ...]
    constants: tuple[tuple[str, Any], ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    products: tuple[tuple[str, int, tuple[str, ...]], ...] = ()
    divisible: frozenset[str] = frozenset()
    buckets: tuple[tuple[str, int], ...] = ()
    shared_grid: bool = True
    spread: bool = True
    dot_precision: str = "highest"
    half_divisible: frozenset[str] = frozenset()

    def bindings(self) -> dict[str, Expr]:
        """Return what replaces symbols: the numbers that are known, and one name for sizes that agree."""
        numbers = {name: const(value) for name, value in self.constants if isinstance(value, int)}
        products = {name: math.prod(map(var, sizes), start=const(number)) for name, number, sizes in self.products}
        return {name: numbers.get(other, var(other)) for name, other in self.aliases} | products | numbers

    def unified(self, name: str, size: Expr) -> Specialisation:
        """Give a size another size's name, or a number: both are the same, so that the facts of both hold."""
        if size.is_constant:
            products = (
                (stride, number * size.constant ** sizes.count(name), tuple(each for each in sizes if each != name))
                for stride, number, sizes in self.products
            )
            constants = tuple(sorted((*self.constants, (name, size.constant))))
            return replace(self, constants=constants, products=tuple(products))
        first, bounds = str(size), dict(self.buckets)
        if name in bounds:
            bounds[first] = min(bounds[name], bounds.get(first, bounds[name]))

        def known(names: frozenset[str]) -> frozenset[str]:
            return names | {first} if name in names else names

        renamed = (
            (stride, number, tuple(first if each == name else each for each in sizes))
            for stride, number, sizes in self.products
        )
        aliases = {other: first if target == name else target for other, target in self.aliases}
        return replace(
            self,
            aliases=tuple(sorted({**aliases, name: first}.items())),
            products=tuple(renamed),
            divisible=known(self.divisible),
            half_divisible=known(self.half_divisible),
            buckets=tuple(sorted(bounds.items())),
        )

    def facts(self, names: Iterable[str]) -> Facts:
        """Return the ranges and divisors of the run-time integers `names`."""
        upper = dict(self.buckets)
        facts = Facts()
        for name in names:
            facts = facts.bind(name, 0, upper.get(name), self._divisor(name))
        return facts

    def multiple_of(self, name: str) -> int:
        """Return a number known to divide a size or a stride."""
        value = self.bindings().get(name, var(name))
        return divisor(value, self.facts(value.variables))

    def _divisor(self, name: str) -> int:
        """Return the divisor that the class of a run-time integer tells."""
        return 16 if name in self.divisible else 8 if name in self.half_divisible else 1


__all__ = ["ArgumentClass", "Range", "Specialisation"]
