"""State what can be printed in Gluon: the names that Triton must have, and the form that a program must have.

Its last loop over products ends somewhere, all products are of 16-bit numbers, and of 16 rows a warp. Their right
operands are tiles that the copy engine brings into rings of buffers, the same for all tasks, and read by one product
each; left operands are in registers, or brought once, before the loop. Other matrices that loops load, such as masks,
come into rings, too, as far as there is shared memory: into the registers of threads, they would be too many. What is
stored leaves by the copy engine, but for vectors.

What is printed as a call of CUDA's library, or of a helper of our own, has no form: see `kernel`. Nor have loops that
begin at a number which the program computes, as those of a window, which took 1.16 to 1.37 of the time in Triton on an
H200; nor what is loaded beside operands and is of other types than booleans and floats of 16 and 32 bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.backends.gluon.rings import Ring, SharedTiles
from ninetoothed.backends.triton.names import NameTable
from ninetoothed.dtypes import int1
from ninetoothed.passes.dead_code import remove_dead
from ninetoothed.passes.operations import is_dot, readers
from ninetoothed.passes.products import Feeds
from ninetoothed.passes.row_halves import HALF
from ninetoothed.passes.tma_tiles import TmaTile
from ninetoothed.schedule import Schedule

# The names that are printed, beside what Gluon has of Triton's own language.
LANGUAGE = "triton.experimental.gluon.language"
HOPPER = f"{LANGUAGE}.nvidia.hopper"
TMA = f"{HOPPER}.tma"
NAMES = {
    "triton.experimental.gluon": ("jit",),
    "triton.experimental.gluon._runtime": ("GluonASTSource",),
    LANGUAGE: (
        "DotOperandLayout",
        "NVMMADistributedLayout",
        "NVMMASharedLayout",
        "SliceLayout",
        "allocate_shared_memory",
        "convert_layout",
        "warp_specialize",
    ),
    HOPPER: ("fence_async_shared", "mbarrier", "tma", "warpgroup_mma", "warpgroup_mma_wait"),
    f"{HOPPER}.mbarrier": ("MBarrierLayout", "arrive", "expect", "init", "wait"),
    TMA: ("store_wait",),
}
# Bytes of shared memory beside tiles: barriers, and what the compiler keeps there between the warps of a task.
RESERVED = 2048
# Of the copies into shared memory, and out of it, one name each: the newest first.
COPIES = (("async_load", "async_copy_global_to_shared"), ("async_store", "async_copy_shared_to_global"))


class NoFormError(Exception):
    """Tells why a program cannot be printed."""


@dataclass(frozen=True)
class Form:
    """The shared memory of a kernel, and the work of its warps.

    tiles: the accesses through descriptors. rings: of the right operand of each product, and of what else loops load:
    the loads in `looked_at`. resident: the left operands that stay there. stored: the results, on their way out, where
    left operands were if these are like them.
    copied: what the warp that copies runs. last: the last loop over products.
    """

    tiles: Mapping[ir.Operation, TmaTile]
    rings: Mapping[ir.Load, Ring]
    resident: Mapping[ir.Load, SharedTiles]
    stored: Mapping[ir.Store, SharedTiles]
    copied: ir.Block
    last: ir.For
    looked_at: frozenset[ir.Load]

    @property
    def buffers(self) -> tuple[SharedTiles, ...]:
        return tuple(dict.fromkeys((*self.resident.values(), *self.rings.values(), *self.stored.values())))


def form_of(
    program: ir.Program,
    tiles: Mapping[ir.Operation, TmaTile],
    schedule: Schedule,
    tasks: int,
    names: NameTable,
    shared_memory: int,
) -> Form:
    """Find the form of a program. Raises `NoFormError` where it has none.

    tasks: how many compute, each on tiles of its own beside those of rings. shared_memory: the bytes that there are.
    """
    finder = _Finder(program, tiles, schedule.num_stages, tasks, names)
    products = [dot for dot in ir.walk(program.body) if is_dot(dot)]
    loops = [each for each in ir.walk(program.body) if isinstance(each, ir.For) and any(map(is_dot, each.body))]
    for dot in products:
        _check_product(dot, schedule.num_warps)
        finder.operands(dot)
    stores = (each for each in finder.outermost if isinstance(each, ir.Store) and each in tiles)
    stored = {store: finder.outgoing(store) for store in stores if _is_matrix(tiles[store])}
    multiplied, looked_at = dict(finder.rings), finder.others(stored, shared_memory)
    copied = remove_dead(program.body, must_run=lambda each: any(load in finder.rings for load in ir.walk((each,))))
    are_shared = not any(HALF in ir.integers(operation) for operation in ir.walk(copied) if operation not in looked_at)
    own = {each: tiles[each] for each in (*finder.rings, *finder.resident, *stored)}
    if any(name in loops[0].start.variables for name, _ in loops[0].bindings):
        raise NoFormError("its loops begin at a computed number")
    form = Form(own, finder.rings, finder.resident, stored, copied, loops[-1], looked_at)
    if not stored:
        raise NoFormError("the copy engine does not store its result")
    if not are_shared or not _are_read_by_products(program, form, multiplied):
        raise NoFormError("operands are read by more than one product, or by half of the rows")
    return form


def _check_product(dot: ir.Apply, num_warps: int) -> None:
    """Check that a product is of 16-bit numbers, and of as many rows as the instructions of so many warps."""
    if any(operand.type.dtype.bits != 16 for operand in dot.operands):
        raise NoFormError("a product is of other numbers than those of 16 bits")
    if dot.result.type.lanes[0] != 16 * num_warps:
        raise NoFormError(f"a product has {dot.result.type.lanes[0]} rows, for {num_warps} warps of 16")


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
        self.feeds = Feeds(self.program.body)

    @property
    def outermost(self) -> ir.Block:
        """The operations outside of loops and branches, but for a branch that ends the program: see `past_the_end`."""
        match self.program.body:
            case (*before, ir.If(then_body=rest, outcomes=())):
                return (*before, *rest)
        return self.program.body

    def operands(self, dot: ir.Apply) -> None:
        """Find where the operands of a product are, and that these are places for them."""
        left, right = (self.feeds.turned(operand) for operand in dot.operands)
        if right is None:
            raise NoFormError("a right operand is computed")
        self._check_tile(right)
        if left is not None and left not in self.resident:
            self._check_tile(left)
            if left not in self.outermost:
                raise NoFormError(f"`{left.access.parameter}` is loaded in a loop, as a left operand")
            self.resident[left] = self.buffer(left, self.names.fresh(f"{left.access.parameter}_ready"))
        key = right.access.parameter, self.tiles[right].block, left is None
        if key not in self.known:
            self.known[key] = self.ring(right)
        self.rings[right] = self.known[key]

    def _check_tile(self, load: ir.Load) -> None:
        if load not in self.tiles:
            raise NoFormError(f"the copy engine does not take the places or the strides of `{load.access.parameter}`")

    def outgoing(self, store: ir.Store) -> SharedTiles:
        """Return the buffer of what is stored: that of an operand of its shape, which no product reads any more."""
        tile, after = self.tiles[store], self.outermost[self.outermost.index(store) :]
        for buffer in () if any(map(is_dot, ir.walk(after))) else self.resident.values():
            if (buffer.tile.block, buffer.dtype) == (tile.block, store.access.type.dtype):
                return buffer
        return self.buffer(store)

    def buffer(self, operation: ir.Load | ir.Store, ready: str = "") -> SharedTiles:
        access = operation.access
        name = self.names.fresh(f"{access.parameter}_tiles")
        return SharedTiles(self.tiles[operation], access.type.dtype, name, ready, self.tasks)

    def ring(self, load: ir.Load) -> Ring:
        whats = ("tiles", "ready", "free", "count")
        tiles, ready, free, count = (self.names.fresh(f"{load.access.parameter}_{what}") for what in whats)
        return Ring(self.tiles[load], load.access.type.dtype, tiles, ready, self.slots, free, count, self.tasks)

    def others(self, stored: Mapping[ir.Store, SharedTiles], shared_memory: int) -> frozenset[ir.Load]:
        """Find rings for what loops load beside operands."""
        found, known = set(), dict[tuple, Ring]()
        for load in self._looked_at():
            dtype = load.access.type.dtype
            if dtype != int1 and not (dtype.is_floating and dtype.bits in (16, 32)):
                raise NoFormError(f"its loop loads {dtype} of `{load.access.parameter}`")
            self._check_tile(load)
            if not _is_matrix(self.tiles[load]):
                raise NoFormError(f"tiles of `{load.access.parameter}` have not their columns side by side in memory")
            key = load.access.parameter, self.tiles[load].block
            if key not in known:
                taken = {*self.rings.values(), *self.resident.values(), *stored.values()}
                ring = self.ring(load)
                left = shared_memory - RESERVED - sum(each.bytes * each.slots for each in taken)
                depth = min(left // (ring.bytes * self.tasks), self.slots)
                known[key] = replace(ring, slots=depth * self.tasks, readers=1, tasks=self.tasks)
                if depth < 1:
                    raise NoFormError(f"shared memory has no room for tiles of `{load.access.parameter}`")
            self.rings[load] = known[key]
            found.add(load)
        return frozenset(found)

    def _looked_at(self) -> Iterator[ir.Load]:
        """Yield the matrices that are loaded in loops and branches, but for operands."""
        for operation in ir.walk(self.program.body):
            if not isinstance(operation, ir.Load) or operation in self.rings or operation in self.outermost:
                continue
            if sum(count > 1 for count in operation.access.type.lanes) > 1:
                yield operation


def _is_matrix(tile: TmaTile) -> bool:
    """Tell whether a tile has rows and columns, which are in memory in their order; threads store vectors."""
    axes = [axis for axis in tile.axes if axis is not None]
    return len(axes) > 1 and axes == sorted(axes)


def _are_read_by_products(program: ir.Program, form: Form, multiplied: Collection[ir.Load]) -> bool:
    """Tell whether operands in shared memory are read by products alone, and each tile of a ring by one."""
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

    are_read_once = all(len(readings(load.result)) == 1 for load in multiplied)
    loads = (*multiplied, *form.resident)
    return are_read_once and all(is_dot(reader) for load in loads for reader in readings(load.result))
