"""How the work of a kernel is shared out over a GPU: chosen by the runtime, read by the passes and by the backend."""

from __future__ import annotations

from dataclasses import dataclass


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
