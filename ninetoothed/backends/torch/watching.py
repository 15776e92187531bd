"""Watch an execution: which lanes of values are overhang, and where an operation begins and ends."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.location import ScatteredTile, locate, narrowed
from ninetoothed.backends.torch.program_slice import ProgramSlice


class ShownTile(torch.Tensor):
    """A tile with overhang, which it shows as `--`. What is computed of it is an ordinary tensor.

    overhang: which elements lie past the end of the tensor that was read.
    """

    overhang: torch.Tensor

    @classmethod
    def of(cls, tile: torch.Tensor, overhang: torch.Tensor) -> ShownTile:
        """Make a tile of a tensor's memory."""
        made = tile.as_subclass(cls)
        made.overhang = overhang
        return made

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        found = super().__torch_function__(function, types, args, kwargs or {})
        return found.as_subclass(torch.Tensor) if isinstance(found, cls) else found

    def __repr__(self) -> str:  # type: ignore[override]  # PyTorch passes nothing
        plain = self.as_subclass(torch.Tensor)
        return f"tensor({_text(plain, self.overhang)})"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def _text(tile: torch.Tensor, overhang: torch.Tensor) -> str:
    """Write a tile as PyTorch writes lists, with `--` for overhang."""
    if not tile.dim():
        return "--" if bool(overhang) else (f"{tile.item():.4g}" if tile.is_floating_point() else str(tile.item()))
    rows = [_text(row, past) for row, past in zip(tile, overhang, strict=True)]
    if len(rows) > 16:
        rows = [*rows[:6], "...", *rows[-6:]]
    return f"[{', '.join(rows)}]"


class Watcher:
    """Follow the overhang of one program's values after another's; the base of what sees more.

    A lane of a load is overhang where it is out of bounds, a lane of a result where all lanes that it is made of along
    a combined axis are, or one of those of the same number.
    """

    def __init__(self) -> None:
        self._inside: dict[ir.Value, torch.Tensor] = {}

    def begins(self, programs: ProgramSlice, operation: ir.Operation) -> None:
        """Is told of an operation before it runs."""

    def ends(self, programs: ProgramSlice, operation: ir.Operation) -> None:
        """Note which lanes of the results are in bounds."""
        for result in ir.results(operation):
            if not isinstance(operation, ir.For | ir.While | ir.If):
                self._inside.pop(result, None)
        if isinstance(operation, ir.Load):
            self._inside[operation.result] = in_bounds(programs, operation)
        elif isinstance(operation, ir.Apply):
            for number, result in enumerate(operation.results):
                found = self._followed(operation, number, result)
                if found is not None:
                    self._inside[result] = found

    def rebinds(self, names: Iterable[ir.Value], values: Iterable[ir.Value]) -> None:
        """Take over what is known of variables that a loop or a branch hands on."""
        found = [(name, self._inside.get(value)) for name, value in zip(names, values, strict=True)]
        for name, inside in found:
            if inside is None:
                self._inside.pop(name, None)
            else:
                self._inside[name] = inside

    def overhang(self, value: ir.Value) -> torch.Tensor | None:
        """Return which lanes of a value are overhang; None where none is."""
        inside = self._inside.get(value)
        return None if inside is None or bool(inside.all()) else ~inside

    def _followed(self, operation: ir.Apply, number: int, result: ir.Value) -> torch.Tensor | None:
        found: torch.Tensor | None = None
        for place, operand in enumerate(operation.operands):
            inside = self._inside.get(operand)
            if inside is None or bool(inside.all()):
                continue
            shared = operation.axes.kept(place, number)
            for axis in reversed([axis for axis in range(inside.dim()) if axis not in shared]):
                inside = inside.any(axis)
            left = sorted(shared)
            inside = inside.permute([left.index(axis) for axis in sorted(left, key=shared.__getitem__)])
            for axis in range(len(result.type.lanes)):
                if axis not in shared.values():
                    inside = inside.unsqueeze(axis)
            inside = inside.expand(result.type.lanes)
            found = inside if found is None else found & inside
        return found


def in_bounds(programs: ProgramSlice, operation: ir.Load | ir.Store) -> torch.Tensor:
    """Return which lanes of an access of one program are in bounds."""
    located, lanes = locate(programs, operation), operation.access.type.lanes
    if isinstance(located, ScatteredTile):
        mask = torch.ones(()).bool() if located.mask is None else located.mask
        return mask.reshape(mask.shape[programs.rank :]).expand(lanes)
    inside = torch.zeros(located.sizes, dtype=torch.bool)
    for part in located.parts:
        narrowed(inside, part.box).fill_(True)
    return inside.reshape(inside.shape[programs.rank :]).expand(lanes)


def offsets(programs: ProgramSlice, operation: ir.Load | ir.Store) -> torch.Tensor:
    """Return the offset of each lane of an access of one program from the parameter's first, -1 if out of bounds."""
    located, lanes = locate(programs, operation), operation.access.type.lanes
    if isinstance(located, ScatteredTile):
        found = located.offset if located.mask is None else torch.where(located.mask, located.offset, -1)
        return found.reshape(found.shape[programs.rank :]).expand(lanes)
    found = torch.full(located.sizes, -1)
    for part in located.parts:
        places = torch.full(part.sizes, part.offset)
        for dim, (size, stride) in enumerate(zip(part.sizes, part.strides, strict=True)):
            shape = [size if d == dim else 1 for d in range(len(part.sizes))]
            places = places + (torch.arange(size) * stride).reshape(shape)
        narrowed(found, part.box).copy_(places)
    return found.reshape(found.shape[programs.rank :]).expand(lanes)
