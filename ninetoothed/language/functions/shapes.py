"""Creation of tiles, changes of their shape, and joining and taking apart."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from ninetoothed.dtypes import float32
from ninetoothed.language.functions.row import row
from ninetoothed.language.types import DTypeLike, Shape, Tile, TileLike


@row
def arange(start: int, end: int | None = None) -> Tile:
    """Count from `start` to `end`, which is left out, as an int32 tile of one dimension; from 0, given one number.

    Any length will do. Raises `ApplicationError` for floats, and for bounds that are not known when compiling.

    >>> def application(y):
    ...     y = ntl.arange(2, 5)
    >>> run(application, torch.empty(3, dtype=torch.int32))
    tensor([2, 3, 4], dtype=torch.int32)
    """


@row
def full(shape: Shape, value: TileLike, dtype: DTypeLike) -> Tile:
    """Make a tile of `shape` whose elements are all `value`, converted to `dtype`.

    Raises `ApplicationError` for a shape that is not known when compiling, and a tile above 2**20 elements.

    >>> def application(y):
    ...     y = ntl.full(y.shape, 7, dtype=ntl.float32)
    >>> run(application, torch.empty(3))
    tensor([7., 7., 7.])
    """


@row
def zeros(shape: Shape, dtype: DTypeLike = float32) -> Tile:
    """Make a tile of zeros. Errors are those of `full`.

    >>> def application(x, y):
    ...     total = ntl.zeros((1,), dtype=ntl.float32)
    ...     for i in range(3):
    ...         total += ntl.sum(x)
    ...     y = total
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(1))
    tensor([9.])
    """


@row
def zeros_like(input: TileLike) -> Tile:
    """Make a tile of zeros of the shape and type of `input`.

    >>> def application(x, y):
    ...     y = ntl.zeros_like(x)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2))
    tensor([0., 0.])
    """


@row
def broadcast(input: TileLike, other: TileLike) -> tuple[Tile, Tile]:
    """Give two tiles their common shape, as arithmetic on them does. Types stay.

    Raises `ApplicationError` where the shapes do not broadcast.

    >>> def application(x, y):
    ...     rows, columns = ntl.broadcast(x[:, None], x[None, :])
    ...     y = rows * columns
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2, 2))
    tensor([[1., 2.],
            [2., 4.]])
    """


@row
def broadcast_to(input: TileLike, *shape: Shape) -> Tile:
    """Repeat dimensions of size 1 until the tile has `shape`, a tuple or numbers. Missing dimensions come first.

    Raises `ApplicationError` where the tile does not broadcast to it.

    >>> def application(x, y):
    ...     y = ntl.broadcast_to(x[None, :], (2, 3))
    >>> run(application, torch.tensor([1.0, 2.0, 3.0]), torch.empty(2, 3))
    tensor([[1., 2., 3.],
            [1., 2., 3.]])
    """


@row
def expand_dims(input: TileLike, axis: int | tuple[int, ...]) -> Tile:
    """Add a dimension of size 1 at `axis`, or at each of several; `x[:, None]` is the same.

    Raises `ApplicationError` for an axis that the result would not have.

    >>> def application(x, y):
    ...     y = ntl.expand_dims(x, 1) + ntl.expand_dims(x, 0)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2, 2))
    tensor([[2., 3.],
            [3., 4.]])
    """


@row
def unsqueeze(x: TileLike, dim: int | tuple[int, ...]) -> Tile:
    """Add a dimension of size 1 at `dim`. PyTorch's name of `expand_dims`, with its errors.

    >>> def application(x, y):
    ...     y = ntl.unsqueeze(x, 1) * ntl.unsqueeze(x, 0)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2, 2))
    tensor([[1., 2.],
            [2., 4.]])
    """


@row
def squeeze(x: TileLike, dim: int) -> Tile:
    """Take away dimension `dim`, whose size is 1. Raises `ApplicationError` for any other size.

    >>> def application(x, y):
    ...     y = ntl.squeeze(x, 0)
    >>> run(application, torch.tensor([[1.0, 2.0]]), torch.empty(2))
    tensor([1., 2.])
    """


@row
def reshape(input: TileLike, *shape: Shape) -> Tile:
    """Give the elements, in row-major order, another shape: a tuple or numbers, of which one may be -1.

    Dimensions that are split or joined must be powers of two, but for the first of each group.
    Raises `ApplicationError` where they are not, and where the numbers of elements differ.

    >>> def application(x, y):
    ...     y = ntl.sum(ntl.reshape(x, (-1, 2)), axis=1)
    >>> run(application, torch.arange(6.0), torch.empty(3))
    tensor([1., 5., 9.])
    """


@row
def view(input: TileLike, *shape: Shape) -> Tile:
    """Give the elements another shape. PyTorch's name of `reshape`, with its errors.

    >>> def application(x, y):
    ...     y = ntl.view(x, 2, 2)
    >>> run(application, torch.arange(4.0), torch.empty(2, 2))
    tensor([[0., 1.],
            [2., 3.]])
    """


@row
def ravel(x: TileLike) -> Tile:
    """Make all dimensions one, in row-major order. Errors are those of `reshape`.

    >>> def application(x, y):
    ...     y = ntl.ravel(x)
    >>> run(application, torch.arange(4.0).view(2, 2), torch.empty(4))
    tensor([0., 1., 2., 3.])
    """


@row
def permute(input: TileLike, *dims: int | tuple[int, ...]) -> Tile:
    """Reorder dimensions: dimension d of the result is `dims[d]` of the tile. `dims` is a tuple or numbers.

    Raises `ApplicationError` where they are no permutation of the tile's dimensions.

    >>> def application(x, y):
    ...     y = ntl.permute(x, (1, 0))
    >>> run(application, torch.arange(4.0).view(2, 2), torch.empty(2, 2))
    tensor([[0., 2.],
            [1., 3.]])
    """


@row
def trans(input: TileLike, *dims: int | tuple[int, ...]) -> Tile:
    """Exchange the last two dimensions, as `x.T` does; given `dims`, reorder all as `permute` does.

    Raises `ApplicationError` for a tile of fewer than two dimensions.

    >>> def application(x, y):
    ...     y = ntl.dot(x, ntl.trans(x))
    >>> run(application, torch.arange(4.0).view(2, 2), torch.empty(2, 2))
    tensor([[ 1.,  3.],
            [ 3., 13.]])
    """


@row
def flip(x: TileLike, dim: int | None = None) -> Tile:
    """Reverse the order of elements along `dim`, by default the last dimension.

    Raises `ApplicationError` for a tile whose sizes are no powers of two, or are not known when compiling.

    >>> def application(x, y):
    ...     y = ntl.flip(x)
    >>> run(application, torch.arange(4.0), torch.empty(4))
    tensor([3., 2., 1., 0.])
    """


@row
def gather(src: TileLike, index: TileLike, axis: int) -> Tile:
    """Take elements of a tile by their places along `axis`: `result[i, j] = src[index[i, j], j]` for axis 0.

    The result has the shape of `index`, whose elements are integers, and the type of `src`. An index outside the tile,
    negative ones too, reads 0, or of a parameter its `other`. `x.source[indices]` gathers from a whole tensor.

    Raises `ApplicationError` for an index of floats, and an axis that the tile has not.

    >>> def application(x, index, y):
    ...     y = ntl.gather(x, index, 0)
    >>> run(application, torch.tensor([10.0, 20.0]), torch.tensor([1, 0, 1, 1]), torch.empty(4))
    tensor([20., 10., 20., 20.])
    """


@row
def join(a: TileLike, b: TileLike) -> Tile:
    """Stack two tiles along a new last dimension of size 2. They broadcast, and meet in one type.

    >>> def application(x, y):
    ...     y = ntl.join(x, -x)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2, 2))
    tensor([[ 1., -1.],
            [ 2., -2.]])
    """


@row
def split(a: TileLike) -> tuple[Tile, Tile]:
    """Take a last dimension of size 2 apart; `split(join(a, b))` is `(a, b)`.

    Raises `ApplicationError` for a last dimension of any other size.

    >>> def application(x, y):
    ...     real, imaginary = ntl.split(x)
    ...     y = real * real + imaginary * imaginary
    >>> run(application, torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.empty(2))
    tensor([25.,  4.])
    """


@row
def interleave(a: TileLike, b: TileLike) -> Tile:
    """Alternate the elements of two tiles along the last dimension: `join`, its last two dimensions made one.

    Two numbers make a tile of two.

    >>> def application(x, y):
    ...     y = ntl.interleave(x, -x)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(4))
    tensor([ 1., -1.,  2., -2.])
    """


@row
def cat(input: TileLike, other: TileLike, can_reorder: bool = False) -> Tile:
    """Put one tile of one dimension behind another of the same size. They meet in one type; order is kept.

    Raises `ApplicationError` for other shapes, and where the size is no power of two that is known when compiling.

    >>> def application(x, y):
    ...     y = ntl.cat(x, -x)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(4))
    tensor([ 1.,  2., -1., -2.])
    """
