"""Pass: tiles left over after whole waves of programs are shared out, each over as many programs as then run at once.

    tile = pid
->  whole = tiles - tiles % 132
    shares = min(132 // max(tiles % 132, 1), 4)
    beyond = max(pid - whole, 0)
    parts, part, slot = where(pid < whole, 1, shares), beyond % shares, beyond // shares
    tile = min(pid, whole) + slot

Of 561 tiles, 132 programs at once do 528 in four waves; then 33 would keep a quarter of the GPU busy for a fifth. Four
programs for each of them need a quarter of the time. `split` has how their parts meet.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ninetoothed import ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import Context
from ninetoothed.backends.triton.tiles import Frame
from ninetoothed.dtypes import int32
from ninetoothed.expr import Expr, const, maximum, minimum, var

# What programs know of themselves: which part of the sum of a tile they do, of how many, and in which slot they meet.
PART, PARTS, SLOT = "part", "parts", "slot"
_SCALAR = ir.TileType(int32)


@dataclass(frozen=True)
class Tail:
    """tiles: of all. at_once: how many programs run at once. most: the most parts of a tile."""

    tiles: Expr
    at_once: int
    most: int

    @property
    def spare(self) -> Expr:
        """The tiles that are left over."""
        return self.tiles % self.at_once

    def shares(self, spare: Expr) -> Expr:
        """The parts of each of them: as many as still run at once, which may be one."""
        return minimum(const(self.at_once) // maximum(spare, 1), self.most)

    @property
    def programs(self) -> Expr:
        return self.tiles + self.spare * (self.shares(self.spare) - 1)


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
    shares = define("shares", tail.shares(spare), 1, tail.most)
    whole = define("whole", tiles - spare, 0, None)
    beyond = define("beyond", maximum(var("pid") - whole, 0), 0, None)
    is_whole = syntax.binary("<", pid, context.variable("whole"))
    define(PARTS, syntax.call("tl.where", is_whole, 1, context.variable("shares")), 1, tail.most)
    define(PART, beyond % shares, 0, tail.most - 1)
    slot = define(SLOT, beyond // shares, 0, tail.at_once - 1)
    define("tile", minimum(var("pid"), whole) + slot, 0, None)
    return context.variable("tile")
