"""The warp that copies: it runs the loads of a program that fill rings, and the loops and branches around them."""

from __future__ import annotations

from dataclasses import dataclass

from ninetoothed import ir
from ninetoothed.backends.gluon.form import Form
from ninetoothed.backends.gluon.rings import at, copy
from ninetoothed.backends.triton import descriptors, syntax
from ninetoothed.backends.triton.analysis import OperationPlace
from ninetoothed.backends.triton.context import EmitContext


@dataclass
class CopyingWarp:
    """Prints a load as a copy, once the slot for it is free."""

    form: Form

    def prints(self, context: EmitContext, operation: ir.Operation, place: OperationPlace) -> bool:
        if not isinstance(operation, ir.Load):
            return False
        ring = self.form.rings[operation]
        slot = context.assign("slot", ring.slot())
        is_free = syntax.binary("^", ring.parity(), syntax.number(1))
        context.run(syntax.call("mbarrier.wait", at(ring.free, slot), is_free))
        context.run(syntax.call("mbarrier.expect", at(ring.ready, slot), ring.bytes))
        descriptor = descriptors.descriptor(context, ring.tile)
        offsets = descriptors.offsets(context, operation.access, self.form.tiles[operation])
        copied = (descriptor, offsets, at(ring.ready, slot), at(ring.tiles, slot))
        context.run(copy(context, 0, *copied))
        context.append(ring.counted())
        return True

    def ends(self, context: EmitContext) -> None:
        pass
