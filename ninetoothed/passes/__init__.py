"""Passes: from a program to an equivalent program, for every backend, in one order."""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import ir
from ninetoothed.passes import overhang
from ninetoothed.passes.dead_code import remove_dead
from ninetoothed.verify import verify

PASSES = (overhang.resolve,)


def run(program: ir.Program, poison: bool = False) -> ir.Program:
    """Apply the passes in their order to a program as it was traced.

    poison: fill what must make no difference with what would make one.
    """
    for apply in PASSES:
        program = apply(program, poison)
        program = replace(program, body=remove_dead(program.body))
        verify(program)
    return program
