"""Memory behind pointers: loads, stores and atomic functions."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from ninetoothed.language.functions.row import row
from ninetoothed.language.types import Tile, TileLike


@row
def load(pointer: Tile, mask: TileLike | None = None, other: TileLike | None = None) -> Tile:
    """Read what pointers point to, such as `x.source.data_ptr() + offsets`; where `mask` is false, `other`, else 0.

    Pointer, mask and value broadcast. The type is that of the parameter. Most kernels need none of this: naming a
    parameter loads its tile, `x.source[i]` gathers, and both know where a tensor ends.

    Raises `ApplicationError` for what is no pointer.

    >>> def application(x, y):
    ...     i = y.offsets(0)
    ...     y = ntl.load(x.source.data_ptr() + i * 2, mask=i < 2, other=-1.0)
    >>> run(application, torch.arange(4.0), torch.empty(3))
    tensor([ 0.,  2., -1.])
    """


@row
def store(pointer: Tile, value: TileLike, mask: TileLike | None = None) -> None:
    """Write `value` to where pointers point, except where `mask` is false.

    The three broadcast; the value is converted to the parameter's type. Elements past the end of a tile are not
    written. Assigning a parameter stores its tile, assigning to `y.source[i]` scatters. Errors are those of `load`.

    >>> def application(x, y):
    ...     i = x.offsets(0)
    ...     ntl.store(y.source.data_ptr() + i, x * 2, mask=i < 2)
    >>> run(application, torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3))
    tensor([2., 4., 0.])
    """


@row
def atomic_add(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Add `val` to elements of a parameter, whatever other programs add, and return the old values.

    The elements are named as in an assignment: a tile `y`, one of its elements `y[k]`, or `y.source[i]` with tiles of
    indices; or pointers point to them. They broadcast with value and mask. Nothing is added where `mask` is false or
    an element is out of bounds, nor to where pointers past the end of a tile point. `sem` is the memory order
    ("acq_rel", "acquire", "release", "relaxed"), `scope` which threads see it ("gpu", "cta", "sys").

    Raises `ApplicationError` for other types of elements than are named above, and for what is no element.

    >>> def application(x, y):
    ...     ntl.atomic_add(y.source[x % 2], 1.0)
    >>> run(application, torch.tensor([0, 1, 2, 4]), torch.zeros(2))
    tensor([3., 1.])
    """


@row
def atomic_max(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Replace elements of a parameter by `val` where that is greater, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_max(y, x)
    >>> run(application, torch.tensor([5, 9, 2]), torch.zeros(1, dtype=torch.int64))
    tensor([9])
    """


@row
def atomic_min(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Replace elements of a parameter by `val` where that is less, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_min(y, x)
    >>> run(application, torch.tensor([5, 9, 2]), torch.full((1,), 7))
    tensor([2])
    """


@row
def atomic_and(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Keep the bits that `val` has, too, of elements of a parameter, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_and(y, x)
    >>> run(application, torch.tensor([14, 7]), torch.full((1,), 15))
    tensor([6])
    """


@row
def atomic_or(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Add the bits of `val` to elements of a parameter, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_or(y, x)
    >>> run(application, torch.tensor([1, 4]), torch.zeros(1, dtype=torch.int64))
    tensor([5])
    """


@row
def atomic_xor(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Turn the bits of `val` in elements of a parameter, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_xor(y, x)
    >>> run(application, torch.tensor([1, 5]), torch.zeros(1, dtype=torch.int64))
    tensor([4])
    """


@row
def atomic_xchg(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Replace elements of a parameter by `val`, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     y = ntl.atomic_xchg(x, 0.0)
    >>> x = torch.tensor([1.0, 2.0])
    >>> run(application, x, torch.empty(2)), x
    (tensor([1., 2.]), tensor([0., 0.]))
    """


@row
def atomic_cas(pointer: Tile, cmp: TileLike, val: TileLike, sem: str | None = None, scope: str | None = None) -> Tile:
    """Replace elements of a parameter by `val` where they equal `cmp`, and return the old values.

    The elements are named as for `atomic_add`, and must be known to be in bounds. The operands broadcast; `sem` and
    `scope` are those of `atomic_add`.
    Raises `ApplicationError` for what is no element, and for sizes that are no powers of two known when compiling.

    >>> def application(x, y):
    ...     old = ntl.atomic_cas(y, x, -1)
    >>> run(application, torch.tensor([1, 2]), torch.tensor([1, 3]))
    tensor([-1,  3])
    """
