"""Programs on PyTorch tensors: the implementation for CPU tensors, and the oracle of the Triton backend.

All programs of a slice of the grid run at once: a value has the grid's dimensions first and then those of the tile, so
that a matrix product is one `torch.matmul` and not a loop over programs. Grid dimensions in which a value does not vary
have one element, and so do axes of a tile along which it was broadcast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.evaluator import execute
from ninetoothed.backends.torch.plan import ExecutionPlan, bind, make_plan
from ninetoothed.backends.torch.program_slice import Execution, ProgramSlice, open_memory
from ninetoothed.backends.torch.watching import Watcher

__all__ = ["Prepared", "prepare", "run"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A program that is ready to run many times."""

    plan: ExecutionPlan

    def __call__(
        self,
        arguments: Mapping[str, Any],
        integers: Mapping[str, int],
        watcher: Watcher | None = None,
        programs: Collection[tuple[int, ...]] | None = None,
    ) -> None:
        """Run the whole grid; one program after another where a watcher sees them, or some of them. See `run`."""
        program = self.plan.program
        memory = open_memory(arguments, program, self.plan.stored)
        device = next((m.tensor.device for m in memory.values()), torch.device("cpu"))
        bound = bind(self.plan, tuple(integers.items()), device)
        if 0 in bound.grid:
            return
        scalars = {p.name: arguments[p.name] for p in program.parameters if p.role == "scalar"}
        one_by_one = watcher is not None
        if watcher is None and self.plan.shows:
            watcher = Watcher()
        execution = Execution(bound, memory, scalars, execute, watcher)
        with torch.no_grad():
            for starts, counts in bound.slices(one_by_one or programs is not None):
                if programs is None or starts in programs:
                    execute(ProgramSlice(execution, starts, counts), program.body)


def prepare(program: ir.Program) -> Prepared:
    """Analyse a program once, for any number of calls."""
    return Prepared(make_plan(program))


def run(program: ir.Program, arguments: Mapping[str, Any], integers: Mapping[str, int]) -> None:
    """Execute a program for its whole grid.

    arguments: by parameter name, a tensor, or a number or 0-d tensor for a scalar parameter. All tensors are on one
    device. integers: the values of all run-time sizes and strides that the program mentions.

    Raises `ExecutionError`, which names the programs and the user's line, where an operation fails, and
    `UnsupportedError` for what only GPUs have.
    """
    prepare(program)(arguments, integers)
