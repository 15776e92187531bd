"""Random numbers by counters (Philox): each seed and offset has its own, whatever program asks for it."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from ninetoothed.language.functions.row import row
from ninetoothed.language.types import Tile, TileLike


@row
def rand(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> Tile:
    """Draw a float32 in [0, 1), of uniform distribution, for each offset.

    The same seed and offset give the same number on every device, and in Triton.

    offset: a tile of integers, such as `x.offsets()`, whose shape is the result's.
    n_rounds: how many rounds Philox takes, known when compiling.

    >>> def application(x, y):
    ...     y = ntl.where(ntl.rand(7, x.offsets()) < 0.5, x, 0)  # dropout
    >>> run(application, torch.ones(8), torch.empty(8))
    tensor([1., 0., 1., 0., 0., 0., 1., 0.])
    """


@row
def randn(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> Tile:
    """Draw a float32 of normal distribution, mean 0 and variance 1, for each offset. Arguments are those of `rand`.

    >>> def application(x, y):
    ...     y = ntl.randn(7, x.offsets())
    >>> bool(run(application, torch.ones(4096), torch.empty(4096)).std().sub(1).abs() < 0.05)
    True
    """


@row
def randint(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> Tile:
    """Draw an int32 of uniform distribution, all 32 bits random, for each offset. Arguments are those of `rand`.

    Half of them are negative; `% n` gives 0 to n - 1, as Python's does.

    >>> def application(x, y):
    ...     y = ntl.randint(7, x.offsets()) % 6
    >>> run(application, torch.ones(8), torch.empty(8, dtype=torch.int32)).min() >= 0
    tensor(True)
    """


@row
def randint4x(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> tuple[Tile, Tile, Tile, Tile]:
    """Draw four int32 for each offset, at the cost of one. Arguments are those of `rand`; the first is as of `randint`.

    >>> def application(x, y):
    ...     a, b, c, d = ntl.randint4x(7, x.offsets())
    ...     y = (a == ntl.randint(7, x.offsets())) & (a != b) & (c != d)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def rand4x(seed: TileLike, offsets: TileLike, n_rounds: int = 10) -> tuple[Tile, Tile, Tile, Tile]:
    """Draw four numbers like `rand` for each offset, at the cost of one. Arguments are those of `rand`.

    >>> def application(x, y):
    ...     a, b, c, d = ntl.rand4x(7, x.offsets())
    ...     y = (a == ntl.rand(7, x.offsets())) & (b < 1)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def randn4x(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> tuple[Tile, Tile, Tile, Tile]:
    """Draw four numbers like `randn` for each offset. Arguments are those of `rand`.

    >>> def application(x, y):
    ...     a, b, c, d = ntl.randn4x(7, x.offsets())
    ...     y = ntl.sum(a + b + c + d) / (4 * x.shape[0])
    >>> bool(run(application, torch.ones(1024), torch.empty(1)).abs() < 0.1)
    True
    """


@row
def philox(
    seed: TileLike, c0: TileLike, c1: TileLike, c2: TileLike, c3: TileLike, n_rounds: int = 10
) -> tuple[Tile, Tile, Tile, Tile]:
    """Draw four integers without sign of four counters, integers of 32 or 64 bits.

    `randint4x(seed, offset)` is this of the counters offset, 0, 0 and 0.
    The same seed and counters give the same bits on every device, and in Triton. The type of `c0` tells the width.
    Raises `ApplicationError` for floats, narrower integers, and a tile as the seed.

    >>> def application(x, y):
    ...     a, b, c, d = ntl.philox(7, x.offsets(), 0, 0, 0)
    ...     y = a.to(ntl.int32, bitcast=True) == ntl.randint(7, x.offsets())
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def philox_impl(
    c0: TileLike, c1: TileLike, c2: TileLike, c3: TileLike, k0: TileLike, k1: TileLike, n_rounds: int = 10
) -> tuple[Tile, Tile, Tile, Tile]:
    """Mix four counters by two keys, which are numbers: all are uint32, or all are uint64. Philox as it is published.

    Raises `ApplicationError` for other types, and a tile as a key.

    >>> def application(y):
    ...     zero = ntl.zeros(y.shape, ntl.uint32)
    ...     y, *others = ntl.philox_impl(zero, zero, zero, zero, 0, 0)
    >>> hex(run(application, torch.empty(1, dtype=torch.int64)).item())
    '0x6627e8d5'
    """


@row
def uint_to_uniform_float(x: TileLike) -> Tile:
    """Make a float32 in [0, 1) of the bits of an integer of 32 or 64 bits. `rand` is this of `randint`.

    Raises `ApplicationError` for floats, and for narrower integers.

    >>> def application(x, y):
    ...     y = ntl.uint_to_uniform_float(x)
    >>> run(application, torch.tensor([0, 2**30], dtype=torch.int32), torch.empty(2))
    tensor([0.0000, 0.5000])
    """


@row
def pair_uniform_to_normal(u1: TileLike, u2: TileLike) -> tuple[Tile, Tile]:
    """Make two independent numbers of normal distribution of two that are uniform in [0, 1), by Box and Muller.

    >>> def application(x, y):
    ...     cosine, sine = ntl.pair_uniform_to_normal(x, 0.0)
    ...     y = cosine
    >>> run(application, torch.tensor([0.5, 0.1]), torch.empty(2))
    tensor([1.1774, 2.1460])
    """
