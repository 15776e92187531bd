"""The names that an application may call: rows with a signature, a docstring and an example each, by family.

Names and signatures are those of `triton.language`, which they follow. In the examples, `run(application, *arguments)`
makes a kernel each of whose parameters is one tile, calls it and returns the last argument (docs/reference.md has it).
"""

from __future__ import annotations

from types import ModuleType

from ninetoothed.language.functions import (
    arithmetic,
    control,
    elementwise,
    libdevice,
    memory,
    random,
    reductions,
    shapes,
    sorting,
)
from ninetoothed.language.functions.libdevice import LibdeviceFunction
from ninetoothed.language.functions.row import Function

__all__ = ["FAMILIES", "FUNCTIONS", "LIBDEVICE", "Function"]

FAMILIES: tuple[ModuleType, ...] = (elementwise, arithmetic, shapes, reductions, sorting, memory, random, control)


def _rows(family: ModuleType) -> dict[str, Function]:
    return {name: value for name, value in vars(family).items() if isinstance(value, Function)}


FUNCTIONS: dict[str, Function] = {name: row for family in FAMILIES for name, row in _rows(family).items()}
LIBDEVICE: dict[str, LibdeviceFunction] = libdevice.rows()
