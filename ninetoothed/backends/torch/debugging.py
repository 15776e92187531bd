"""`print` and `breakpoint()` of an application: the tiles of one program, as ordinary tensors."""

from __future__ import annotations

from types import CodeType
from typing import Any

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.algebra import evaluate
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.watching import ShownTile


def run_print(programs: ProgramSlice, operation: ir.Print) -> None:
    pieces = [shown(programs, piece) for piece in operation.pieces]
    numbers = (each.item() if torch.is_tensor(each) and not each.dim() else each for each in pieces)
    print(*numbers, sep="", end=operation.end)


def run_breakpoint(programs: ProgramSlice, operation: ir.Breakpoint) -> None:
    """Call `breakpoint()` in code compiled at the user's line, with the user's names as locals."""
    names = {name: shown(programs, value) for name, value in operation.variables}
    exec(code_at(operation.location, "breakpoint()"), {"__name__": "__ninetoothed__", "torch": torch}, names)


def code_at(location: ir.SourceLocation | None, text: str) -> CodeType:
    """Compile a statement as if it stood at the user's line."""
    file, line = (location.file, location.line) if location else ("<application>", 1)
    return compile("\n" * (line - 1) + text, file, "exec")


def shown(programs: ProgramSlice, item: Any) -> Any:
    """Show a value: the tile of the one program that runs, without the lanes past its extent, overhang marked."""
    if not isinstance(item, ir.Value):
        return item
    tile = programs.tile(item)
    tile = tile.reshape(tile.shape[programs.rank :])
    axes = programs.execution.bound.plan.program.axes
    overhang = programs.execution.watcher.overhang(item) if programs.execution.watcher is not None else None
    values = programs.integers | dict(zip(axes, programs.starts))
    for dim, size in enumerate(item.type.shape):
        if size.variables <= values.keys():
            count = min(int(evaluate(size, values)), tile.shape[dim])
            tile = tile.narrow(dim, 0, count)
            overhang = None if overhang is None else overhang.narrow(dim, 0, count)
    if overhang is None or not bool(overhang.any()):
        return tile.clone()
    return ShownTile.of(tile.clone(), overhang.clone())
