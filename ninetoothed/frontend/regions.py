"""Trace regions: blocks of loops and branches, in which assignments to variables are logged.

A region's write log maps each variable that it assigns to the value on entry. From it come the loop-carried variables,
those that a branch changes, and the values to restore once the region has been traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ninetoothed import ir
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.values import UNDEFINED, Cell


def write(context: TraceContext, cell: Cell, value: Any) -> None:
    """Assign a variable. The write log of every open region keeps the value that it had there on entry."""
    for depth, write_log in enumerate(context.write_logs):
        write_log.setdefault(cell, cell.value if depth >= cell.depth else UNDEFINED)
    cell.value = value


@contextmanager
def region(context: TraceContext) -> Iterator[tuple[list[ir.Operation], dict[Cell, Any]]]:
    """Trace the block of a loop or a branch, and restore all variables at its end. Yields (operations, write_log)."""
    write_log: dict[Cell, Any] = {}
    loads, location = dict(context.loads), context.builder.location
    context.write_logs.append(write_log)
    try:
        with context.builder.block() as operations:
            yield operations, write_log
    finally:
        context.write_logs.pop()
        for cell, value in write_log.items():
            cell.value = value
        context.loads, context.builder.location = loads, location


def run_when_compiling(context: TraceContext, trace: Callable[[], Any]) -> Any:
    """Run a function that computes with known numbers alone; its loops run as in Python.

    Raises `EmissionForbidden` at its first operation for the kernel, and restores all variables.
    """
    depth, context.builder.forbids_emission = context.call_depth, True
    try:
        with region(context) as (_, write_log):
            result = trace()
            ends = {cell: cell.value for cell in write_log}
    finally:
        context.call_depth, context.builder.forbids_emission = depth, False
    for cell, value in ends.items():
        write(context, cell, value)
    return result
