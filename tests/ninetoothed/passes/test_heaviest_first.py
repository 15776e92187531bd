"""In which order programs do their tiles: next to each other those that share operands, and the longest first."""

import types

import pytest
import torch

from ninetoothed.backends.triton import emit
from ninetoothed.passes.grid import grows_with
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.selection import machine
from ninetoothed.schedule import Schedule
from ninetoothed_ops.kernels import mm, sdpa


def product(m, n):
    matrices = (torch.empty(shape, dtype=torch.float16) for shape in ((m, 512), (512, n), (m, n)))
    return dispatch.launcher_of(mm.make()).trace(tuple(matrices), {}, machine.H200)


def order(m, n):
    """The lines that say which tile a program does."""
    text = emit(product(m, n).program, Schedule()).source
    lines = text[text.index("    pid =") : text.index("    accumulator =")].splitlines()
    return "".join(f"{line.strip()}\n" for line in lines)


def tiles(m, n):
    """How many rows and columns of tiles a product has, and the tiles in the order of the programs that do them."""
    code = compile(order(m, n), "<order>", "exec")

    def names(pid):
        tl = types.SimpleNamespace(program_id=lambda axis: pid, cdiv=lambda a, b: -(-a // b), minimum=min)
        known = {"tl": tl, "input_size_0": m, "other_size_1": n}
        exec(code, known)
        return known

    rows, columns = names(0)["rows"], names(0)["columns"]
    each = map(names, range(rows * columns))
    return rows, columns, [(known["pid_0"], known["pid_1"]) for known in each]


@pytest.mark.parametrize("m, n", ((4096, 4096), (4096 + 128 * 3, 1024), (256, 8192), (8192, 300)))
def test_every_tile_is_done_once(m, n):
    rows, columns, found = tiles(m, n)
    assert sorted(found) == [(row, column) for row in range(rows) for column in range(columns)]


def test_programs_that_run_together_read_less():
    """Rows and columns of tiles that a wave reads, beside those that it would row by row."""
    rows, columns, found = tiles(8192, 8192)
    by_rows = [(row, column) for row in range(rows) for column in range(columns)]
    together, apart = (
        len({row for row, _ in wave}) + len({column for _, column in wave})
        for wave in (each[: machine.H200.multiprocessors] for each in (found, by_rows))
    )
    assert together < 0.75 * apart


@pytest.mark.parametrize("is_causal", (False, True))
def test_the_longest_first(is_causal):
    x = torch.empty(2, 4, 1024, 64, dtype=torch.float16)
    arguments = (x, x, x, torch.empty(1).expand(2, 4, 1024, 1024), 0.1, x, sdpa.NO_MASK, is_causal)
    program = dispatch.launcher_of(sdpa.make()).trace(arguments, {}, machine.H200).program
    assert [grows_with(program, axis) for axis in program.axes] == [False, False, is_causal, False]
    assert ("- 1 - " in emit(program, Schedule()).source) == is_causal
