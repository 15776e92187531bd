"""A step of Conway's Game of Life, on a board whose edges meet.

A cell lives on with two or three living neighbours of eight, and is born where there are three.

Source: Gardner, "The fantastic combinations of John Conway's new solitaire game 'life'", 1970.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(cells, after, ROWS=block_size(1, 32), COLUMNS=block_size()):
    after = after.tile(ROWS, COLUMNS)
    return arrange.whole(cells, after.shape), after


def around(places, size):
    """The places before, at and after each place, on a ring."""
    before, after = places - 1, places + 1
    return ntl.where(before < 0, size - 1, before), places, ntl.where(after >= size, 0, after)


def application(cells, after):
    total = ntl.zeros(after.shape, dtype=ntl.int32)

    for i in around(after.offsets(0), cells.source.shape[0]):
        for j in around(after.offsets(1), cells.source.shape[1]):
            total += cells.source[i[:, None], j[None, :]]

    alive = cells.source[after.offsets(0)[:, None], after.offsets(1)[None, :]] != 0
    after = (total == 3) | ((total == 4) & alive)  # a cell counts itself


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="life")


def reference(cells):
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    around = sum(cells.roll(shift, (0, 1)) for shift in shifts)
    return ((around == 3) | ((around == 2) & (cells == 1))).to(cells.dtype)


def life(cells):
    after = torch.empty_like(cells)
    kernel(cells, after)
    return after


def check(device):
    for shape in ((33, 70), (1, 5), (2, 2), (0, 4)):
        cells = torch.randint(0, 2, shape, device=device, dtype=torch.uint8)
        yield life(cells), reference(cells)
    cells = torch.randint(0, 2, (50, 82), device=device, dtype=torch.int32).T[::2]
    yield life(cells), reference(cells)


def timed(device):
    return (torch.randint(0, 2, (8192, 8192), device=device, dtype=torch.uint8),), life, reference
