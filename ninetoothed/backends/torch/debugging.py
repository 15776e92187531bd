"""`print` and `breakpoint()` of an application: the tiles of one program, as ordinary tensors."""

from __future__ import annotations

from types import CodeType

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.algebra import evaluate
from ninetoothed.backends.torch.program_slice import ProgramSlice


def run_print(programs: ProgramSlice, operation: ir.Print) -> None:
    pieces = [_shown(programs, piece) for piece in operation.pieces]
    numbers = (each.item() if torch.is_tensor(each) and not each.dim() else each for each in pieces)
    print(*numbers, sep="", end=operation.end)


def run_breakpoint(programs: ProgramSlice, operation: ir.Breakpoint) -> None:
    """Call `breakpoint()` in code compiled at the user's line, with the user's names as locals."""
    names = {name: _shown(programs, value) for name, value in operation.variables}
    exec(_breakpoint_at(operation.location), {"__name__": "__ninetoothed__", "torch": torch}, names)


def _breakpoint_at(location: ir.SourceLocation | None) -> CodeType:
    file, line = (location.file, location.line) if location else ("<application>", 1)
    return compile("\n" * (line - 1) + "breakpoint()", file, "exec")


def _shown(programs: ProgramSlice, item):
    """Show a value: the tile of the one program that runs, without the lanes past its extent."""
    if not isinstance(item, ir.Value):
        return item
    tile = programs.tile(item)
    tile = tile.reshape(tile.shape[programs.rank :])
    axes = programs.execution.bound.plan.program.axes
    values = programs.integers | dict(zip(axes, programs.starts))
    for dim, size in enumerate(item.type.shape):
        if size.variables <= values.keys():
            tile = tile.narrow(dim, 0, min(int(evaluate(size, values)), tile.shape[dim]))
    return tile.clone()
