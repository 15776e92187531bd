"""Check the arguments of `Tensor`: number of dimensions, shape, options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninetoothed.arrangement.symbol import Symbol, as_int, as_size
from ninetoothed.arrangement.value import Shape, Size
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.wording import brief, counted, near

_OPTIONS = frozenset({"constexpr", "meta", "lower_bound", "upper_bound", "power_of_two"})


def number(other: Any) -> Any:
    """Read the number out of bounds; one of NumPy's or PyTorch's becomes Python's."""
    value = other.item() if hasattr(other, "item") and getattr(other, "ndim", 0) == 0 else other
    if not isinstance(value, float) and not (isinstance(value, int) and -(2**63) <= value < 2**64):
        raise _error(f"a tensor has other={brief(other)}", "give the number to read out of bounds, of 64 bits at most")
    return value


def sizes(name: str, ndim: Any, shape: Any, shape_options: Any) -> Shape:
    """Read the sizes of a tensor; an open one becomes a symbol `{name}_size_{d}` with its options."""
    if ndim is not None and not _is_count(ndim):
        remedy = "ndim is an int of 0 or more"
        if isinstance(ndim, tuple | list):
            remedy = f"write Tensor(shape={tuple(ndim)}) for a shape, Tensor({len(ndim)}) for so many dimensions"
        raise _error(f"`ndim` of a tensor is {brief(ndim)}", remedy)
    if shape is None:
        if ndim is None:
            raise _error("a tensor has neither ndim nor shape", "write for example Tensor(2) or Tensor(shape=(4, 8))")
        shape = (None,) * ndim.__index__()
    elif not isinstance(shape, str) and hasattr(shape, "__iter__"):
        shape = tuple(shape)
    else:
        shape = (shape,)
    if ndim is not None and len(shape) != ndim:
        raise _error(f"a tensor has ndim={ndim} and shape={shape}", "give one of the two, or let them agree")
    options = _options(shape_options, len(shape))
    return tuple(_size(name, dim, size, options[dim]) for dim, size in enumerate(shape))


def _is_count(value: Any) -> bool:
    read = as_int(value)
    return read is not None and 0 <= read < 2**16


def _size(name: str, dim: int, given: Any, options: Mapping[str, Any]) -> Size:
    if given is None:
        return Symbol(f"{name}_size_{dim}", **options)
    try:
        size = as_size(given)
    except TypeError:
        raise _error(f"size {dim} of a tensor is {brief(given)}", "sizes are ints, symbols or None") from None
    if isinstance(size, int) and size < 0:
        raise _error(f"size {dim} of a tensor is {size}", "sizes are 0 or more; None leaves one open")
    return size


def _options(shape_options: Any, ndim: int) -> tuple[Mapping[str, Any], ...]:
    """Return the options of each size, which are given once for all or once a dimension."""
    if shape_options is None or isinstance(shape_options, Mapping):
        options = (shape_options or {},) * ndim
    else:
        given = shape_options if hasattr(shape_options, "__iter__") else (shape_options,)
        options = tuple({} if entry is None else entry for entry in given)
    if len(options) != ndim or not all(isinstance(entry, Mapping) for entry in options):
        what = f"shape_options of a tensor of {counted(ndim, 'dimension')} is {brief(shape_options)}"
        raise _error(what, "give one dict for all dimensions, or one a dimension")
    unknown = {option for entry in options for option in entry} - _OPTIONS
    if unknown:
        name = min(map(str, unknown))
        remedy = near(name, _OPTIONS) or f"give {', '.join(sorted(_OPTIONS))}"
        raise _error(f"there is no shape option {name!r}", remedy)
    return options


def dimension(what: str, dim: Any, ndim: int) -> int:
    """Read a dimension of what a message calls `what`; a negative one counts from the end."""
    read = as_int(dim)
    if read is None or not -ndim <= read < ndim:
        remedy = f"use {-ndim} to {ndim - 1}" if ndim else "it is a scalar"
        raise _error(f"{what} of {counted(ndim, 'dimension')} has no dimension {brief(dim)}", remedy)
    return read % ndim
