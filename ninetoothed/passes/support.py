"""Refuse what a backend lacks, by the rows of the primitives, before anything is compiled."""

from __future__ import annotations

from ninetoothed import ir
from ninetoothed.errors import UnsupportedError
from ninetoothed.language.primitive import GAPS, lacking
from ninetoothed.passes.target import Target


def check(program: ir.Program, target: Target) -> None:
    """Raise `UnsupportedError` at the first operation that the target's backend, or its GPU, does not have.

    program: as the passes for every backend have left it.
    """
    where = target.backend, target.architecture
    for operation in ir.walk(program.body):
        types = [value.type.dtype for value in (*ir.operands(operation), *ir.results(operation))]
        said = lacking(GAPS, types, *where)
        if said is None and isinstance(operation, ir.Apply):
            said = operation.primitive.lacking(types[:1], *where)
        if said is not None:
            raise UnsupportedError.at(said, operation.location)
