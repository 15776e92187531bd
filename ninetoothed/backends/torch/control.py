"""Loops and branches: run once for all programs of a frame where they agree, else for the groups that do.

A bound or condition that differs between programs splits the frame along the grid dimensions in which it differs, into
runs of programs that agree; all others stay together. Each group continues from the values that there are, so that
nothing is done twice, and the results are joined again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.algebra import Integers, evaluate
from ninetoothed.backends.torch.frame import Frame, join, narrow
from ninetoothed.backends.torch.location import bound_value, dimension
from ninetoothed.backends.torch.representation import Held

Execute = Callable[[Frame, ir.Block], None]


def run_for(frame: Frame, operation: ir.For, execute: Execute) -> None:
    bounds = [_scalar(frame, expr, operation.bindings) for expr in (operation.start, operation.stop, operation.step)]
    for bound in bounds:
        if not _is_uniform(bound):
            parts = _agreeing(frame, bound, frame.call.bound.plan.schedule.free[operation])
            for part in parts:
                run_for(part, operation, execute)
            _join(frame, operation, parts)
            return
    start, stop, step = (int(bound.flatten()[0]) if isinstance(bound, torch.Tensor) else bound for bound in bounds)
    _rebind(frame, operation.arguments, operation.initial)
    for counter in range(start, stop, step):
        frame.counters[operation.variable] = counter
        execute(frame, operation.body)
        _rebind(frame, operation.arguments, operation.yields)
    frame.counters.pop(operation.variable, None)
    _rebind(frame, operation.results, operation.arguments)


def run_while(frame: Frame, operation: ir.While, execute: Execute) -> None:
    computed = (value for inner in operation.before for value in ir.results(inner))
    live = (*frame.call.bound.plan.schedule.free[operation], *operation.arguments, *computed)
    _rebind(frame, operation.arguments, operation.initial)
    execute(frame, operation.before)
    waiting, done = [frame], []
    while waiting:
        part = waiting.pop()
        while _is_uniform(condition := part.values[operation.condition]):
            if not _truth(condition):
                _rebind(part, operation.results, operation.arguments)
                done.append(part)
                break
            execute(part, operation.body)
            _rebind(part, operation.arguments, operation.yields)
            execute(part, operation.before)
        else:
            waiting += reversed(_agreeing(part, condition, live))
    if done != [frame]:
        _join(frame, operation, done)


def run_if(frame: Frame, operation: ir.If, execute: Execute) -> None:
    condition = frame.values[operation.condition]
    if _is_uniform(condition):
        taken = _truth(condition)
        execute(frame, operation.then_body if taken else operation.else_body)
        _rebind(frame, operation.results, operation.then_yields if taken else operation.else_yields)
    else:
        parts = _agreeing(frame, condition, frame.call.bound.plan.schedule.free[operation])
        for part in parts:
            run_if(part, operation, execute)
        _join(frame, operation, parts)


def _scalar(frame: Frame, expr, bindings: ir.Bindings) -> Integers:
    values = {**frame.call.bound.integers, **frame.counters}
    values |= {name: bound_value(frame, value, 0) for name, value in bindings}
    axes = frame.call.bound.plan.program.axes
    used = expr.variables
    values |= {name: dimension(frame, d, frame.counts[d], 0) for d, name in enumerate(axes) if name in used}
    return evaluate(expr, values)


def _rebind(frame: Frame, names: Iterable[ir.Value], values: Iterable[ir.Value]) -> None:
    frame.values.update(list(zip(names, [frame.values[value] for value in values], strict=True)))


def _truth(condition: Held) -> bool:
    return bool(condition.flatten()[0]) if isinstance(condition, torch.Tensor) else bool(condition)


def _is_uniform(value: Held) -> bool:
    if not isinstance(value, torch.Tensor) or value.numel() == 1:
        return True
    return bool((value == value[(0,) * value.dim()]).all())


def _agreeing(frame: Frame, key: torch.Tensor, live: Iterable[ir.Value]) -> list[Frame]:
    """The parts of a frame in each of which all programs have the same `key`, in order."""
    live = tuple(live)
    parts = [(frame, key)]
    for dim in range(key.dim()):
        parts = [
            (part.narrow(dim, start, count, live), narrow(key, dim, start, count))
            if count < part.counts[dim]
            else (part, key)
            for part, key in parts
            for start, count in (_runs(key, dim) if key.shape[dim] > 1 else ((0, part.counts[dim]),))
        ]
    return [part for part, _ in parts]


def _join(frame: Frame, operation: ir.Operation, parts: list[Frame]) -> None:
    """Give a frame the results of an operation from those of its parts."""
    for result in ir.results(operation):
        frame.values[result] = join(frame, [(part, part.values[result]) for part in parts], result.type)


def _runs(key: torch.Tensor, dim: int) -> list[tuple[int, int]]:
    """The (start, count) of consecutive indices along `dim` at which `key` is the same."""
    rows = key.movedim(dim, 0).flatten(1) if key.dim() > 1 else key[:, None]
    changes = (rows[1:] != rows[:-1]).any(1).nonzero().flatten() + 1
    edges = [0, *changes.tolist(), key.shape[dim]]
    return [(begin, end - begin) for begin, end in zip(edges, edges[1:])]
