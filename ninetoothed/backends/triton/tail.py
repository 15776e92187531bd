"""Pass: tiles left over after whole waves of programs are shared out, each over as many programs as then run at once.

    tile = pid
->  whole = tiles - tiles % 132
    shares = min(132 // max(tiles % 132, 1), 4)
    beyond = max(pid - whole, 0)
    parts, part, slot = where(pid < whole, 1, shares), beyond % shares, beyond // shares
    tile = min(pid, whole) + slot

Of 561 tiles, 132 programs at once do 528 in four waves; then 33 would keep a quarter of the GPU busy for a fifth. Four
programs for each of them need a quarter of the time. `split` shares out sums and has how their parts meet, `quarters`
the tiles themselves.
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
    """tiles: of all. at_once: how many programs run at once. most: the most parts of a sum. pieces: those of a tile."""

    tiles: Expr
    at_once: int
    most: int
    pieces: int = 1

    @property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """What the indices of a program get before them, with numbers of which they are less."""
        return (PART, self.pieces * self.most), (PARTS, self.pieces * self.most + 1), (SLOT, self.at_once)

    @property
    def spare(self) -> Expr:
        """The tiles that are left over."""
        return self.tiles % self.at_once

    def is_cut(self, spare: Expr) -> Expr:
        """1 if they are shared out: unless pieces, each of one part, take more than two waves; or 0."""
        return minimum(const(2 * self.at_once) // (self.pieces * maximum(spare, 1)), 1)

    def shares(self, spare: Expr, is_cut: Expr) -> Expr:
        """The programs of each of them: as many as still run at once, which may be one."""
        parts = minimum(const(self.at_once) // (self.pieces * maximum(spare, 1)), self.most)
        # pieces * maximum(parts, 1) of one that is cut, or 1.
        return parts if self.pieces == 1 else is_cut * (self.pieces * maximum(parts, 1) - 1) + 1

    @property
    def programs(self) -> Expr:
        return self.tiles + self.spare * (self.shares(self.spare, self.is_cut(self.spare)) - 1)


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
