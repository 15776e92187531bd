"""`print` and `breakpoint()` of an application: the tiles of one program, as ordinary tensors."""

from __future__ import annotations

from types import CodeType

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.algebra import evaluate
from ninetoothed.backends.torch.frame import Frame


def run_print(frame: Frame, operation: ir.Print) -> None:
    pieces = [_shown(frame, piece) for piece in operation.pieces]
    print(*(piece.item() if _is_number(piece) else piece for piece in pieces), sep="", end=operation.end)


def _is_number(piece) -> bool:
    return isinstance(piece, torch.Tensor) and piece.dim() == 0


def run_breakpoint(frame: Frame, operation: ir.Breakpoint) -> None:
    """Call `breakpoint()` in code that claims to stand at the user's line, with the user's names as its locals."""
    names = {name: _shown(frame, value) for name, value in operation.variables}
    exec(_breakpoint_at(operation.location), {"__name__": "__ninetoothed__", "torch": torch}, names)


def _breakpoint_at(location: ir.SourceLocation | None) -> CodeType:
    file, line = (location.file, location.line) if location else ("<application>", 1)
    return compile("\n" * (line - 1) + "breakpoint()", file, "exec")


def _shown(frame: Frame, item):
    """What the user sees of a value: its tile of the one program that runs, without the lanes that round it up."""
    if isinstance(item, tuple | list):
        return type(item)(_shown(frame, part) for part in item)
    if not isinstance(item, ir.Value):
        return item
    tile = frame.tile(item)
    tile = tile.reshape(tile.shape[frame.rank :])
    for dim, size in enumerate(item.type.shape):
        values = {**frame.call.bound.integers, **frame.counters, **dict(zip(_axes(frame), frame.starts))}
        if size.variables <= values.keys():
            tile = tile.narrow(dim, 0, min(int(evaluate(size, values)), tile.shape[dim]))
    return tile.clone()


def _axes(frame: Frame) -> tuple[str, ...]:
    return frame.call.bound.plan.program.axes
