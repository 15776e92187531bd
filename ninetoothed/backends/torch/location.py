"""Locate the tiles of accesses in memory: as strided views where indices are affine, without masks where bounds are.

Elements out of bounds are cut off: a tile at an edge becomes a few boxes. Masks remain for bounds that are not affine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ninetoothed import ir
from ninetoothed.backends.torch import forms
from ninetoothed.backends.torch.algebra import Integers, evaluate
from ninetoothed.backends.torch.plan import BoundAccess
from ninetoothed.backends.torch.program_slice import ProgramSlice, narrow
from ninetoothed.expr import Expr


@dataclass(frozen=True, eq=False)
class AccessPart:
    """A box of a tile in memory: element (x, y, ...) at `offset + strides[0] * x + strides[1] * y ...`.

    The offset is a tensor where the place is not affine in some dimensions, along which it extends.
    """

    box: forms.Box
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: Integers


@dataclass(frozen=True, eq=False)
class Located:
    """The location of a tile, 1 in `sizes` where it does not vary. Elements in no part are out of bounds.

    So are elements that `mask` excludes, and those in a box of `holes`.
    """

    sizes: tuple[int, ...]
    parts: tuple[AccessPart, ...]
    mask: torch.Tensor | None = None
    holes: tuple[forms.Box, ...] = ()

    def elements(self) -> int:
        """Count the elements of the offsets and masks."""
        tensors = [part.offset for part in self.parts] + [self.mask]
        return sum(tensor.numel() for tensor in tensors if isinstance(tensor, torch.Tensor))


def locate(programs: ProgramSlice, operation: ir.Load | ir.Store) -> Located:
    """Locate the tile of an access for a slice of programs. Remembered where it depends on loop counters alone."""
    bound = programs.execution.bound
    access = bound.accesses[operation]
    if access.plan.access.bindings:
        return _Locator(
            programs, access, _bindings(programs, access.plan.access.bindings, len(access.plan.lanes))
        ).locate()
    counters = tuple(map(programs.counters.__getitem__, access.plan.counters))
    key = operation, programs.starts, programs.counts, counters
    located = bound.memo.get(key)
    if located is None:
        located = _Locator(programs, access, {}, search=isinstance(operation, ir.Load)).locate()
        bound.memo.put(key, located, located.elements())
    return located


def _bindings(programs: ProgramSlice, bindings: ir.Bindings, rank: int) -> dict[str, Integers]:
    return {name: bound_value(programs, value, rank) for name, value in bindings}


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


@dataclass(frozen=True, eq=False)
class _Locator:
    """One search for the location of a tile. `search`: whether to test if computed offsets are affine."""

    programs: ProgramSlice
    access: BoundAccess
    bindings: Mapping[str, Integers]
    search: bool = False

    def locate(self) -> Located:
        """Return the parts of memory that the access reaches, and the mask of its lanes where boxes do not tell."""
        counts = (*self.programs.counts, *self.access.plan.lanes)
        scalars = {**self.programs.execution.bound.integers, **self.programs.counters, **self.bindings}
        boxes, masks = self.bounds(counts, scalars)
        joint = forms.intersect(boxes)
        if joint is None or masks:
            masks += [self.box_mask(group, counts) for group in boxes]
            joint = [()]
        start, strides = self.place(counts, scalars)
        varying = {d for d, stride in enumerate(strides) if stride} | {d for box in joint for d, _, _ in box}
        if isinstance(start, torch.Tensor):
            varying |= {d for d, extent in enumerate(start.shape) if extent > 1}
        sizes = tuple(n if d in varying else 1 for d, n in enumerate(counts))
        if not masks:
            if self.search and isinstance(start, torch.Tensor) and not any(strides) and joint and joint[0]:
                holes = forms.complement(joint, sizes)
                if holes is not None:
                    return self.with_holes(joint, holes, sizes, start)
            return Located(sizes, tuple(_part(box, sizes, strides, start) for box in joint))
        mask = _all_of(masks)
        offset = torch.where(mask, spelled_out(start, sizes, strides, self.programs.execution.device), 0)
        sizes = tuple(offset.shape)
        return Located(sizes, (AccessPart((), sizes, (0,) * len(sizes), offset),), mask)

    def place(self, counts, scalars) -> tuple[Integers, tuple[int, ...]]:
        """Return the first offset, or a tensor of them, and the strides of the other dimensions."""
        strides = self.access.offset.coefficients
        start = self.start(self.access.offset, counts, scalars)
        if not isinstance(start, torch.Tensor):
            return start, strides
        if self.search and (affine := _affine(start)):
            start, steps = affine
            return start, tuple(map(sum, zip(strides, steps)))
        # A dimension belongs to the offsets or to the strides, not to both.
        both = tuple(c if n > 1 else 0 for c, n in zip(strides, start.shape))
        return spelled_out(start, counts, both, start.device), tuple(c - b for c, b in zip(strides, both))

    def with_holes(self, boxes, holes, sizes, offset: torch.Tensor) -> Located:
        """Gather everything at once, then fill the holes: faster than a gather for each box."""
        safe = torch.where(self.box_mask(boxes, sizes), offset, 0)
        return Located(sizes, (AccessPart((), sizes, (0,) * len(sizes), safe),), None, tuple(holes))

    def bounds(self, counts, scalars) -> tuple[list[list[forms.Box]], list[torch.Tensor]]:
        """Return the constraints that may fail: as boxes where they are affine, else as masks."""
        boxes: list[list[forms.Box]] = []
        masks: list[torch.Tensor] = []
        for form, low, high in self.access.constraints:
            start = self.start(form, counts, scalars)
            if isinstance(start, int):
                steps = [c * (n - 1) for c, n in zip(form.coefficients, counts) if c]
                least, most = start + sum(s for s in steps if s < 0), start + sum(s for s in steps if s > 0)
                if (low is None or low <= least) and (high is None or most <= high):
                    continue
                terms = tuple((d, c, n) for d, (c, n) in enumerate(zip(form.coefficients, counts)))
                limits = (None if low is None else low - start, None if high is None else high - start)
                group = forms.within(terms, *limits)
                if group is not None:
                    boxes.append(group)
                    continue
            mask = _between(self.evaluate(form.expr, counts), low, high)
            if not bool(mask.all()):
                masks.append(mask)
        return boxes, masks

    def start(self, form: forms.LinearForm, counts, scalars) -> Integers:
        """Evaluate a form at the first element: a number, or a tensor over dimensions in which it is not affine."""
        rest = self.evaluate(form.rest, counts) if form.irregular and form.rest is not None else form.rest_at(scalars)
        return rest + sum(c * s for c, s in zip(form.coefficients, self.programs.starts))

    def evaluate(self, expr: Expr, counts) -> Integers:
        names = self.access.plan.names
        used = {
            name: dimension(self.programs, d, counts[d], len(self.access.plan.lanes))
            for d, name in enumerate(names)
            if name in expr.variables
        }
        return evaluate(
            expr, {**self.programs.execution.bound.integers, **self.programs.counters, **self.bindings, **used}
        )

    def box_mask(self, boxes: list[forms.Box], counts) -> torch.Tensor:
        dims = {dim for box in boxes for dim, _, _ in box}
        shape = [n if d in dims else 1 for d, n in enumerate(counts)]
        mask = torch.zeros(shape, dtype=torch.bool, device=self.programs.execution.device)
        for box in boxes:
            narrowed(mask, box).fill_(True)
        return mask


def _part(box: forms.Box, sizes: tuple[int, ...], strides: tuple[int, ...], offset: Integers) -> AccessPart:
    extents = list(sizes)
    for dim, first, count in box:
        extents[dim] = count
        offset = offset + strides[dim] * first
    if isinstance(offset, torch.Tensor):
        offset = narrowed(offset, box)
    return AccessPart(box, tuple(extents), tuple(c if n > 1 else 0 for c, n in zip(strides, extents)), offset)


def spelled_out(offset: Integers, sizes: tuple[int, ...], strides: tuple[int, ...], device) -> torch.Tensor:
    """Compute the offset of every element."""
    result = torch.as_tensor(offset, dtype=torch.int64, device=device).reshape(
        getattr(offset, "shape", (1,) * len(sizes))
    )
    for dim, stride in enumerate(strides):
        if stride:
            shape = [1] * len(sizes)
            shape[dim] = sizes[dim]
            result = result + stride * torch.arange(sizes[dim], device=device).view(shape)
    return result


def _affine(offset: torch.Tensor) -> tuple[int, list[int]] | None:
    """Find the first offset and the step along each dimension; None where a step is not constant."""
    first = offset[(0,) * offset.dim()]
    predicted, steps = first, []
    for dim, extent in enumerate(offset.shape):
        step = 0
        if extent > 1:
            position = [0] * offset.dim()
            position[dim] = 1
            step = int(offset[tuple(position)] - first)
            shape = [1] * offset.dim()
            shape[dim] = extent
            predicted = predicted + step * torch.arange(extent, device=offset.device).view(shape)
        steps.append(step)
    return (int(first), steps) if torch.equal(predicted.expand_as(offset), offset) else None


def _between(value: Integers, low: int | None, high: int | None) -> torch.Tensor:
    tensor = torch.as_tensor(value, device="cpu")
    if low is not None and high is not None:
        return (tensor >= low) & (tensor <= high)
    return tensor >= low if low is not None else tensor <= high  # type: ignore[operator]  # one limit there is


def _all_of(masks: list[torch.Tensor]) -> torch.Tensor:
    first, *rest = sorted(masks, key=torch.Tensor.numel)
    for mask in rest:
        first = first & mask
    return first


def narrowed(tensor: torch.Tensor, box: forms.Box) -> torch.Tensor:
    """Take the part of a tensor that lies in a box."""
    for dim, start, count in box:
        tensor = narrow(tensor, dim, start, count)
    return tensor
