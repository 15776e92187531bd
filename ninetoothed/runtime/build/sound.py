"""Machine code that can be trusted: on Hopper it comes from a sound assembler, or is verified."""

from __future__ import annotations

import hashlib
from typing import Any

from ninetoothed.runtime import private_triton
from ninetoothed.runtime.build import assembler, wgmma
from ninetoothed.runtime.build.assembler import Assembler


def sound(kernel: Any, chosen: Assembler | None) -> tuple[Any, tuple[str, ...]]:
    """Return a compiled kernel whose machine code keeps all registers; or the kernel itself, and what it loses.

    chosen: the assembler for its GPU; None to trust Triton's own. Only kernels with wgmmas whose left operands are in
    registers are assembled anew, or verified: nothing else is affected, and nothing else takes time here.
    """
    if chosen is None or (own := assembler.of_triton()).is_sound:
        return kernel, ()
    ptx = kernel.asm.get("ptx")  # it is not there where Triton was told to keep nothing but binaries
    if ptx is not None and not wgmma.is_needed(ptx):
        return kernel, ()
    if ptx is not None and chosen != own:
        return _assembled(kernel, ptx, chosen), ()
    return kernel, _lost(ptx or "", kernel.asm["cubin"])


def _lost(ptx: str, cubin: bytes) -> tuple[str, ...]:
    """Tell what machine code loses; its bits mostly prove that it is nothing, long before nvdisasm has started."""
    if not wgmma.faults(ptx, cubin):
        return ()
    try:
        machine = assembler.disassemble(cubin, has_tables="brx.idx" in ptx)
    except (OSError, RuntimeError, AttributeError) as error:
        return (f"its machine code cannot be verified: {error}",)
    return tuple(map(str, wgmma.faults(ptx, machine)))


def _assembled(kernel: Any, ptx: str, chosen: Assembler) -> Any:
    """Return the kernel with another assembler's machine code, kept in Triton's cache under a key of its own."""
    key = hashlib.sha256(f"{kernel.hash}-{chosen}".encode()).hexdigest()
    return private_triton.with_machine_code(kernel, key, chosen.assemble(ptx))
