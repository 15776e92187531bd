"""How the work of a kernel is shared out over a GPU: chosen by the runtime, read by the passes and by the backend."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataParallel:
    """A program computes one tile; of straight-line code, `coarsening` tiles side by side."""

    coarsening: int = 1


@dataclass(frozen=True)
class Persistent:
    """As many programs as the GPU runs at once compute tile after tile."""

    programs: int


@dataclass(frozen=True)
class SplitK:
    """The sum of each tile is computed in `parts` parts, a program each; the last to finish adds them up."""

    parts: int


@dataclass(frozen=True)
class StreamK:
    """Whole waves of tiles are data-parallel; the tiles left over are shared by all programs that then run at once.

    tiles_per_wave: how many tiles run at once.
    ctas_per_tile: the most programs that share the sum of a tile left over; of each subtile, if it is cut into such.
    subtile_stages: unless 0, tiles left over are cut into quarters, whose loops have so many stages.
    """

    tiles_per_wave: int
    ctas_per_tile: int
    subtile_stages: int = 0


Sharing = DataParallel | Persistent | SplitK | StreamK


@dataclass(frozen=True)
class Schedule:
    """Say how tiles are loaded and shared out over programs; the default is a program a tile, without copy engine.

    use_tma: the parameters that may be accessed through tensor descriptors; their addresses are multiples of 16.
    persistent: whether a program may take one tile of a product after another.
    coarsening: how many programs may be computed side by side in one.
    split_k: over how many programs a sum may be shared out.
    tiles_per_wave: how many tiles run at once; unless 0, only the sums of tiles beyond whole waves are shared out
        (stream-K).
    remainder_stages: unless 0, tiles beyond whole waves are cut into quarters whose loops have so many stages.
    group_rows: rows of tiles that share a band of the L2 cache.
    multi_axis_grid: whether programs may be counted along several axes of the launch.
    """

    use_tma: frozenset[str] = frozenset()
    persistent: bool = False
    coarsening: int = 1
    split_k: int = 1
    tiles_per_wave: int = 0
    remainder_stages: int = 0
    group_rows: int = 8
    multi_axis_grid: bool = True
