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
from ninetoothed.backends.torch.frame import Frame, concatenate
from ninetoothed.backends.torch.location import bound_value, dimension
from ninetoothed.backends.torch.representation import Held

Execute = Callable[[Frame, ir.Block], None]


def run_for(frame: Frame, operation: ir.For, execute: Execute) -> None:
    bounds = [_scalar(frame, expr, operation.bindings) for expr in (operation.start, operation.stop, operation.step)]
    for bound in bounds:
        if not _is_uniform(bound):
            live = frame.call.bound.plan.schedule.free[operation]
            _each_group(frame, bound, operation, live, lambda part: run_for(part, operation, execute))
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
    _rebind(frame, operation.arguments, operation.initial)
    execute(frame, operation.before)
    _continue_while(frame, operation, execute)


def _continue_while(frame: Frame, operation: ir.While, execute: Execute) -> None:
    """The loop from where the condition has been computed."""
    while True:
        condition = frame.values[operation.condition]
        if not _is_uniform(condition):
            computed = (value for inner in operation.before for value in ir.results(inner))
            live = (*frame.call.bound.plan.schedule.free[operation], *operation.arguments, *computed)
            _each_group(frame, condition, operation, live, lambda part: _continue_while(part, operation, execute))
            return
        if not _truth(condition):
            _rebind(frame, operation.results, operation.arguments)
            return
        execute(frame, operation.body)
        _rebind(frame, operation.arguments, operation.yields)
        execute(frame, operation.before)


def run_if(frame: Frame, operation: ir.If, execute: Execute) -> None:
    condition = frame.values[operation.condition]
    if _is_uniform(condition):
        taken = _truth(condition)
        execute(frame, operation.then_body if taken else operation.else_body)
        _rebind(frame, operation.results, operation.then_yields if taken else operation.else_yields)
    elif frame.elementwise:
        _select(frame, condition, operation, execute)
    else:
        live = frame.call.bound.plan.schedule.free[operation]
        _each_group(frame, condition, operation, live, lambda part: run_if(part, operation, execute))


def _select(frame: Frame, condition: torch.Tensor, operation: ir.If, execute: Execute) -> None:
    """Both branches of a combining function, which has no side effects, and for each element the one that counts."""
    execute(frame, operation.then_body)
    execute(frame, operation.else_body)
    for result, *yields in zip(operation.results, operation.then_yields, operation.else_yields):
        then, otherwise = (frame.make_tensor(frame.values[value], result.type) for value in yields)
        frame.values[result] = torch.where(condition, then, otherwise)


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


def _each_group(
    frame: Frame, key: torch.Tensor, operation: ir.Operation, live: Iterable[ir.Value], run: Callable[[Frame], None]
) -> None:
    """Run the groups of programs that agree on `key` along one dimension in which it differs, and join their results.

    A group may still differ along other dimensions; `run` sees that and splits it further.
    """
    live = tuple(live)
    dim, runs = next((dim, runs) for dim in range(key.dim()) if len(runs := _runs(key, dim)) > 1)
    parts = []
    for start, count in runs:
        part = frame.narrow(dim, start, count, live)
        run(part)
        parts.append(part)
    for result in ir.results(operation):
        values = [(part, part.values[result]) for part in parts]
        frame.values[result] = concatenate(values, dim, result.type)


def _runs(key: torch.Tensor, dim: int) -> list[tuple[int, int]]:
    """The (start, count) of consecutive indices along `dim` at which `key` is the same."""
    rows = key.movedim(dim, 0).flatten(1) if key.dim() > 1 else key[:, None]
    changes = (rows[1:] != rows[:-1]).any(1).nonzero().flatten() + 1
    edges = [0, *changes.tolist(), key.shape[dim]]
    return [(begin, end - begin) for begin, end in zip(edges, edges[1:])]
