"""Print which tile a program computes, where the tiles beyond whole waves are shared out.

`passes.remainder` has the formulas.
"""

from __future__ import annotations

import ast

from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext
from ninetoothed.backends.triton.tiles import scalar
from ninetoothed.expr import Expr, const, maximum, minimum, var
from ninetoothed.passes.remainder import PART, PARTS, SLOT, Remainder


def locate(context: EmitContext, remainder: Remainder, pid: ast.expr, tiles: ast.expr) -> ast.expr:
    """Define which part of a tile a program computes, of how many, and their slot; return the tile's number.

    tiles: the text of how many there are.
    """

    def define(name: str, value: Expr | ast.expr, low: int, high: int | None) -> Expr:
        node = scalar(context, value) if isinstance(value, Expr) else value
        context.variables[name] = (context.assign(name, node), context.depth)
        context.facts = context.facts.bind(name, low, high)
        return var(name)

    context.variables["pid"] = (pid, context.depth)
    context.facts = context.facts.bind("pid", 0)
    count = define("tiles", tiles, 0, None)
    spare = define("spare", count % remainder.tiles_per_wave, 0, remainder.tiles_per_wave - 1)
    is_cut = define("is_cut", remainder.is_cut(spare), 0, 1) if remainder.subtiles > 1 else const(1)
    most = remainder.subtiles * remainder.most_parts
    ctas_per_tile = define("ctas_per_tile", remainder.ctas_per_tile(spare, is_cut), 1, most)
    whole = define("whole", count - spare, 0, None)
    beyond = define("beyond", maximum(var("pid") - whole, 0), 0, None)
    is_whole = syntax.binary("<", pid, context.variable("whole"))
    define(PARTS, syntax.call("tl.where", is_whole, 1, context.variable("ctas_per_tile")), 1, most)
    define(PART, beyond % ctas_per_tile, 0, most - 1)
    slot = define(SLOT, beyond // ctas_per_tile, 0, remainder.tiles_per_wave - 1)
    define("tile", minimum(var("pid"), whole) + slot, 0, None)
    return context.variable("tile")
