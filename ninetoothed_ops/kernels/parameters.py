"""Parameters of kernels and levels of arranged tensors, which kernels share."""

from ninetoothed import Tensor


def flags(count, *values):
    """Make compile-time scalars: so many that calls give, and others of these values."""
    given = (Tensor(0, constexpr=True) for _ in range(count))

    return *given, *(Tensor(0, constexpr=True, value=value) for value in values)


def squeezed(tiled, tile, element=None):
    """Leave out dimensions of 1 of the tiles of an arranged tensor, and of the tiles in them."""
    tiled.dtype = tiled.dtype.squeeze(tile)
    if element is not None:
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze(element)

    return tiled
