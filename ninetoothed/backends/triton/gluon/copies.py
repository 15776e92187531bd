"""The warp that copies: it runs the loads of a program that fill rings, and the loops and branches around them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.backends.triton import descriptors, syntax
from ninetoothed.backends.triton.context import EmitContext
from ninetoothed.backends.triton.gluon.rings import at
from ninetoothed.backends.triton.gluon.shared_memory import SharedMemory
from ninetoothed.backends.triton.variables import OperationPlace
from ninetoothed.passes import Target


def copy_in(target: Target) -> str:
    """Name the copy from global to shared memory as the Triton at hand does."""
    return "tma.async_load" if target.has_tma_load else "tma.async_copy_global_to_shared"


def copy_out(target: Target) -> str:
    """Name the copy from shared to global memory as the Triton at hand does."""
    return "tma.async_store" if target.has_tma_load else "tma.async_copy_shared_to_global"


def copies(block: ir.Block, memory: SharedMemory) -> ir.Block:
    """Return what is left of a block for the copies."""
    kept: list[ir.Operation] = []
    needed: set[ir.Value] = set()
    for operation in reversed(block):
        match operation:
            case ir.For(body=body):
                body = copies(body, memory)
                operation = replace(operation, body=body, carried=())
            case ir.If(then_body=then_body, else_body=else_body):
                then_body, else_body = copies(then_body, memory), copies(else_body, memory)
                operation = ir.If(operation.condition, then_body, else_body, location=operation.location)
        if operation in memory.rings or any(ir.blocks(operation)) or needed.intersection(ir.results(operation)):
            kept.append(operation)
            needed |= set(ir.reads(operation))
    return tuple(reversed(kept))


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
