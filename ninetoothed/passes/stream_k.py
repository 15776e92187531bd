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

from dataclasses import dataclass

from ninetoothed.expr import Expr, const, maximum, minimum

# What programs know of themselves: which part of the sum of a tile they do, of how many, and in which slot they meet.
PART, PARTS, SLOT = "part", "parts", "slot"


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
