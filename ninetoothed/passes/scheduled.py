"""The result of the passes: a program, which of them changed it, and what emission must know beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ninetoothed import ir
from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr
from ninetoothed.passes.remainder import Remainder
from ninetoothed.passes.tma_tiles import TmaTile


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel takes beside its arguments: `count` elements, which are zeros at first if `is_zeroed`."""

    name: str
    dtype: DType
    count: Expr
    is_zeroed: bool = False


@dataclass(frozen=True)
class Grid:
    """An index map from the programs of a launch to tiles and their parts; see the pass `grid`.

    launch: along each of its axes, the fastest varying first, the numbers whose product counts the programs.
    names: integers that a program computes, each of those before it; none is negative.
    tiles: how many there are, where a program takes one after another.
    """

    launch: tuple[tuple[Expr, ...], ...] = ((),)
    names: tuple[tuple[str, Expr], ...] = ()
    tiles: Expr | None = None


@dataclass(frozen=True)
class PassReport:
    """Report of one pass: its name, whether it applied, and the program after it."""

    name: str
    applied: bool
    program: ir.Program


@dataclass(frozen=True)
class ScheduledProgram:
    """A program, and how its tiles are shared out, as the passes have decided.

    persistent_loop: the loop over the depth of a product of which each program computes one tile after another.
    buffers: memory in which parts of sums meet.
    remainder: the tiles beyond whole waves, where these alone are shared out.
    coarsening: how many programs of the original grid one computes.
    is_overlapped: whether loops compute the second of two products a round late, so that it may run meanwhile.
    tma_tiles: the accesses through descriptors.
    grid: which tile, and which part of it, a program computes.
    reports: the passes that were run, in their order.
    """

    program: ir.Program
    persistent_loop: ir.For | None = None
    buffers: tuple[Buffer, ...] = ()
    remainder: Remainder | None = None
    coarsening: int = 1
    is_overlapped: bool = False
    tma_tiles: Mapping[ir.Operation, TmaTile] = field(default_factory=dict)
    grid: Grid = Grid()
    reports: tuple[PassReport, ...] = ()

    @property
    def is_distributed(self) -> bool:
        """Tell whether tiles are shared out otherwise than one a program."""
        return self.persistent_loop is not None or bool(self.buffers) or self.remainder is not None
