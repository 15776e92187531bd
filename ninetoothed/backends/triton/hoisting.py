"""Keep Triton from hoisting code out of loops over products whose second operand is transposed.

    for k in range(steps):
        total = tl.dot(a, tl.trans(b_desc.load([pid_1 * 256, k * 64])), total)
->  for k in tl.range(steps, disable_licm=True):
        total = tl.dot(a, tl.trans(b_desc.load([pid_1 * 256, k * 64])), total)

After such hoisting ptxas finds that something other than a product defines the sum, and waits for each product by
itself ("wgmma.mma_async instructions are serialized"): such a loop takes a fifth longer. In a persistent
kernel it stays as it is: Triton makes one loop of it and the loop over tiles.
"""

from __future__ import annotations

from collections.abc import Mapping

from ninetoothed import ir
from ninetoothed.backends.triton.context import EmitContext


def hints(context: EmitContext, loop: ir.For) -> Mapping[str, object]:
    """Choose the keywords of `tl.range` for a loop."""
    products = [o for o in loop.body if isinstance(o, ir.Apply) and o.function == "dot"]
    if context.is_repeated or len(products) != 1 or not context.target.has_wgmma:
        return {}
    return {"disable_licm": True} if _is_transposed(context, products[0].operands[1]) else {}


def _is_transposed(context: EmitContext, operand: ir.Value) -> bool:
    """Tell whether the copy engine brings a tile of (depth, columns) column by column."""
    producers = context.analysis.producers
    producer, turns = producers.get(operand), 0
    while isinstance(producer, ir.Apply) and producer.function == "permute":
        producer, turns = producers.get(producer.operands[0]), turns + 1
    tile = context.tma_tiles.get(producer) if producer is not None else None
    order = [axis for axis in tile.axes if axis is not None] if tile is not None else []
    return len(order) == 2 and (order == [1, 0]) == (turns % 2 == 0)
