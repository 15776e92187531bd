"""The functions of a PTX module, with the shapes of their wgmmas."""

import re

from ninetoothed.runtime.compilation import ptx
from tests.machine_code.code import Code, Instruction, Wgmma

_WGMMA = re.compile(r"wgmma\.mma_async\.\S*\.m(\d+)n(\d+)k(\d+)\.")


def functions(text: str) -> dict[str, Code]:
    """Return the functions of a module by name; LookupError for text that is not understood."""
    found = ptx.functions(text)
    return {name: Code([*map(_instruction, each.instructions)], each.labels) for name, each in found.items()}


def _instruction(given: ptx.Instruction) -> Instruction:
    shape = _WGMMA.match(given.text)
    wgmma = Wgmma("x".join(shape.groups()), given.left, given.writes) if shape else None
    writes, reads = frozenset(given.writes), frozenset(given.reads)
    flow = given.targets, given.falls, given.is_conditional
    return Instruction(given.text, writes, reads, *flow, given.is_copy, given.is_opaque, wgmma)
