"""Keep one sketch of a kernel and its constexprs, from which its pattern is read before blocks are chosen."""

from __future__ import annotations

import functools
from dataclasses import replace

from ninetoothed import frontend, ir
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import NineToothedError
from ninetoothed.runtime.sizes import within
from ninetoothed.specialisation import Specialisation

# What blocks are taken to be, where they may be; the later ones where an application is not for tiles of the first. Of
# tiles of fewer rows, kernels may choose other loops.
BLOCKS = (64, 128, 32, 16)


def sketch_of(definition: KernelDefinition, specialisation: Specialisation) -> ir.Program | None:
    """Return the sketch of a class of calls; None of one that is refused, of which tracing will say why."""
    arguments = tuple(replace(each, wide=False, aligned=True) for each in specialisation.arguments)
    known = Specialisation(arguments, specialisation.known, bounds=specialisation.bounds)
    found = (_current(definition, known, block) for block in (BLOCKS if definition.meta_symbols else BLOCKS[:1]))
    return next((each for each in found if each is not None), None)


def _current(definition: KernelDefinition, specialisation: Specialisation, block: int) -> ir.Program | None:
    blocks = {name: within(symbol, block) for name, symbol in definition.meta_symbols.items()}
    known = specialisation.with_numbers(blocks)
    try:
        program = _sketch(definition, known)
        if not all(name.is_current for name in program.free_names):
            _sketch.cache_clear()
            program = _sketch(definition, known)
    except (NineToothedError, ZeroDivisionError):  # Sizes are checked with the blocks; a stride may be 0 until then.
        return None
    return program


@functools.lru_cache(maxsize=64)
def _sketch(definition: KernelDefinition, specialisation: Specialisation) -> ir.Program:
    tensors = zip(definition.parameters, specialisation.arguments, strict=True)
    ranks = {len(own.outermost) for own, argument in tensors if argument.role == "tensor" and own.part_of is None}
    return frontend.sketch(definition, replace(specialisation, shared_grid=len(ranks) == 1))
