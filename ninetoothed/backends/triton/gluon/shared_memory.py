"""Find what a kernel has in shared memory: operands of products, and tiles on their way out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ninetoothed import ir
from ninetoothed.backends.triton.gluon.rings import Ring, SharedTiles
from ninetoothed.backends.triton.names import NameTable
from ninetoothed.passes.operations import is_dot, producers, readers
from ninetoothed.passes.tma_tiles import TmaTile


@dataclass(frozen=True)
class SharedMemory:
    """The shared memory of a kernel.

    tiles: the accesses through descriptors. rings: of the right operand of each product. resident: the left operands
    that stay there. stored: the results, on their way out.
    """

    tiles: Mapping[ir.Operation, TmaTile]
    rings: Mapping[ir.Load, Ring]
    resident: Mapping[ir.Load, SharedTiles]
    stored: Mapping[ir.Store, SharedTiles]

    @property
    def all(self) -> tuple[SharedTiles, ...]:
        return tuple(dict.fromkeys((*self.resident.values(), *self.rings.values(), *self.stored.values())))


def find(
    program: ir.Program, tiles: Mapping[ir.Operation, TmaTile], slots: int, tasks: int, names: NameTable
) -> SharedMemory | None:
    """Find the shared memory of a program; None where products read what cannot be there, or others read it, too.

    slots: how many tiles a ring has. tasks: how many compute, each on tiles of its own beside those of rings.
    """
    finder = _Finder(program, tiles, slots, tasks, names)
    if not all(finder.operands(dot) for dot in filter(is_dot, ir.walk(program.body))):
        return None
    stores = [
        each for each in program.body if isinstance(each, ir.Store) and each in tiles and _is_upright(tiles[each])
    ]
    stored = {store: finder.buffer(store) for store in stores}
    memory = SharedMemory(tiles, finder.rings, finder.resident, stored)
    return memory if stored and _are_read_by_products(program, memory) else None


@dataclass
class _Finder:
    """Finds where operands are. known: the rings by what is read from them."""

    program: ir.Program
    tiles: Mapping[ir.Operation, TmaTile]
    slots: int
    tasks: int
    names: NameTable
    rings: dict[ir.Load, Ring] = field(default_factory=dict)
    resident: dict[ir.Load, SharedTiles] = field(default_factory=dict)
    known: dict[tuple, Ring] = field(default_factory=dict)

    def __post_init__(self):
        self.defined_by = producers(self.program.body)

    def operands(self, dot: ir.Apply) -> bool:
        """Find where the operands of a product are; False where that is no place for them."""
        left, right = (_loaded(operand, self.defined_by) for operand in dot.operands)
        if right is None or right not in self.tiles:
            return False
        if left is not None and left not in self.resident:
            if left not in self.tiles or left not in self.program.body:
                return False
            self.resident[left] = self.buffer(left, self.names.fresh(f"{left.access.parameter}_ready"))
        key = right.access.parameter, self.tiles[right].block, left is None
        if key not in self.known:
            self.known[key] = self.ring(right)
        self.rings[right] = self.known[key]
        return True

    def buffer(self, operation: ir.Load | ir.Store, ready: str = "") -> SharedTiles:
        access = operation.access
        name = self.names.fresh(f"{access.parameter}_tiles")
        return SharedTiles(self.tiles[operation], access.type.dtype, name, ready, self.tasks)

    def ring(self, load: ir.Load) -> Ring:
        whats = ("tiles", "ready", "free", "count")
        tiles, ready, free, count = (self.names.fresh(f"{load.access.parameter}_{what}") for what in whats)
        return Ring(self.tiles[load], load.access.type.dtype, tiles, ready, self.slots, free, count, self.tasks)


def _is_upright(tile: TmaTile) -> bool:
    """Tell whether the axes of a tile are in memory in their order."""
    axes = [axis for axis in tile.axes if axis is not None]
    return axes == sorted(axes)


def _loaded(value: ir.Value, defined_by: Mapping[ir.Value, ir.Operation]) -> ir.Load | None:
    """Return the load of a tile that is used as it is in memory, or turned; None for any other."""
    match defined_by.get(value):
        case ir.Load() as load:
            return load
        case ir.Apply(function="permute", operands=(operand,)):
            return _loaded(operand, defined_by)
    return None


def _are_read_by_products(program: ir.Program, memory: SharedMemory) -> bool:
    """Tell whether what is in shared memory is read by products alone, and each tile of a ring by one."""
    read_by = readers(program.body)

    def readings(value: ir.Value) -> list[ir.Operation]:
        """Return what reads a tile, however it is turned."""
        found: list[ir.Operation] = []
        for reader in read_by.get(value, ()):
            match reader:
                case ir.Apply(function="permute", results=(turned,)):
                    found += readings(turned)
                case _:
                    found.append(reader)
        return found

    are_read_once = all(len(readings(load.result)) == 1 for load in memory.rings)
    loads = (*memory.rings, *memory.resident)
    return are_read_once and all(is_dot(reader) for load in loads for reader in readings(load.result))
