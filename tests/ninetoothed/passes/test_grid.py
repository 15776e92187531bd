"""Which tile, and which part of it, each program computes: each once, those that share operands together."""

import itertools
import math

import pytest
import torch

from ninetoothed import passes
from ninetoothed.backends.triton import emit
from ninetoothed.passes import Target
from ninetoothed.passes.grid import LAST, LAUNCH, PID, growth
from ninetoothed.passes.remainder import PART, PARTS
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.selection import machine
from ninetoothed.schedule import DataParallel, Persistent, Schedule, SplitK, StreamK
from ninetoothed_ops.kernels import bmm, mm, sdpa, sdpa_backward_key_value


def programs(kernel, arguments, **schedule):
    """The names that each program of a launch computes, in the order in which programs begin, and the tiles along axes.

    A persistent program computes them for one tile after another.
    """
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)
    sizes, tma = dict(variant.selection.values), frozenset(each.name for each in variant.program.parameters)
    scheduled = passes.run(variant.program, Target(), Schedule(use_tma=tma, **schedule), passes.GPU)
    grid = scheduled.grid
    axes = [range(math.prod(extent.evaluate(sizes) for extent in axis)) for axis in grid.launch]
    found = []
    for numbers in itertools.product(*reversed(axes)):
        values = {**sizes, **dict(zip(LAUNCH, reversed(numbers))), LAST: len(axes[0]) - 1}
        values |= {PID: numbers[-1]} if grid.tiles is not None else {}
        for name, e in grid.names:
            values[name] = e.evaluate(values)
        found.append(values)
    assert grid.tiles is None or grid.tiles.evaluate(found[0]) == len(found)
    return found, [extent.evaluate(sizes) for extent in variant.program.grid]


def halves(*shapes):
    return tuple(torch.empty(shape, dtype=torch.float16) for shape in shapes)


def product(m, n):
    return mm.make(), halves((m, 512), (512, n), (m, n))


def batches(count, m, n):
    return bmm.make(), halves((count, m, 512), (count, 512, n), (count, m, n))


def attention(is_causal):
    x = torch.empty(2, 4, 1024, 64, dtype=torch.float16)
    return sdpa.make(), (x, x, x, torch.empty(1).expand(2, 4, 1024, 1024), 0.1, x, sdpa.NO_MASK, is_causal)


def tiles(found, rank=2):
    return [tuple(values.get(f"program_{axis}", 0) for axis in range(rank)) for values in found]


SHARINGS = (DataParallel(), Persistent(132), SplitK(3), StreamK(132, 4), StreamK(132, 4, 6), StreamK(16, 8))


@pytest.mark.parametrize("sharing", SHARINGS, ids=str)
@pytest.mark.parametrize("group_rows, multi_axis_grid", ((8, True), (1, False)))
@pytest.mark.parametrize("of", (product(4480, 1024), product(256, 8192), batches(3, 1100, 700), attention(True)))
def test_every_part_of_every_tile_is_computed_once(of, sharing, group_rows, multi_axis_grid):
    found, extents = programs(*of, sharing=sharing, group_rows=group_rows, multi_axis_grid=multi_axis_grid)
    count = sharing.parts if isinstance(sharing, SplitK) and PART in found[0] else 1
    parts = {}
    for tile, values in zip(tiles(found, len(extents)), found, strict=True):
        parts.setdefault(tile, []).append((values.get(PART, 0), values.get(PARTS, count)))
    assert sorted(parts) == sorted(itertools.product(*map(range, extents)))
    assert all(sorted(each) == [(part, len(each)) for part in range(len(each))] for each in parts.values())
    assert isinstance(sharing, SplitK | StreamK) or len(found) == len(parts)


def test_programs_that_run_together_read_less():
    """Rows and columns of tiles that a wave reads, beside those that it would row by row."""
    found, (rows, columns) = programs(*product(8192, 8192))
    by_rows = [*itertools.product(range(rows), range(columns))]
    together, apart = (
        len({row for row, *_ in wave}) + len({column for _, column, *_ in wave})
        for wave in (each[: machine.H200.multiprocessors] for each in (tiles(found), by_rows))
    )
    assert together < 0.75 * apart


def test_programs_of_a_group_start_longest_first():
    """Of the gradient of keys those of the first keys have most to do: with three heads in a group, of each three."""
    query, sums = torch.empty(2, 4, 1024, 64, dtype=torch.float16), torch.empty(2, 4, 1024, 1)
    mask = torch.empty(1).expand(2, 4, 1024, 1024)
    tensors = query, query, query, mask, sums[:, 0, 0, 0], 0, 0.1, 0.0, query, sums, sums, sums, query, query
    given = sdpa_backward_key_value.make(), (*tensors, sdpa.NO_MASK, True, False, False)
    program = dispatch.launcher_of(given[0]).trace(given[1], {}, machine.H200).program
    assert [growth(program, axis) for axis in program.axes] == [0, 0, -1, 0]
    found, (batch, heads, blocks, _) = programs(*given, group_rows=3)
    places = [(block, heads * entry + head) for entry, head, block in tiles(found, 3)]
    groups = range(3), range(3, 6), range(6, batch * heads)
    assert places == [(block, row) for rows in groups for block in range(blocks) for row in rows]


@pytest.mark.parametrize("is_causal", (False, True))
def test_the_longest_first(is_causal):
    kernel, arguments = attention(is_causal)
    program = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200).program
    assert [growth(program, axis) for axis in program.axes] == [0, 0, int(is_causal), 0]
    assert ("columns - " in emit(program, Schedule()).source) == is_causal
    assert ("num_programs(0) - 1 - " in emit(program, Schedule(group_rows=1)).source) == is_causal
