"""Arrangements that kernels begin with, a line each: plain functions of symbolic tensors, made of meta-operations.

`blocks`, `rows` and `row_blocks` arrange all tensors of a kernel, and may be given to `make` as they are; the others
arrange one tensor.

    kernel = ninetoothed.make(arrange.rows, application, (Tensor(2), Tensor(1), Tensor(2)))

What they return is arranged as by `tile`: rearrange it, or copy their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ninetoothed.arrangement.boundary import tells_mistakes
from ninetoothed.arrangement.handle import OneSize, Sizes
from ninetoothed.arrangement.operands import several
from ninetoothed.arrangement.symbol import block_size
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import arrangement_error
from ninetoothed.wording import brief, counted

__all__ = ["blocks", "groups", "halves", "neighbours", "row_blocks", "rows", "whole", "windows"]

_BLOCK_SIZE = block_size()


@tells_mistakes
def blocks(*tensors: Tensor, BLOCK_SIZE: OneSize = _BLOCK_SIZE) -> tuple[Tensor, ...]:
    """Give each program a block of `BLOCK_SIZE` elements of each tensor, row-major, and scalars as they are.

    (...,)  ->  (blocks,), (BLOCK_SIZE,)

    The tensors have one shape, of any rank. By default the compiler chooses the size.

    >>> blocks(Tensor(shape=(6, 8), name="x"), Tensor(0, name="alpha"), BLOCK_SIZE=16)
    (Tensor(x: (3,), (16,)), Tensor(alpha: ()))
    """
    return tuple(tensor.flatten().tile(BLOCK_SIZE) if tensor.ndim else tensor for tensor in tensors)


@tells_mistakes
def rows(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Give each program a row of each tensor, all of each vector, and scalars as they are.

    (..., columns)  ->  (rows,), (columns,)

    A row lies along the last dimension. Where all tensors are vectors, there is one program.

    >>> rows(Tensor(shape=(2, 3, 8), name="x"), Tensor(shape=(8,), name="weight"))
    (Tensor(x: (6,), (8,)), Tensor(weight: (6,), (8,)))
    """
    return _each_row(tensors, lambda row: row.tile(None, -1), lambda vector: vector.tile(-1))


@tells_mistakes
def row_blocks(*tensors: Tensor, BLOCK_SIZE: OneSize = _BLOCK_SIZE) -> tuple[Tensor, ...]:
    """Give each program a row of each tensor, as blocks of `BLOCK_SIZE` to loop over, and likewise all of each vector.

    (..., columns)  ->  (rows,), (blocks,), (BLOCK_SIZE,)

    That is for rows that are too long for one tile. By default the compiler chooses the size.

    >>> row_blocks(Tensor(shape=(6, 8), name="x"), Tensor(shape=(8,), name="weight"), BLOCK_SIZE=4)
    (Tensor(x: (6,), (2,), (4,)), Tensor(weight: (6,), (2,), (4,)))
    """
    return _each_row(
        tensors, lambda row: row.tile(None, BLOCK_SIZE, loop=1), lambda vector: vector.tile(BLOCK_SIZE, loop=0)
    )


def _each_row(
    tensors: Sequence[Tensor], cut: Callable[[Tensor], Tensor], cut_vector: Callable[[Tensor], Tensor]
) -> tuple[Tensor, ...]:
    """Arrange matrices of rows by `cut`, whose grid is (rows, 1), and vectors that all rows share by `cut_vector`."""
    arranged = [cut(tensor.flatten(end_dim=-1)).squeeze(1) if tensor.ndim > 1 else tensor for tensor in tensors]
    grid = next((tensor.shape for tensor, given in zip(arranged, tensors, strict=True) if given.ndim > 1), (1,))
    return tuple(
        cut_vector(tensor).expand(grid) if given.ndim == 1 else tensor
        for tensor, given in zip(arranged, tensors, strict=True)
    )


@tells_mistakes
def whole(tensor: Tensor, grid: Sizes = ()) -> Tensor:
    """Give each program of a grid the whole tensor: for weights that all share, and for `x.source[...]` of any element.

    (m, n)  ->  grid, (m, n)

    grid: the outermost shape of another parameter, as `x.shape` of an arranged x; by default one program.

    >>> whole(Tensor(shape=(6, 8), name="table"), (5,))
    Tensor(table: (5,), (6, 8))
    """
    return tensor.tile((-1,) * tensor.ndim).squeeze(tuple(range(tensor.ndim))).expand(several(grid))


