"""The execution of a program: its operations in order, on a slice of all programs at once."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Callable

import torch

from ninetoothed import ir
from ninetoothed.backends.torch import control, debugging
from ninetoothed.backends.torch.access import destination, load, store
from ninetoothed.backends.torch.algebra import evaluate
from ninetoothed.backends.torch.elementwise import compute_into
from ninetoothed.backends.torch.frame import Call, Frame
from ninetoothed.backends.torch.functions import FUNCTIONS
from ninetoothed.backends.torch.location import bound_value, dimension
from ninetoothed.backends.torch.representation import held_dtype, number
from ninetoothed.backends.torch.schedule import Assignment
from ninetoothed.errors import ExecutionError, NineToothedError, UnsupportedError


def execute(frame: Frame, block: ir.Block) -> None:
    """Run the operations of a block; their results are in `frame.values` afterwards."""
    values = frame.values
    for operation, dead in frame.call.bound.plan.schedule.steps[id(block)]:
        try:
            _EXECUTE[type(operation)](frame, operation)
        except (NineToothedError, BdbQuit):
            raise
        except Exception as error:
            raise _error(frame, operation, error) from error
        for value in dead:
            values.pop(value, None)


def execute_common(call: Call) -> Frame:
    """The frame of all programs, with the values that they have in common."""
    grid = call.bound.grid
    frame = Frame(call, (0,) * len(grid), grid)
    for operation in call.bound.plan.schedule.common:
        _EXECUTE[type(operation)](frame, operation)
    return frame


def _error(frame: Frame, operation: ir.Operation, error: Exception) -> ExecutionError:
    plan = frame.call.bound.plan
    operation = operation.apply if isinstance(operation, Assignment) else operation
    what = operation.function if isinstance(operation, ir.Apply) else type(operation).__name__.lower()
    place = operation.location
    line = f"\n  {place}: {place.text.strip()}" if place else ""
    return ExecutionError(
        f"`{plan.program.name}` failed in {frame.programs()} of grid {frame.call.bound.grid}, at `{what}`: "
        f"{type(error).__name__}: {error}{line}"
    )


def _constant(frame: Frame, operation: ir.Constant) -> None:
    frame.values[operation.result] = number(operation.value, operation.result.type.dtype)


def _argument(frame: Frame, operation: ir.ScalarArgument) -> None:
    given = frame.call.scalars[operation.parameter]
    dtype = operation.result.type.dtype
    if isinstance(given, torch.Tensor):
        frame.values[operation.result] = given.to(held_dtype(dtype)).reshape((1,) * frame.rank)
    else:
        frame.values[operation.result] = number(given, dtype)


def _index(frame: Frame, operation: ir.Index) -> None:
    type, expr = operation.result.type, operation.expr
    rank, axes = len(type.lanes), frame.call.bound.plan.program.axes
    values = {**frame.call.bound.integers, **frame.counters}
    values |= {name: bound_value(frame, value, rank) for name, value in operation.bindings}
    used = expr.variables
    values |= {name: dimension(frame, d, frame.counts[d], rank) for d, name in enumerate(axes) if name in used}
    values |= {
        lane.name: dimension(frame, frame.rank + lane.axis, lane.count, rank)
        for lane in operation.lanes
        if lane.name in used
    }
    result = evaluate(expr, values)
    if isinstance(result, torch.Tensor):
        result = result.to(held_dtype(type.dtype))
    frame.values[operation.result] = result


def _apply(frame: Frame, operation: ir.Apply) -> None:
    function = FUNCTIONS.get(operation.function)
    if function is None:
        raise UnsupportedError(
            f"`{operation.function}` works on GPUs only, not on the CPU"
            + _at(operation)
            + "; call the kernel with CUDA tensors"
        )
    result = function(frame, operation)
    if len(operation.results) == 1:
        frame.values[operation.results[0]] = result
    elif operation.results:
        frame.values.update(zip(operation.results, result, strict=True))


def _assign(frame: Frame, operation: Assignment) -> None:
    """Compute a result where it is to be stored, if that is a plain view; else compute it, then store it."""
    place = destination(frame, operation.store)
    if place is None or not compute_into(frame, operation.apply, place):
        _apply(frame, operation.apply)
        store(frame, operation.store)


def _at(operation: ir.Operation) -> str:
    return f" ({operation.location})" if operation.location else ""


_EXECUTE: dict[type, Callable] = {
    ir.Constant: _constant,
    ir.ScalarArgument: _argument,
    ir.Index: _index,
    ir.Apply: _apply,
    Assignment: _assign,
    ir.Load: load,
    ir.Store: store,
    ir.For: lambda frame, operation: control.run_for(frame, operation, execute),
    ir.While: lambda frame, operation: control.run_while(frame, operation, execute),
    ir.If: lambda frame, operation: control.run_if(frame, operation, execute),
    ir.Print: debugging.run_print,
    ir.Breakpoint: debugging.run_breakpoint,
}
