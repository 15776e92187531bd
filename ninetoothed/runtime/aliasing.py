"""Refuse outputs that share a part of their memory with another argument.

    kernel(x[:-1], x[1:])           refused: programs would read what others may have written
    kernel(x, x), kernel(x, x[:])   in place: runs where no program touches what another stores to
    kernel(x[:, :8], x[:, 8:])      no element is in both, though their addresses interleave

A fast path compares addresses alone: of its shapes and strides, the distances at which memory may be shared are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ninetoothed import ir
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import AliasingWarning
from ninetoothed.expr import as_expr
from ninetoothed.expr.sizes import evaluate
from ninetoothed.frontend.oversights import warn_at
from ninetoothed.races import Footprints
from ninetoothed.runtime.arguments import problem
from ninetoothed.runtime.memory import are_shared, reach

if TYPE_CHECKING:
    from ninetoothed.runtime.variants import Variant


@dataclass(frozen=True, eq=False)
class Pair:
    """The positions of two arguments of a variant, of which the first is written to.

    values: every size, stride and block by name. footprints: what the variant touches.
    """

    definition: KernelDefinition
    output: int
    other: int
    values: Mapping[str, int]
    footprints: Footprints

    @cached_property
    def may_be_in_place(self) -> bool:
        """Tell whether no program touches what another writes, if both tensors begin at one address."""
        return self._is_of_one_program() or self.footprints.are_apart(*self._names, self.values)

    @property
    def _names(self) -> tuple[str, str]:
        first, second = (self.definition.parameters[position].name for position in (self.output, self.other))
        return first, second

    def _is_of_one_program(self) -> bool:
        shapes = (parameter.outermost for parameter in self.definition.parameters)
        return all(math.prod(evaluate(as_expr(size), self.values) for size in shape) == 1 for shape in shapes)

    @cached_property
    def reads_again(self) -> tuple[str, ir.SourceLocation | None] | None:
        """Say that a program reads of one tensor what it stored to the other, and where; None where none does."""
        found = self.footprints.read_again(*self._names, self.values)
        if found is None:
            return None
        store, load = found
        message = (
            f"kernel {self.definition.name!r}: {store.parameter!r} and {load.parameter!r} are the same memory in this"
            f" call, and {load.parameter!r} is read after {_line(store.location)} stored to {store.parameter!r}: that"
            " gives what was stored, and would not in memory of its own; read it once, before the store, or pass a"
            " tensor with memory of its own, say `.clone()`"
        )
        return message, load.location


def _line(place: ir.SourceLocation | None) -> str:
    return "a line" if place is None else f"line {place.line}"


@dataclass(frozen=True)
class KnownPair:
    """Two arguments, of which the first is written to, as `Pair` tells of them.

    distance: in bytes from the second to the first where a recorded call has shown that it does no harm.
    """

    output: int
    other: int
    may_be_in_place: bool
    distance: int = 0
    reads_again: None = None


def pairs(definition: KernelDefinition, variant: Variant, values: Mapping[str, int]) -> tuple[Pair, ...]:
    """List the pairs of tensors that a variant touches, and of which it writes to the first; each pair once."""
    names = [parameter.name for parameter in definition.parameters]
    written = [position for position, name in enumerate(names) if name in variant.stored]
    footprints = variant.program.footprints
    return tuple(
        Pair(definition, i, j, values, footprints)
        for i in written
        for j, name in enumerate(names)
        if footprints is not None and name in variant.touched and (j not in written or j > i)
    )


def check_memory(definition: KernelDefinition, args: Sequence[Any], separate: Sequence[Pair | KnownPair]) -> None:
    """Raise `ArgumentError` for an output that shares memory with another argument, unless that is harmless."""
    for pair, distance in near(args, separate):
        output, other = args[pair.output], args[pair.other]
        is_in_place = distance == 0 and output.itemsize == other.itemsize
        if not (is_in_place and pair.may_be_in_place) and are_shared(output, other):
            parameter, name = definition.parameters[pair.output], definition.parameters[pair.other].name
            what = f"is written to, and shares memory with elements of `{name}` that other programs may touch"
            remedy = "pass a tensor with memory of its own, say `.clone()`, or the same elements in the same tiles"
            raise problem(definition, parameter, what, remedy)
        if is_in_place and pair.reads_again is not None:
            message, place = pair.reads_again
            warn_at(definition.application, AliasingWarning, message, place)


def near(args: Sequence[Any] | Mapping[int, Any], separate: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    """Yield the pairs whose addresses interleave, with the distance in bytes from the second to the first."""
    for pair in separate:
        output, other = args[pair.output], args[pair.other]
        if reached := reach(output, other):
            distance = output.data_ptr() - other.data_ptr()
            if reached[0] < distance < reached[1]:
                yield pair, distance
