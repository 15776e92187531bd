"""Schedules: how the work of a kernel is cut into tiles and shared out. The runtime selects, and passes apply them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataParallel:
    """A program computes one tile; where code is straight-line, `coarsening` tiles side by side."""

    coarsening: int = 1

    def __str__(self) -> str:
        return f"coarsening={self.coarsening}" if self.coarsening > 1 else ""


@dataclass(frozen=True)
class Persistent:
    """Launch as many programs as the GPU runs at once; each computes one tile of a product after another."""

    programs: int

    def __str__(self) -> str:
        return f"programs={self.programs}"


@dataclass(frozen=True)
class SplitK:
    """The sum of each tile is computed in `parts` parts, a program each; the last to finish adds them up."""

    parts: int

    def __str__(self) -> str:
        return f"split_k={self.parts}"


@dataclass(frozen=True)
class StreamK:
    """Compute whole waves of tiles data-parallel, and share the tiles left over among all programs that run at once.

    tiles_per_wave: how many tiles run at once.
    ctas_per_tile: the most programs that share the sum of a tile left over; of each subtile, if it is cut into such.
    subtile_stages: unless 0, tiles left over are cut into quarters, whose loops have so many stages.
    """

    tiles_per_wave: int
    ctas_per_tile: int
    subtile_stages: int = 0

    def __str__(self) -> str:
        cut = f", subtile_stages={self.subtile_stages}" if self.subtile_stages else ""
        return f"tiles_per_wave={self.tiles_per_wave}, ctas_per_tile={self.ctas_per_tile}{cut}"


Sharing = DataParallel | Persistent | SplitK | StreamK


def in_parts(parts: int) -> Sharing:
    """Share sums in so many parts; one part is data-parallel."""
    return SplitK(parts) if parts > 1 else DataParallel()


@dataclass(frozen=True)
class Schedule:
    """Tell how the work of a kernel is cut into tiles and shared out over programs.

    meta: (name, number) for each block size that the compiler chooses, in the definition's order. Sorted by name they
        would differ between processes: names are numbered as they are made, and `10` sorts before `9`.
    num_warps: of a program. num_stages: of its pipelined loops.
    sharing: how tiles are shared out. A pass that cannot share tiles so leaves them a program each.
    use_tma: the parameters that may be accessed through tensor descriptors; their addresses are multiples of 16.
    group_rows: rows of tiles that share a band of the L2 cache; 1 where there is one row, or no such band is wanted.
    multi_axis_grid: whether programs may be counted along several axes of the launch.
    overlaps: whether products overlap with what lies between them, which takes warps with tasks of their own.
    most_spilled: bytes of a thread's registers that may wait in local memory, as they did where it was timed.
    """

    meta: tuple[tuple[str, int], ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    sharing: Sharing = DataParallel()
    use_tma: frozenset[str] = frozenset()
    group_rows: int = 8
    multi_axis_grid: bool = True
    overlaps: bool = False
    most_spilled: int = 0

    @property
    def blocks(self) -> dict[str, int]:
        """The block sizes by name."""
        return dict(self.meta)

    @property
    def programs(self) -> int | None:
        """The most programs to launch; None where each computes one tile."""
        return self.sharing.programs if isinstance(self.sharing, Persistent) else None

    @property
    def parts(self) -> int:
        """The programs that each tile is shared out over."""
        return self.sharing.parts if isinstance(self.sharing, SplitK) else 1

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.meta]
        parts += [f"num_warps={self.num_warps}", f"num_stages={self.num_stages}", str(self.sharing)]
        parts += ["overlaps"] if self.overlaps else []
        return ", ".join(filter(None, parts))
