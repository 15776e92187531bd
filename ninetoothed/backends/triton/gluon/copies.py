"""The warp that copies: it runs the loads of a program that fill rings, and the loops and branches around them."""

from __future__ import annotations

from dataclasses import dataclass

from ninetoothed import ir
from ninetoothed.backends.triton import descriptors, syntax
from ninetoothed.backends.triton.context import EmitContext
from ninetoothed.backends.triton.gluon.rings import at
from ninetoothed.backends.triton.gluon.shared_memory import SharedMemory
from ninetoothed.backends.triton.variables import OperationPlace
from ninetoothed.passes import Target
from ninetoothed.passes.dead_code import remove_dead


def copy_in(target: Target) -> str:
    """Name the copy from global to shared memory as the Triton at hand does."""
    return "tma.async_load" if target.has_tma_load else "tma.async_copy_global_to_shared"


def copy_out(target: Target) -> str:
    """Name the copy from shared to global memory as the Triton at hand does."""
    return "tma.async_store" if target.has_tma_load else "tma.async_copy_shared_to_global"


def copies(block: ir.Block, memory: SharedMemory) -> ir.Block:
    """Return what is left of a block for the copies."""

    def must_run(operation: ir.Operation) -> bool:
        return any(each in memory.rings for each in ir.walk((operation,)))

    return remove_dead(block, must_run=must_run)


@dataclass
class CopyingWarp:
    """Prints a load as a copy, once the slot for it is free."""

    memory: SharedMemory

    def prints(self, context: EmitContext, operation: ir.Operation, place: OperationPlace) -> bool:
        if not isinstance(operation, ir.Load):
            return False
        ring = self.memory.rings[operation]
        slot = context.assign("slot", ring.slot())
        is_free = syntax.binary("^", ring.parity(), syntax.number(1))
        context.run(syntax.call("mbarrier.wait", at(ring.free, slot), is_free))
        context.run(syntax.call("mbarrier.expect", at(ring.ready, slot), ring.bytes))
        descriptor = descriptors.descriptor(context, ring.tile)
        offsets = descriptors.offsets(context, operation.access, self.memory.tiles[operation])
        copied = (descriptor, offsets, at(ring.ready, slot), at(ring.tiles, slot))
        context.run(syntax.call(copy_in(context.target), *copied))
        context.append(ring.counted())
        return True

    def ends(self, context: EmitContext) -> None:
        pass
