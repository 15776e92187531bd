"""The target of the passes, filled from the GPU, from the Triton and from the assembler that there are."""

from __future__ import annotations

import functools
import inspect
import os
from dataclasses import replace

from ninetoothed.passes import CPU, Target
from ninetoothed.runtime.build import assembler
from ninetoothed.runtime.selection.machine import Machine

WARP_SIZE = 32


def target_of(gpu: Machine | None) -> Target:
    """Describe a GPU to the passes; None is the CPU."""
    if gpu is None:
        return replace(CPU, poisons_overhang=_poisons())
    return Target(
        capability=gpu.capability,
        warp_size=WARP_SIZE,
        has_wgmma=gpu.capability // 10 == 9,
        has_tma=gpu.capability >= 90,
        loses_wgmma_operands=assembler.loses_registers(gpu),
        has_disable_licm=_knows("disable_licm"),
    )


def _poisons() -> bool:
    """Whether overhang is poisoned on the CPU, so that whatever depends on it shows: `NINETOOTHED_POISON=1` asks."""
    return os.environ.get("NINETOOTHED_POISON", "0") not in ("", "0")


@functools.cache
def _knows(keyword: str) -> bool:
    """Whether Triton's loops take a keyword; without Triton there is only text, which has it."""
    try:
        from triton.language import range as loop
    except ModuleNotFoundError:
        return True
    return keyword in inspect.signature(loop.__init__).parameters