@tells_mistakes
def halves(tensor: Tensor) -> Tensor:
    """Give each program a row as its two halves, `x[0]` and `x[1]`: for rotary embeddings and gated activations.

    (..., columns)  ->  (rows,), (2,), (columns / 2,)

    Of an odd number of columns the first half has one more.

    >>> halves(Tensor(shape=(3, 8), name="x"))
    Tensor(x: (3,), (2,), (4,))
    """
    if not tensor.ndim:
        raise arrangement_error(f"{tensor.described}, has no rows", "give a tensor of one dimension or more")
    matrix = tensor if tensor.ndim > 1 else tensor.unsqueeze(0)
    (arranged,) = row_blocks(matrix, BLOCK_SIZE=(tensor.shape[-1] + 1) // 2)
    return arranged


@tells_mistakes
def windows(
    tensor: Tensor,
    shape: Sizes,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    block: Sizes | None = None,
) -> Tensor:
    """Give each program a sliding window over the last dimensions, as pooling and convolutions of PyTorch have them.

    (n, h, w)  ->  (n, windows down, windows across), shape
    (n, h, w)  ->  (n, blocks down, blocks across), shape, block

    shape: a size for each of the dimensions over which a window slides; those before are part of the grid.
    stride, padding, dilation: one number for all of these dimensions, or one for each. Padding is out of bounds.
    block: how many windows each program has, side by side: `x[i, j]` is then element (i, j) of all of them.

    >>> windows(Tensor(shape=(2, 5, 8), name="x"), (3, 3), stride=2, padding=1)
    Tensor(x: (2, 3, 4), (3, 3))
    >>> windows(Tensor(shape=(100,), name="x"), 3, block=16)
    Tensor(x: (7,), (3,), (16,))
    """
    shape = several(shape)
    count = len(shape)
    lead = tensor.ndim - count
    if lead < 0:
        what = f"a window of {counted(count, 'dimension')} is wanted of {tensor.described}"
        raise arrangement_error(what, "give one size for each dimension over which it slides")
    padding, stride, dilation = (_for_each(value, count) for value in (padding, stride, dilation))
    padded = tensor.pad((*((0, 0) for _ in range(lead)), *((amount, amount) for amount in padding)))
    ones, single = (1,) * lead, (None,) * lead
    found = padded.tile((*single, *shape), strides=(*ones, *stride), dilation=(*ones, *dilation), floor_mode=True)
    if block is None:
        return found
    found = found.tile((*single, *_for_each(block, count)))
    inner = found.dtype.ndim
    swapped = found.dtype.ravel().permute((*range(inner, inner + count), *range(inner)))
    found.dtype = swapped.tile((None,) * count + (-1,) * inner).squeeze(tuple(range(count, count + inner)))
    return found


@tells_mistakes
def neighbours(tensor: Tensor, block: Sizes, reach: int = 1) -> Tensor:
    """Give each program a block of the last dimensions, and the blocks shifted by up to `reach` along each: a stencil.

    (h, w)  ->  (h / block, w / block), (2 * reach + 1, 2 * reach + 1), block

    `x[reach, reach]` is the block itself, `x[reach - 1, reach]` that of the elements above. Beyond the edges of the
    tensor is out of bounds.

    >>> neighbours(Tensor(shape=(6, 8), name="x"), (2, 4))
    Tensor(x: (3, 2), (3, 3), (2, 4))
    """
    block = several(block)
    return windows(tensor, (2 * reach + 1,) * len(block), padding=reach, block=block)


@tells_mistakes
def groups(offsets: Tensor) -> Tensor:
    """Give each program the offsets at which its group begins and ends, `x[0]` and `x[1]`, of groups that are ragged.

    (groups + 1,)  ->  (groups,), (2,)

    >>> groups(Tensor(shape=(6,), name="offsets"))
    Tensor(offsets: (5,), (2,))
    """
    return offsets.tile((2,), strides=(1,), floor_mode=True)


def _for_each(value: Sizes, count: int) -> tuple:
    """Return one size for each of so many dimensions."""
    given = several(value)
    if len(given) not in (1, count):
        what = f"{brief(value)} is given for {counted(count, 'dimension')}"
        raise arrangement_error(what, "give one number for all, or one for each")
    return given if len(given) == count else given * count
