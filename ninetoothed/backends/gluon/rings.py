"""Rings of buffers in shared memory: one warp copies tiles into them, those that compute take them out in that order.

    key_ready[slot]: the tile is there                    key_free[slot]: nobody reads it any more

Tasks read the same tiles, or each has slots of its own, one task's after the other's.

Each barrier is waited for by the parity of its phase, which is that of how often the ring was gone round.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext
from ninetoothed.backends.triton.functions import dtype_node
from ninetoothed.dtypes import DType, PointerType, int1, int8
from ninetoothed.passes.tma_tiles import TmaTile


@dataclass(frozen=True)
class SharedTiles:
    """Shared memory for a tile of each task that computes.

    tiles: its name. ready: that of the barrier at which its copy arrives, if it has one. slots: how many tiles it has.
    """

    tile: TmaTile
    dtype: DType | PointerType
    tiles: str
    ready: str = ""
    slots: int = 1

    @property
    def bytes(self) -> int:
        return math.prod(self.tile.block) * in_memory(self.dtype).bits // 8

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tile in a product, or as it is stored."""
        return tuple(count for count, axis in zip(self.tile.block, self.tile.axes, strict=True) if axis is not None)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.tiles, self.ready) if self.ready else (self.tiles,)

    def barriers(self) -> dict[str, int]:
        """Count for each barrier of a slot how many arrive there."""
        return {self.ready: 1} if self.ready else {}

    def allocated(self, descriptor: ast.expr) -> Iterator[ast.stmt]:
        """Allocate the memory, in the layout in which a descriptor copies."""
        shape, layout = (self.slots, *self.tile.block), ast.Attribute(descriptor, "layout")
        yield _allocated(self.tiles, dtype_node(in_memory(self.dtype)), shape, layout)
        for name in self.barriers():
            yield _allocated(name, syntax.name("tl.int64"), (self.slots, 1), syntax.call("mbarrier.MBarrierLayout"))
        slot, counts = syntax.name("slot"), self.barriers().items()
        each: list[ast.stmt] = [
            ast.Expr(syntax.call("mbarrier.init", at(name, slot), count=count)) for name, count in counts
        ]
        if each:
            yield ast.For(slot, syntax.call("tl.static_range", self.slots), each, [], lineno=0)

    def tile_in(self, slot: ast.expr) -> ast.expr:
        """Return the tile in a slot, without the dimensions of its tensor along which it has one element."""
        tile = at(self.tiles, slot)
        return tile if self.shape == self.tile.block else syntax.method(tile, "reshape", self.shape)


@dataclass(frozen=True)
class Ring(SharedTiles):
    """Shared memory for tiles that tasks read, one after the other.

    free: the name of the barriers of empty slots. count: that of how many tiles came to a task. readers: how many tasks
    read a tile. tasks: how many have slots of their own.
    """

    free: str = ""
    count: str = ""
    readers: int = 1
    tasks: int = 1

    @property
    def depth(self) -> int:
        """Count the slots that a tile of one task may take."""
        return self.slots // self.tasks

    @property
    def names(self) -> tuple[str, ...]:
        return self.tiles, self.ready, self.free

    def barriers(self) -> dict[str, int]:
        return {self.ready: 1, self.free: self.readers}

    def slot(self, task: ast.expr | None = None) -> ast.expr:
        """Return the slot of the next tile, of one task where each has its own."""
        slot = syntax.binary("%", syntax.name(self.count), syntax.number(self.depth))
        if task is None or self.tasks == 1:
            return slot
        first = syntax.binary("*", task, syntax.number(self.depth)) if self.depth > 1 else task
        return syntax.binary("+", first, slot) if self.depth > 1 else first

    def parity(self) -> ast.expr:
        """Return the parity of the phase in which a slot becomes ready."""
        rounds = syntax.binary("//", syntax.name(self.count), syntax.number(self.depth))
        return syntax.binary("&", rounds, syntax.number(1))

    def counted(self) -> ast.stmt:
        return syntax.assign(self.count, syntax.binary("+", syntax.name(self.count), syntax.number(1)))


def in_memory(dtype: DType | PointerType) -> DType:
    """Return the type of an element as the copy engine knows it: truth takes a byte."""
    assert isinstance(dtype, DType)
    return int8 if dtype == int1 else dtype


def at(name: str, slot: ast.expr) -> ast.expr:
    return syntax.method(syntax.name(name), "index", slot)


def copy(context: EmitContext, direction: int, *arguments: ast.expr) -> ast.expr:
    """Print a copy into shared memory (0), or out of it (1)."""
    return syntax.call(f"tma.{context.target.gluon_copies[direction]}", *arguments)


def _allocated(name: str, dtype: ast.expr, shape: tuple[int, ...], layout: ast.expr) -> ast.stmt:
    sizes = ast.List([*map(syntax.number, shape)])
    return syntax.assign(name, syntax.call("tl.allocate_shared_memory", dtype, sizes, layout))
