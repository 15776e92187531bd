"""The target of the passes, filled from the GPU, from the Triton and from the assembler that there are."""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace

from ninetoothed.passes import CPU, Target
from ninetoothed.runtime.build import assembler
from ninetoothed.runtime.environment import poisons_overhang
from ninetoothed.runtime.selection.machine import Machine

WARP_SIZE = 32


def target_of(gpu: Machine | None) -> Target:
    """Describe a GPU to the passes; None is the CPU."""
    if gpu is None:
        return replace(CPU, poisons_overhang=poisons_overhang())
    return Target(
        capability=gpu.capability,
        warp_size=WARP_SIZE,
        has_wgmma=gpu.capability // 10 == 9,
        has_tma=gpu.capability >= 90,
        loses_wgmma_operands=assembler.loses_registers(gpu),
        has_disable_licm=_knows("disable_licm"),
    )


@functools.cache
def _knows(keyword: str) -> bool:
    """Whether Triton's loops take a keyword; without Triton there is only text, which has it."""
    try:
        from triton.language import range as loop
    except ModuleNotFoundError:
        return True
    return keyword in inspect.signature(loop.__init__).parameters
