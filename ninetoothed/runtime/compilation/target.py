"""The target of the passes, filled from the GPU, from the Triton and from the assembler that there are."""

from __future__ import annotations

import functools
import os
from dataclasses import replace

from ninetoothed.passes import CPU, Target
from ninetoothed.runtime.compilation import assembler, gluon
from ninetoothed.runtime.missing import has
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
    )


def _poisons_overhang() -> bool:
    """Tell whether overhang is poisoned on the CPU, to show what depends on it: `NINETOOTHED_POISON=1`."""
    return os.environ.get("NINETOOTHED_POISON", "0") not in ("", "0")


@functools.cache
def has_descriptors() -> bool:
    """Tell whether Triton has descriptors made on the host; without Triton there is only text, which has them."""
    return not has("triton") or has("triton.tools.tensor_descriptor.TensorDescriptor")
