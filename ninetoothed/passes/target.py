"""The machine that a program is rewritten for, as the passes and the backends see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """Describe where a program runs; the runtime fills it from what it has found. The default is a Hopper.

    backend: "triton" or "torch".
    architecture: of the GPU, as Triton calls it: 90 for compute capability 9.0, or "gfx942".
    warp_size: threads that run in step.
    has_wgmma: whether products may run on a warp group's own instructions, which leave their operands in shared memory.
    has_tma: whether a copy engine can move whole tiles.
    shared_memory: the bytes that a program may have of it.
    loses_wgmma_operands: whether the assembler loses left operands of wgmma that registers hold for a whole loop.
    converts_float8: whether there are instructions that convert to types of 8 bits, and saturate infinities, too.
    gluon_copies: Gluon's names for its copies into shared memory, and out of it.
    poisons_overhang: whether overhang is filled with what would make a difference, to show what depends on it.
    """

    backend: str = "triton"
    architecture: int | str = 90
    warp_size: int = 32
    has_wgmma: bool = True
    has_tma: bool = True
    shared_memory: int = 227 * 1024
    loses_wgmma_operands: bool = False
    converts_float8: bool = True
    gluon_copies: tuple[str, ...] = ("async_load", "async_store")
    poisons_overhang: bool = False


CPU = Target("torch", 0, 0, has_wgmma=False, has_tma=False)
