"""Check the arguments of `Tensor`: number of dimensions, shape, options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninetoothed.arrangement.sizes import as_int, as_size
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.value import Shape, Size, SourceTensor
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.wording import brief, counted, near

_OPTIONS = frozenset({"constexpr", "meta", "lower_bound", "upper_bound", "power_of_two"})


def fresh(
    name: Any, ndim: Any, shape: Any, shape_options: Any, other: Any, jagged_dim: Any, unique_indices: Any, **kept: Any
) -> SourceTensor:
    """Make what a tensor stands for, of the options of `Tensor`."""
    if not isinstance(name, str) or not name.isidentifier():
        raise _error(f"a tensor cannot be named {brief(name)}", "give a Python identifier")
    read = sizes(name, ndim, shape, shape_options)
    if read and (kept["constexpr"] or kept["value"] is not None):
        what = f"a tensor of {counted(len(read), 'dimension')} is constexpr or has a value"
        raise _error(what, "only a scalar, Tensor(0), may")
    if unique_indices is not None and not isinstance(unique_indices, bool):
        raise _error(f"a tensor has unique_indices={brief(unique_indices)}", "give True or False")
    return SourceTensor(
        name=name,
        sizes=read,
        strides=strides(name, len(read)),
        other=None if other is None else number(other),
        jagged_dim=None if jagged_dim is None else dimension("a tensor", jagged_dim, len(read)),
        unique_indices=bool(unique_indices),
        **kept,
    )


def shared(source: Any, options: Mapping[str, Any]) -> SourceTensor:
    """Return what another tensor stands for; the options given must be those of it."""
    found = getattr(getattr(source, "arrangement", None), "source", None)
    if not isinstance(found, SourceTensor):
        raise _error(f"the source of a tensor is {brief(source)}", "give a symbolic tensor, such as `x.source`")
    own = {**vars(found), "ndim": found.ndim, "shape": found.sizes}
    for option, value in options.items():
        given = tuple(value) if option == "shape" and isinstance(value, list) else value
        if given is not None and (option not in own or given != own[option]):
            what = f"a tensor whose source is `{found.name}` has {option}={brief(value)}"
            raise _error(what, "leave it out: it has the sizes and options of its source")
    return found


def check_target_dims(name: str, target_dims: Any, ndim: int) -> None:
    """Check the dimensions of the grid to which those of a fresh tensor belong: its own, in order."""
    given = tuple(target_dims) if isinstance(target_dims, list) else target_dims
    if given is not None and given != tuple(range(ndim)):
        what = f"`{name}` of {counted(ndim, 'dimension')} has target_dims={brief(target_dims)}"
        raise _error(what, "leave it out, and arrange the tensor with `permute`, `squeeze` and the like")


def strides(name: str, ndim: int) -> Shape:
    """Return the symbols of a tensor's strides."""
    return tuple(Symbol(f"{name}_stride_{dim}") for dim in range(ndim))


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
