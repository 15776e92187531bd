"""Tiles beyond whole waves of programs: which program computes which part of which tile.

    tile = pid
->  whole = tiles - tiles % 132
    ctas_per_tile = min(132 // max(tiles % 132, 1), 4)
    beyond = max(pid - whole, 0)
    parts, part, slot = where(pid < whole, 1, ctas_per_tile), beyond % ctas_per_tile, beyond // ctas_per_tile
    tile = min(pid, whole) + slot

Of 561 tiles, 132 programs at once do 528 in four waves; then 33 would keep a quarter of the GPU busy for a fifth. Four
programs for each of them need a quarter of the time. `stream_k` shares out their sums, `remainder_subtile` the tiles
themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninetoothed.expr import Expr, const, maximum, minimum

# The part of a tile's sum that a program computes, the number of these parts, and the slot where they meet.
PART, PARTS, SLOT = "part", "parts", "slot"


@dataclass(frozen=True)
class Remainder:
    """The tiles left over after whole waves, and how they are shared out.

    tiles: how many there are in all. tiles_per_wave: how many run at once. most_parts: the most parts of a sum.
    subtiles: into how many subtiles each is cut.
    """

    tiles: Expr
    tiles_per_wave: int
    most_parts: int
    subtiles: int = 1

    @property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """The program indices that come before those of the tile, each with a number that it is less than."""
        most = self.subtiles * self.most_parts
        return (PART, most), (PARTS, most + 1), (SLOT, self.tiles_per_wave)

    @property
    def spare(self) -> Expr:
        """The number of tiles left over."""
        return self.tiles % self.tiles_per_wave

    def is_cut(self, spare: Expr) -> Expr:
        """Return 1 if they are shared out, 0 if their subtiles, each of one part, would take more than two waves."""
        return minimum(const(2 * self.tiles_per_wave) // (self.subtiles * maximum(spare, 1)), 1)

    def ctas_per_tile(self, spare: Expr, is_cut: Expr) -> Expr:
        """Return the number of programs for each: as many as still run at once, which may be one."""
        parts = minimum(const(self.tiles_per_wave) // (self.subtiles * maximum(spare, 1)), self.most_parts)
        # subtiles * maximum(parts, 1) of one that is cut, or 1.
        return parts if self.subtiles == 1 else is_cut * (self.subtiles * maximum(parts, 1) - 1) + 1

    @property
    def programs(self) -> Expr:
        """The number of programs to launch."""
        return self.tiles + self.spare * (self.ctas_per_tile(self.spare, self.is_cut(self.spare)) - 1)
