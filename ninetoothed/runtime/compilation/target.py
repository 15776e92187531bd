"""The target of the passes, filled from the GPU, from the Triton and from the assembler that there are."""

from __future__ import annotations

import functools
import inspect
import os
from dataclasses import replace

from ninetoothed.passes import CPU, Target
from ninetoothed.runtime.compilation import assembler, gluon
from ninetoothed.runtime.missing import tell
from ninetoothed.runtime.selection.machine import Machine


def target_of(gpu: Machine | None) -> Target:
    """Describe a GPU to the passes; None is a host."""
    if gpu is None:
        return replace(CPU, poisons_overhang=_poisons_overhang())
    generation = gpu.generation
    return Target(
        architecture=gpu.architecture,
        warp_size=generation.warp_size,
        has_wgmma=generation.has_wgmma,
        has_tma=generation.has_tma,
        shared_memory=gpu.shared_memory,
        loses_wgmma_operands=assembler.loses_registers(gpu),
        converts_float8=gpu.converts_float8,
        gluon_copies=gluon.copies(),
        has_disable_licm=_knows("disable_licm"),
    )


def _poisons_overhang() -> bool:
    """Tell whether overhang is poisoned on the CPU, to show what depends on it: `NINETOOTHED_POISON=1`."""
    return os.environ.get("NINETOOTHED_POISON", "0") not in ("", "0")


@functools.cache
def _knows(keyword: str) -> bool:
    """Tell whether Triton's loops take a keyword; without Triton there is only text, which has it."""
    try:
        from triton.language import range as loop
    except ModuleNotFoundError:
        return True
    is_known = keyword in inspect.signature(loop.__init__).parameters
    if not is_known:
        tell(f"this Triton has no triton.language.range({keyword}): compiled loops may take more registers")
    return is_known
