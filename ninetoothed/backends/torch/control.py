"""Run loops and branches: once for all programs of a slice if they agree, else once for each group that does.

A bound or condition that differs between programs splits the slice along the grid dimensions in which it differs, into
runs of programs that agree. Each group continues from the values computed so far, so that nothing is done twice, and
the results are joined again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.location import evaluated
from ninetoothed.backends.torch.program_slice import ProgramSlice, join, narrow
from ninetoothed.backends.torch.representation import Held
from ninetoothed.dtypes import int32


def run_for(programs: ProgramSlice, operation: ir.For) -> None:
    """Run a loop for all programs; where its bounds differ, they part."""
    trips = (operation.start, operation.stop, operation.step)
    bounds = [evaluated(programs, expr, operation.bindings, ir.TileType(int32)) for expr in trips]
    for bound in bounds:
        if _differs(bound):
            parts = _agreeing(programs, bound, programs.execution.bound.plan.order.free[operation])
            for part in parts:
                run_for(part, operation)
            _join(programs, operation, parts)
            return
    start, stop, step = (int(bound.flatten()[0]) if isinstance(bound, torch.Tensor) else bound for bound in bounds)
    _rebind(programs, operation.arguments, operation.initial)
    for counter in range(start, stop, step):
        programs.counters[operation.variable] = counter
        programs.execution.run(programs, operation.body)
        _rebind(programs, operation.arguments, operation.yields)
    programs.counters.pop(operation.variable, None)
    _rebind(programs, operation.results, operation.arguments)


def run_while(programs: ProgramSlice, operation: ir.While) -> None:
    """Run a loop for all programs; where its condition differs, they part."""
    live = (*programs.execution.bound.plan.order.free[operation], *operation.arguments)
    _rebind(programs, operation.arguments, operation.initial)
    waiting, done = [programs], []
    while waiting:
        part = waiting.pop()
        while not _differs(condition := part.values[operation.condition]):
            if not _truth(condition):
                _rebind(part, operation.results, operation.arguments)
                done.append(part)
                break
            part.execution.run(part, operation.body)
            _rebind(part, operation.arguments, operation.yields)
        else:
            waiting += reversed(_agreeing(part, condition, live))
    if done != [programs]:
        _join(programs, operation, done)


def run_if(programs: ProgramSlice, operation: ir.If) -> None:
    condition = programs.values[operation.condition]
    if _differs(condition):
        parts = _agreeing(programs, condition, programs.execution.bound.plan.order.free[operation])
        for part in parts:
            run_if(part, operation)
        _join(programs, operation, parts)
    else:
        taken = _truth(condition)
        programs.execution.run(programs, operation.then_body if taken else operation.else_body)
        _rebind(programs, operation.results, operation.then_yields if taken else operation.else_yields)


def _rebind(programs: ProgramSlice, names: Iterable[ir.Value], values: Iterable[ir.Value]) -> None:
    names, values = tuple(names), tuple(values)
    programs.values.update(list(zip(names, [programs.values[value] for value in values], strict=True)))
    if programs.execution.watcher is not None:
        programs.execution.watcher.rebinds(names, values)


def _truth(condition: Held) -> bool:
    return bool(condition.flatten()[0]) if isinstance(condition, torch.Tensor) else bool(condition)


def _differs(value: Held) -> TypeGuard[torch.Tensor]:
    """Tell whether a value is not the same in all programs."""
    if not isinstance(value, torch.Tensor) or value.numel() == 1:
        return False
    return not bool((value == value[(0,) * value.dim()]).all())


def _agreeing(programs: ProgramSlice, key: torch.Tensor, live: Iterable[ir.Value]) -> list[ProgramSlice]:
    """Split a slice, in order, into parts whose programs have the same `key`."""
    live = tuple(live)
    parts = [(programs, key)]
    for dim in range(key.dim()):
        parts = [
            (part.narrow(dim, start, count, live), narrow(key, dim, start, count))
            if count < part.counts[dim]
            else (part, key)
            for part, key in parts
            for start, count in (_runs(key, dim) if key.shape[dim] > 1 else ((0, part.counts[dim]),))
        ]
    return [part for part, _ in parts]


def _join(programs: ProgramSlice, operation: ir.Operation, parts: list[ProgramSlice]) -> None:
    """Give a slice the results of an operation from those of its parts."""
    for result in ir.results(operation):
        programs.values[result] = join(programs, [(part, part.values[result]) for part in parts], result.type)


def _runs(key: torch.Tensor, dim: int) -> list[tuple[int, int]]:
    """Give the (start, count) of consecutive indices along `dim` at which `key` is the same."""
    rows = key.movedim(dim, 0).flatten(1) if key.dim() > 1 else key[:, None]
    changes = (rows[1:] != rows[:-1]).any(1).nonzero().flatten() + 1
    edges = [0, *changes.tolist(), key.shape[dim]]
    return [(begin, end - begin) for begin, end in zip(edges, edges[1:])]
