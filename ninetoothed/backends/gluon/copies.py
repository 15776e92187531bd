"""The warp that copies: it runs the loads of a program that fill rings, and the loops and branches around them."""

from __future__ import annotations

from dataclasses import dataclass

from ninetoothed import ir
from ninetoothed.backends.gluon.form import Form
from ninetoothed.backends.gluon.rings import Ring, at, copy
from ninetoothed.backends.triton import descriptors, syntax
from ninetoothed.backends.triton.analysis import OperationPlace
from ninetoothed.backends.triton.context import EmitContext
from ninetoothed.expr import const
from ninetoothed.ir.rewriter import access_at
from ninetoothed.passes.row_halves import HALF
from ninetoothed.passes.tma_tiles import TmaTile


@dataclass
class CopyingWarp:
    """Prints a load as a copy, once the slot for it is free."""

    form: Form

    def prints(self, context: EmitContext, operation: ir.Operation, place: OperationPlace) -> bool:
        if not isinstance(operation, ir.Load) or operation not in self.form.rings:
            return False
        ring, tile = self.form.rings[operation], self.form.tiles[operation]
        for task in range(ring.tasks):
            self._copy(context, ring, operation.access, tile, task)
        context.append(ring.counted())
        return True

    def _copy(self, context: EmitContext, ring: Ring, access: ir.Access, tile: TmaTile, task: int) -> None:
        own = {HALF: const(task)}
        access, tile = access_at(access, lambda e: e.subs(own)), tile.at(own)
        slot = context.assign("slot", ring.slot(syntax.number(task)))
        is_free = syntax.binary("^", ring.parity(), syntax.number(1))
        context.run(syntax.call("mbarrier.wait", at(ring.free, slot), is_free))
        context.run(syntax.call("mbarrier.expect", at(ring.ready, slot), ring.bytes))
        descriptor, offsets = descriptors.descriptor(context, ring.tile), descriptors.offsets(context, access, tile)
        context.run(copy(context, 0, descriptor, offsets, at(ring.ready, slot), at(ring.tiles, slot)))

    def ends(self, context: EmitContext) -> None:
        pass
