"""Locate the tiles of accesses in memory: as strided views where indices and bounds are affine, else by offsets.

Of a strided tile elements out of bounds are cut off: a tile at an edge becomes a few boxes. Otherwise the offset of
each element is computed, with a mask of those that are in bounds.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch

from ninetoothed import ir
from ninetoothed.backends.torch import forms
from ninetoothed.backends.torch.algebra import Integers, evaluate
from ninetoothed.backends.torch.plan import BoundAccess
from ninetoothed.backends.torch.program_slice import ProgramSlice, narrow
from ninetoothed.expr import Expr


@dataclass(frozen=True, eq=False)
class AccessPart:
    """A box of a tile in memory: element (x, y, ...) at `offset + strides[0] * x + strides[1] * y ...`."""

    box: forms.Box
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True, eq=False)
class StridedTile:
    """A tile in boxes, 1 in `sizes` where it does not vary. Elements in no part are out of bounds."""

    sizes: tuple[int, ...]
    parts: tuple[AccessPart, ...]
    elements: ClassVar[int] = 0


@dataclass(frozen=True, eq=False)
class ScatteredTile:
    """The offset of each element of a tile, and a mask of those in bounds; None where all are. Others have offset 0."""

    offset: torch.Tensor
    mask: torch.Tensor | None

    @property
    def elements(self) -> int:
        """Count the elements of the tensors."""
        return self.offset.numel() + (0 if self.mask is None else self.mask.numel())


def locate(programs: ProgramSlice, operation: ir.Load | ir.Store) -> StridedTile | ScatteredTile:
    """Locate the tile of an access for a slice of programs. Remembered where it depends on numbers alone."""
    bound = programs.execution.bound
    access = bound.accesses[operation]
    rank = len(access.access.type.lanes)
    bindings = {name: bound_value(programs, value, rank) for name, value in access.access.bindings}
    if any(isinstance(value, torch.Tensor) for value in bindings.values()):
        return _Locator(programs, access, bindings).tile()
    counters = tuple(map(programs.counters.__getitem__, access.counters))
    key = operation, programs.starts, programs.counts, counters, *bindings.values()
    located = bound.memo.get(key)
    if located is None:
        located = _Locator(programs, access, bindings).tile()
        bound.memo.put(key, located, located.elements)
    return located


def bound_value(programs: ProgramSlice, value: ir.Value, rank: int) -> Integers:
    """Return an integer value for expressions over a tile of `rank` axes: a number where it does not vary."""
    held = programs.values[value]
    if not isinstance(held, torch.Tensor):
        return int(held)
    if held.numel() == 1:
        return int(held.item())
    grid, lanes = held.shape[: programs.rank], held.shape[programs.rank :]
    return held.to(torch.int64).reshape(*grid, *(1,) * (rank - len(lanes)), *lanes)


def dimension(programs: ProgramSlice, dim: int, count: int, rank: int) -> Integers:
    """Return the index along a dimension of the grid or the tile, for expressions."""
    start = programs.starts[dim] if dim < programs.rank else 0
    if count == 1:
        return start
    shape = [1] * (programs.rank + rank)
    shape[dim] = count
    return torch.arange(start, start + count, device=programs.execution.device).view(shape)


def evaluated(
    programs: ProgramSlice, expr: Expr, bindings: ir.Bindings, type: ir.TileType, lanes: tuple[ir.Lane, ...] = ()
) -> Integers:
    """Evaluate an expression for all programs, and for the lanes of a tile."""
    if expr.is_constant:
        return expr.constant
    rank, axes = len(type.lanes), programs.execution.bound.plan.program.axes
    values = programs.integers | {name: bound_value(programs, value, rank) for name, value in bindings}
    places = [(name, d, programs.counts[d]) for d, name in enumerate(axes)]
    places += [(lane.name, programs.rank + lane.axis, lane.count) for lane in lanes]
    used = expr.variables
    values |= {name: dimension(programs, d, count, rank) for name, d, count in places if name in used}
    return evaluate(expr, values)


@dataclass(frozen=True, eq=False)
class _Locator:
    """One search for the location of a tile."""

    programs: ProgramSlice
    access: BoundAccess
    bindings: Mapping[str, Integers]

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The extents of the grid's dimensions and of the tile's axes."""
        return (*self.programs.counts, *self.access.access.type.lanes)

    @cached_property
    def scalars(self) -> dict[str, Integers]:
        """The values of all names but those of dimensions."""
        return {**self.programs.integers, **self.bindings}

    def tile(self) -> StridedTile | ScatteredTile:
        """Return the places of a tile's elements."""
        return self.strided() or self.scattered()

    def strided(self) -> StridedTile | None:
        """Return the boxes in which a tile lies; None where it is not affine, or they are too many."""
        start, strides = self.start(self.access.offset), self.access.offset.coefficients
        boxes = [self.within(*constraint) for constraint in self.access.constraints] if start is not None else [None]
        joint = forms.intersect([each for each in boxes if each is not None])
        if start is None or None in boxes or joint is None:
            return None
        varying = {d for d, stride in enumerate(strides) if stride} | {d for box in joint for d, _, _ in box}
        sizes = tuple(n if d in varying else 1 for d, n in enumerate(self.counts))
        return StridedTile(sizes, tuple(_part(box, sizes, strides, start) for box in joint))

    def within(self, form: forms.LinearForm, low: int | None, high: int | None) -> list[forms.Box] | None:
        """Return the boxes in which a constraint holds; None where it is not affine, or they are too many."""
        start = self.start(form)
        if start is None:
            return None
        terms = tuple((d, c, n) for d, (c, n) in enumerate(zip(form.coefficients, self.counts)))
        return forms.within(terms, None if low is None else low - start, None if high is None else high - start)

    def start(self, form: forms.LinearForm) -> int | None:
        """Evaluate a form at the first element; None where it is not affine from there."""
        rest = None if form.rest is None else evaluate(form.rest, self.scalars)
        if not isinstance(rest, int):
            return None
        return rest + sum(c * s for c, s in zip(form.coefficients, self.programs.starts))

    def scattered(self) -> ScatteredTile:
        """Compute the offset of each element, and which are in bounds."""
        masks = (_between(self.evaluate(form.expr), low, high) for form, low, high in self.access.constraints)
        mask = _all_of([mask for mask in masks if not bool(mask.all())])
        offset = torch.as_tensor(self.evaluate(self.access.offset.expr), device=self.programs.execution.device)
        offset = offset if offset.dim() else offset.reshape((1,) * len(self.counts))
        return ScatteredTile(offset if mask is None else torch.where(mask, offset, 0), mask)

    def evaluate(self, expr: Expr) -> Integers:
        """Evaluate an expression for all programs and lanes."""
        rank, used = len(self.access.access.type.lanes), expr.variables
        names = ((d, name) for d, name in enumerate(self.access.names) if name in used)
        return evaluate(
            expr, {**self.scalars, **{name: dimension(self.programs, d, self.counts[d], rank) for d, name in names}}
        )


def _part(box: forms.Box, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int) -> AccessPart:
    extents = list(sizes)
    for dim, first, count in box:
        extents[dim] = count
        offset += strides[dim] * first
    return AccessPart(box, tuple(extents), tuple(c if n > 1 else 0 for c, n in zip(strides, extents)), offset)


def _between(value: Integers, low: int | None, high: int | None) -> torch.Tensor:
    tensor = torch.as_tensor(value, device="cpu")
    if low is not None and high is not None:
        return (tensor >= low) & (tensor <= high)
    return tensor >= low if low is not None else tensor <= high  # type: ignore[operator]  # one limit there is


def _all_of(masks: list[torch.Tensor]) -> torch.Tensor | None:
    return functools.reduce(torch.logical_and, sorted(masks, key=torch.Tensor.numel)) if masks else None


def narrowed(tensor: torch.Tensor, box: forms.Box) -> torch.Tensor:
    """Take the part of a tensor that lies in a box."""
    for dim, start, count in box:
        tensor = narrow(tensor, dim, start, count)
    return tensor
