"""Execute a program: its operations in order, each for a whole slice of programs at once."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Callable

import torch

from ninetoothed import ir
from ninetoothed.backends.torch import control, debugging
from ninetoothed.backends.torch.access import load, store
from ninetoothed.backends.torch.functions import FUNCTIONS
from ninetoothed.backends.torch.location import evaluated
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.representation import held_dtype, number
from ninetoothed.errors import ExecutionError, NineToothedError, UnsupportedError


def execute(programs: ProgramSlice, block: ir.Block) -> None:
    """Run the operations of a block; their results are in `programs.values` afterwards."""
    values, watcher = programs.values, programs.execution.watcher
    for operation, dead in programs.execution.bound.plan.order.steps[id(block)]:
        try:
            if watcher is not None:
                watcher.begins(programs, operation)
            _EXECUTE[type(operation)](programs, operation)
            if watcher is not None:
                watcher.ends(programs, operation)
        except (NineToothedError, BdbQuit):
            raise
        except Exception as error:
            raise _error(programs, operation, error) from error
        for value in dead:
            values.pop(value, None)


def _error(programs: ProgramSlice, operation: ir.Operation, error: Exception) -> ExecutionError:
    plan = programs.execution.bound.plan
    what = operation.function if isinstance(operation, ir.Apply) else type(operation).__name__.lower()
    place = operation.location
    line = f"\n  {place}: {place.text.strip()}" if place else ""
    return ExecutionError(
        f"`{plan.program.name}` failed in {programs.describe()} of grid {programs.execution.bound.grid}, at `{what}`: "
        f"{type(error).__name__}: {error}{line}"
    )


def _constant(programs: ProgramSlice, operation: ir.Constant) -> None:
    programs.values[operation.result] = number(operation.value, operation.result.type.dtype)


def _argument(programs: ProgramSlice, operation: ir.ScalarArgument) -> None:
    given = programs.execution.scalars[operation.parameter]
    dtype = operation.result.type.dtype
    if isinstance(given, torch.Tensor):
        programs.values[operation.result] = given.to(held_dtype(dtype)).reshape((1,) * programs.rank)
    else:
        programs.values[operation.result] = number(given, dtype)


def _index(programs: ProgramSlice, operation: ir.Index) -> None:
    """Evaluate an integer expression for all programs and lanes."""
    type = operation.result.type
    result = evaluated(programs, operation.expr, operation.bindings, type, operation.lanes)
    programs.values[operation.result] = result.to(held_dtype(type.dtype)) if torch.is_tensor(result) else result


def _apply(programs: ProgramSlice, operation: ir.Apply) -> None:
    function = FUNCTIONS.get(operation.function)
    if function is None:
        place = f" ({operation.location})" if operation.location else ""
        told = f"`{operation.function}` works on GPUs only, not on the CPU{place}"
        raise UnsupportedError(f"{told}; call the kernel with CUDA tensors")
    result = function(programs, operation)
    if len(operation.results) == 1:
        programs.values[operation.results[0]] = result
    elif operation.results:
        programs.values.update(zip(operation.results, result, strict=True))


_EXECUTE: dict[type, Callable] = {
    ir.Constant: _constant,
    ir.ScalarArgument: _argument,
    ir.Index: _index,
    ir.Apply: _apply,
    ir.Load: load,
    ir.Store: store,
    ir.For: control.run_for,
    ir.While: control.run_while,
    ir.If: control.run_if,
    ir.Print: debugging.run_print,
    ir.Breakpoint: debugging.run_breakpoint,
}
