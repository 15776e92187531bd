"""The text that tells programs which tile they compute, where those beyond whole waves are shared out.

`passes.stream_k` has the formulas.
"""

from __future__ import annotations

import ast

from ninetoothed import ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import Context
from ninetoothed.backends.triton.tiles import Frame
from ninetoothed.dtypes import int32
from ninetoothed.expr import Expr, const, maximum, minimum, var
from ninetoothed.passes.stream_k import PART, PARTS, SLOT, Tail

_SCALAR = ir.TileType(int32)


def locate(context: Context, tail: Tail, pid: ast.expr, tiles: ast.expr) -> ast.expr:
    """Define which part of a tile a program does, of how many, and where they meet; the number of the tile.

    tiles: the text of how many there are.
    """

    def define(name: str, value: Expr | ast.expr, low: int, high: int | None) -> Expr:
        node = Frame.of(context, (), _SCALAR, ()).scalar(value) if isinstance(value, Expr) else value
        context.variables[name] = (context.assign(name, node), context.depth)
        context.facts = context.facts.bind(name, low, high)
        return var(name)

    context.variables["pid"] = (pid, context.depth)
    context.facts = context.facts.bind("pid", 0)
    tiles = define("tiles", tiles, 0, None)
    spare = define("spare", tiles % tail.at_once, 0, tail.at_once - 1)
    is_cut = define("is_cut", tail.is_cut(spare), 0, 1) if tail.pieces > 1 else const(1)
    shares = define("shares", tail.shares(spare, is_cut), 1, tail.pieces * tail.most)
    whole = define("whole", tiles - spare, 0, None)
    beyond = define("beyond", maximum(var("pid") - whole, 0), 0, None)
    is_whole = syntax.binary("<", pid, context.variable("whole"))
    most = tail.pieces * tail.most
    define(PARTS, syntax.call("tl.where", is_whole, 1, context.variable("shares")), 1, most)
    define(PART, beyond % shares, 0, most - 1)
    slot = define(SLOT, beyond // shares, 0, tail.at_once - 1)
    define("tile", minimum(var("pid"), whole) + slot, 0, None)
    return context.variable("tile")
