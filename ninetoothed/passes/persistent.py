"""Pass: let as many programs as the GPU runs at once take one tile of a product after another.

    pid = tl.program_id(0)
    ...one tile...
->  for pid in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        ...one tile...

Flattened, the loop over tiles and the loop within each become one, in which the loads for the next tile are under way
while the last is stored.
"""

from __future__ import annotations

from collections.abc import Container

from ninetoothed import ir
from ninetoothed.language.primitive import Effect


def find_loop(program: ir.Program, tma_tiles: Container[ir.Operation]) -> ir.For | None:
    """Find the loop over a product's depth around which a loop over tiles pays; all else is straight-line code.

    None where there is none. All its loads must go through TMA: others would not be under way across tiles. No tile may
    depend on another, so nothing is both read and written.
    """
    loops = [operation for operation in program.body if ir.blocks(operation)]
    if len(loops) != 1 or not isinstance(loops[0], ir.For) or any(ir.blocks(inner) for inner in loops[0].body):
        return None
    everything = tuple(ir.walk(program.body))
    if any(isinstance(operation, ir.Print | ir.Breakpoint) or _is_by_hand(operation) for operation in everything):
        return None
    loads = {operation.access.parameter for operation in everything if isinstance(operation, ir.Load)}
    stores = {operation.access.parameter for operation in everything if isinstance(operation, ir.Store)}
    inner = [operation for operation in loops[0].body if isinstance(operation, ir.Load | ir.Store)]
    is_fed = inner and all(isinstance(operation, ir.Load) and operation in tma_tiles for operation in inner)
    return loops[0] if is_fed and not loads & stores and any(extent != 1 for extent in program.grid) else None


def _is_by_hand(operation: ir.Operation) -> bool:
    """Tell whether an operation may read or write memory through pointers, or does nothing but have an effect."""
    return isinstance(operation, ir.Apply) and (not operation.results or operation.primitive.effect is Effect.READS)
