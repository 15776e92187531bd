"""A step of Conway's Game of Life, on a board whose edges meet.

A cell lives on with two or three living neighbours of eight, and is born where there are three.

Source: Gardner, "The fantastic combinations of John Conway's new solitaire game 'life'", 1970.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(cells, after, ROWS=block_size(upper_bound=32), COLUMNS=block_size()):
    after = after.tile(ROWS, COLUMNS)
    return arrange.whole(cells, after.shape), after


def application(cells, after):
    height, width = cells.source.shape
    rows, columns = after.offsets(0), after.offsets(1)
    alive = cells.source[rows[:, None], columns[None, :]]
    around = ntl.zeros(after.shape, dtype=ntl.int32) - alive

    for down in ntl.static_range(3):
        for across in ntl.static_range(3):
            i, j = (rows + (height + down - 1)) % height, (columns + (width + across - 1)) % width
            around += cells.source[i[:, None], j[None, :]]

    after = (around == 3) | ((around == 2) & (alive != 0))


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="life")


def life(cells):
    after = torch.empty_like(cells)
    kernel(cells, after)
    return after


def reference(cells):
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    around = sum(cells.roll(shift, (0, 1)) for shift in shifts)
    return ((around == 3) | ((around == 2) & (cells == 1))).to(cells.dtype)


def check(device):
    for shape in ((33, 70), (1, 5), (2, 2), (0, 4)):
        cells = torch.randint(0, 2, shape, device=device, dtype=torch.uint8)
        yield life(cells), reference(cells)
    cells = torch.randint(0, 2, (50, 82), device=device, dtype=torch.int32).T[::2]
    yield life(cells), reference(cells)


def timed(device):
    return (torch.randint(0, 2, (8192, 8192), device=device, dtype=torch.uint8),), life, reference
