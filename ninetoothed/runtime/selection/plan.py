"""Plans of a product: a tile, a pipeline and a way to distribute tiles, with all that they take of a machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

from ninetoothed.expr import const, var
from ninetoothed.expr.sizes import power_above
from ninetoothed.passes.remainder import Remainder
from ninetoothed.passes.remainder_subtile import FEWEST_LANES, QUARTERS
from ninetoothed.runtime.selection.machine import Machine, ProductCosts
from ninetoothed.runtime.selection.pattern import ProductPattern
from ninetoothed.runtime.selection.problem import RESERVED, SHORTEST, TuningProblem
from ninetoothed.schedule import DataParallel, Persistent, Schedule, Sharing, SplitK, StreamK

# A part of a sum has at least so many steps.
FEWEST_STEPS = 3


@dataclass(frozen=True, eq=False)
class ProductProblem:
    """A product of a class of calls on a machine: all that its plans share."""

    problem: TuningProblem
    pattern: ProductPattern
    machine: Machine
    costs: ProductCosts

    @cached_property
    def bits(self) -> int:
        """The bits of an element of the wider operand."""
        return max(map(self.problem.bits, self.pattern.operands))

    @cached_property
    def is_exact(self) -> bool:
        """Tell whether whole float32 numbers are multiplied, which no tensor core does."""
        return self.problem.is_exact(self.bits)

    @cached_property
    def depth(self) -> int:
        """The length of the sums."""
        return self.problem.extent(self.pattern.depth)

    @cached_property
    def count_tiles(self) -> Callable[..., int]:
        """Count the tiles that (name, block size) pairs make, once: many plans have the same."""
        return cache(lambda *blocks: self.problem.programs(dict(blocks)))

    def stacked(self, name: str) -> int:
        """Return how many matrices lie side by side along a side of a tile."""
        return self.pattern.stacked if name == self.pattern.columns else 1

    def extent(self, name: str) -> int:
        """Count the rows or the columns of the product."""
        return self.problem.extent(name) * self.stacked(name)

    def side(self, name: str, wanted: int) -> int:
        """Return the side of a tile that is nearest to `wanted` among those that the kernel may have."""
        return self.problem.block(name, wanted // self.stacked(name)) * self.stacked(name)

    @cached_property
    def most_accumulator(self) -> int:
        """The most registers of a thread that an accumulator may take, beside all that the kernel keeps in them."""
        if self.is_exact or not all(map(self.problem.is_aligned, self.pattern.operands)):
            return 64  # Each element is loaded by itself, through registers.
        if self.pattern.stacked > 1 and not self.machine.generation.has_wgmma:
            return 64  # Operands of both matrices are in registers, too.
        sides = {self.pattern.rows, self.pattern.columns}
        shapes = [frozenset[str]().union(*(size.variables for size in tile.shape)) for tile in self.pattern.tiles]
        return self.machine.generation.crowded_registers if shapes.count(frozenset(sides)) > 1 else 128

    @cached_property
    def copy_rates(self) -> tuple[float, float]:
        """Bytes a cycle at which tiles of the operands are copied."""
        lhs, rhs = map(self._copy_rate, self.pattern.operands)
        return lhs, rhs

    def _copy_rate(self, operand: int) -> float:
        if self.problem.has_odd_rows(operand):
            return self.costs.odd_copy
        return self.costs.gather if operand in self.pattern.gathered else self.costs.copy

    def per_multiprocessor(self, programs: int) -> int:
        """Return the most of so many programs that one multiprocessor gets."""
        return -(-programs // self.machine.multiprocessors)


@dataclass(frozen=True)
class Plan:
    """A way to compute a product: tiles of (rows, columns) in steps of a depth, and how tiles are distributed."""

    product: ProductProblem
    rows: int
    columns: int
    depth: int
    warps: int
    stages: int = 2
    sharing: Sharing = DataParallel()
    # The number of programs that a multiprocessor is to run at once; None for as many as it can.
    together: int | None = None

    @classmethod
    def of(cls, product: ProductProblem, rows: int, columns: int, depth: int, warps: int) -> Plan | None:
        """Return a plan with the blocks nearest to these that the kernel may have; None if registers do not suffice."""
        problem, pattern = product.problem, product.pattern
        sides = zip((pattern.rows, pattern.columns), (rows, columns), strict=True)
        rows, columns = (product.side(name, max(side, SHORTEST)) for name, side in sides)
        depth = problem.block(pattern.depth, min(depth, power_above(product.depth)))
        plan = cls(product, rows, columns, depth, problem.warps(warps))
        return plan if plan.accumulator <= product.most_accumulator else None

    @cached_property
    def blocks(self) -> dict[str, int]:
        """The block sizes by name."""
        pattern = self.product.pattern
        return {pattern.rows: self.rows, pattern.columns: self.columns // pattern.stacked, pattern.depth: self.depth}

    # -- how much there is to do --

    @property
    def area(self) -> int:
        """The elements of a tile."""
        return self.rows * self.columns

    @cached_property
    def tiles(self) -> int:
        """The number of tiles."""
        return self.product.count_tiles(*self.blocks.items())

    @property
    def steps(self) -> int:
        """The steps of the sum of a tile."""
        return -(-self.product.depth // self.depth)

    # -- what a program takes --

    @property
    def accumulator(self) -> int:
        """Registers of a thread for the accumulator."""
        return self.area // self._threads

    @property
    def _threads(self) -> int:
        return self.product.machine.generation.warp_size * self.warps

    @property
    def step_bytes(self) -> int:
        """Bytes of the operands of a step."""
        return (self.rows + self.columns) * self.depth * self.product.bits // 8

    @cached_property
    def loaded_bytes(self) -> int:
        """Bytes of all tiles that are loaded in a step: products that share an operand have more than two."""
        problem, depth = self.product.problem, var(self.product.pattern.depth)
        tiles = (tile for tile in problem.pattern.tiles if depth in tile.shape)
        return sum(problem.lanes(tile, self.blocks) * problem.bits(tile.parameter) // 8 for tile in tiles)

    @property
    def shared(self) -> int:
        """Bytes of shared memory; a persistent program stores half a tile beside the stages of the next."""
        stored = self.area * self.product.bits // 16 if isinstance(self.sharing, Persistent) else 0
        return self.stages * self.step_bytes + RESERVED + stored

    @property
    def fits(self) -> bool:
        """Tell whether a program has enough shared memory."""
        return self.shared <= self.product.machine.shared_memory

    @cached_property
    def resident(self) -> int:
        """The number of programs that a multiprocessor runs at once."""
        if self.together is not None:
            return self.together
        machine, costs = self.product.machine, self.product.costs
        by_shared_memory = (machine.shared_memory + costs.own_shared_memory) // self.shared
        by_threads = machine.generation.threads // self._threads
        most = min(by_shared_memory, by_threads, costs.most_resident)
        if costs.other_registers is not None:
            most = min(most, machine.registers // ((self.accumulator + costs.other_registers) * self._threads))
        return max(1, most)

    @property
    def tiles_per_wave(self) -> int:
        """The number of tiles that run at once, where each is a program."""
        return self.product.machine.multiprocessors * self.resident

    # -- how tiles are distributed --

    def persistent(self) -> Plan:
        """Return the plan with as many programs as run at once, at most two a multiprocessor."""
        return replace(self, sharing=Persistent(self.persistent_programs))

    @cached_property
    def persistent_programs(self) -> int:
        """The number of programs that run at once and compute tile after tile."""
        looping = replace(self, sharing=Persistent(0))
        return self.product.machine.multiprocessors * min(looping.resident, 2)

    @property
    def is_worth_sharing(self) -> bool:
        """Tell whether all parts of sums (of all tiles, or of those left over) run at once, each with some steps."""
        match self.sharing:
            case SplitK(parts):
                are_at_once = self.tiles * parts <= self.tiles_per_wave
            case StreamK(tiles_per_wave):
                are_at_once = self.tiles > tiles_per_wave and self.ctas_per_tile > 1
            case _:
                return True
        return are_at_once and self.steps >= FEWEST_STEPS * self.parts

    @property
    def can_be_cut(self) -> bool:
        """Tell whether tiles are large, and none is a whole side of the product, which would be read too late."""
        pattern = self.product.pattern
        sides = (pattern.rows, self.rows), (pattern.columns, self.columns)
        return all(FEWEST_LANES <= side < self.product.extent(name) for name, side in sides)

    @property
    def parts(self) -> int:
        """The parts of a sum that has parts."""
        match self.sharing:
            case SplitK(parts):
                return parts
            case StreamK():
                return max(self.ctas_per_tile // self.subtiles, 1)
        return 1

    @property
    def subtiles(self) -> int:
        """The number of subtiles into which a tile left over is cut."""
        return QUARTERS if isinstance(self.sharing, StreamK) and self.sharing.subtile_stages else 1

    @cached_property
    def ctas_per_tile(self) -> int:
        """The number of programs that share a tile left over after whole waves; 1 where none is."""
        if not isinstance(self.sharing, StreamK) or not self.tiles % self.sharing.tiles_per_wave:
            return 1
        sharing = self.sharing
        left = Remainder(const(self.tiles), sharing.tiles_per_wave, sharing.ctas_per_tile, self.subtiles)
        return left.ctas_per_tile(left.spare, left.is_cut(left.spare)).constant

    @property
    def subtile(self) -> Plan:
        """A quarter of a tile, in a pipeline of its own; the tile itself where it is not cut."""
        if not isinstance(self.sharing, StreamK) or not self.sharing.subtile_stages:
            return self
        return replace(self, rows=self.rows // 2, columns=self.columns // 2, stages=self.sharing.subtile_stages)

    def schedule(self) -> Schedule:
        """Return the plan as a schedule."""
        chosen = self.product.problem.schedule(self.blocks, self.warps, self.stages)
        return replace(chosen, sharing=self.sharing)
