"""Tensors: the user's handles onto frozen arrangements."""

import itertools
import math
import operator
from dataclasses import replace

from ninetoothed import metaops
from ninetoothed.arrangement import Arrangement, Source
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.expr import as_expr, const, var
from ninetoothed.symbol import Symbol, as_size, from_expr

_UNSET = object()
_OPTIONS = frozenset({"constexpr", "meta", "lower_bound", "upper_bound", "power_of_two"})
_numbers = itertools.count()


class Tensor:
    """A symbolic tensor, arranged by meta-operations that return new tensors.

    `shape` may mix ints, symbols and None (symbolic: `{name}_size_{d}`); `shape_options` are options of `Symbol` for
    the symbolic sizes, one dict or one a dimension. `other` is the value read out of bounds. `constexpr=True`, with
    `ndim` 0, makes a compile-time scalar, and `value` gives it. `dtype` of an arranged tensor is its next level.

    Raises `ArrangementError` (a `ValueError`) where `ndim`, `shape` and `shape_options` disagree.

    >>> x = Tensor(shape=(4, 8), name="x").tile((2, 2))
    >>> x.shape, x.dtype.shape
    ((2, 4), (2, 2))
    """

    def __init__(
        self,
        ndim=None,
        shape=None,
        dtype=None,
        jagged_dim=None,
        other=None,
        shape_options=None,
        constexpr=None,
        value=_UNSET,
        name=None,
    ):
        name = f"ninetoothed_tensor_{next(_numbers)}" if name is None else name
        if not isinstance(name, str) or not name.isidentifier():
            raise _error(f"a tensor cannot be named {name!r}", "give a Python identifier")
        sizes = _source_sizes(name, ndim, shape, shape_options)
        if sizes and (constexpr or value is not _UNSET):
            raise _error(f"`{name}` of {len(sizes)} dimensions is constexpr or has a value", "only Tensor(0) may")
        source = Source(
            name=name,
            sizes=sizes,
            strides=tuple(Symbol(f"{name}_stride_{dim}") for dim in range(len(sizes))),
            dtype=dtype,
            other=None if other is None else _number(name, other),
            constexpr=constexpr,
            has_value=value is not _UNSET and value is not None,
            value=None if value is _UNSET else value,
            jagged_dim=None if jagged_dim is None else _wrap(name, jagged_dim, len(sizes)),
        )
        self._arrangement, self._level, self._parent = Arrangement.of(source), 0, None

    @classmethod
    def of(cls, arrangement: Arrangement, level: int = 0, parent: "Tensor | None" = None) -> "Tensor":
        """The handle onto one level of an arrangement; assigning its dtype assigns that of the `parent` too."""
        tensor = object.__new__(cls)
        tensor._arrangement, tensor._level, tensor._parent = arrangement, level, parent
        return tensor

    @property
    def arrangement(self) -> Arrangement:
        return self._arrangement

    @property
    def level(self) -> int:
        return self._level

    @property
    def name(self):
        return self._arrangement.source.name

    @property
    def other(self):
        return self._arrangement.source.other

    @property
    def constexpr(self):
        return self._arrangement.source.constexpr

    @property
    def value(self):
        return self._arrangement.source.value

    @property
    def jagged_dim(self):
        return self._arrangement.source.jagged_dim

    @property
    def source(self):
        """The tensor that this one was arranged from."""
        return Tensor.of(Arrangement.of(self._arrangement.source))

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def shape(self):
        return self._arrangement.levels[self._level]

    @shape.setter
    def shape(self, shape):
        if self._arrangement.steps:
            raise _error(f"`{self.name}` is arranged, so its shape is fixed", "assign the shape before arranging it")
        sizes = _source_sizes(self.name, None, shape, None)
        strides = tuple(Symbol(f"{self.name}_stride_{dim}") for dim in range(len(sizes)))
        self._arrangement = Arrangement.of(replace(self._arrangement.source, sizes=sizes, strides=strides))

    @property
    def strides(self):
        """How far apart in memory neighbours along each dimension of this level lie.

        Raises `ArrangementError` where there is no such number (along a flattened dimension, say).
        """
        source = self._arrangement.source
        if not self._arrangement.steps:
            return source.strides
        names = [f"ninetoothed_index_{dim}" for dim in range(self.ndim)]
        # The innermost levels sit at their first element: a stride of this level does not depend on it.
        indices = tuple(
            tuple(var(names[dim]) if level == self._level else const(0) for dim in range(len(shape)))
            for level, shape in enumerate(self._arrangement.levels)
        )
        for step in reversed(self._arrangement.steps):
            indices, _ = metaops.pull_back(step, indices)
        offset = sum((i * as_expr(s) for i, s in zip(indices[0], source.strides, strict=True)), start=const(0))
        linear = offset.linear(names)
        if linear is None:
            raise _error(
                f"`{self.name}` has no strides at level {self._level}: its offset is {offset}",
                "ask for the strides of `source`, or before flattening",
            )
        leaves = self._arrangement.symbols | {str(stride): stride for stride in source.strides}
        return tuple(from_expr(linear[0][name], leaves) for name in names)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[_wrap(self.name, dim, self.ndim)]

    def stride(self, dim=None):
        return self.strides if dim is None else self.strides[_wrap(self.name, dim, self.ndim)]

    def numel(self):
        return math.prod(self.shape)

    @property
    def dtype(self):
        """The next level; of the innermost level, the type of its numbers."""
        if self._level + 1 < len(self._arrangement.levels):
            return Tensor.of(self._arrangement, self._level + 1, parent=self)
        return self._arrangement.source.dtype

    @dtype.setter
    def dtype(self, dtype):
        if isinstance(dtype, Tensor):
            self._arrangement = _rejoined(self, dtype)
            if self._parent is not None:
                self._parent.dtype = self
        elif self._level + 1 < len(self._arrangement.levels):
            raise _error(f"the dtype of `{self.name}` is a tensor, not {dtype!r}", "assign a level rearranged from it")
        else:
            self._arrangement = replace(self._arrangement, source=replace(self._arrangement.source, dtype=dtype))

    def tile(self, tile_shape, strides=None, dilation=None, floor_mode=False):
        """Splits this level into tiles: the outer level counts them, the inner one is a tile.

        Element n of tile o is at `o * stride + n * dilation`. A tile size of -1 is the whole dimension; a stride of -1
        (default) is the tile size. The outer size is `div(size - dilation * (tile - 1) - 1, stride) + 1`, never below
        0, `div` rounding up, or down with `floor_mode`.
        """
        return self._then(metaops.tile, tile_shape, strides, dilation, floor_mode)

    def expand(self, shape):
        """Repeats dimensions of size 1; -1 keeps a size."""
        return self._then(metaops.expand, shape)

    def unsqueeze(self, dim):
        """Adds a dimension of size 1 at `dim`."""
        return self._then(metaops.unsqueeze, dim)

    def squeeze(self, dim):
        """Takes away the dimension or dimensions `dim`, each of size 1; an empty tuple takes away nothing."""
        return self._then(metaops.squeeze, dim)

    def permute(self, dims):
        """Dimension d of the result is dimension `dims[d]` of this one."""
        return self._then(metaops.permute, dims)

    def flatten(self, start_dim=None, end_dim=None):
        """Makes dimensions `start_dim` to `end_dim` (exclusive) one, row-major."""
        return self._then(metaops.flatten, start_dim, end_dim)

    def ravel(self):
        """Makes all levels one, the dimensions of the outermost first."""
        return self._then(metaops.ravel)

    def pad(self, padding):
        """Adds `((before, after), ...)` elements that are out of bounds, one pair a dimension."""
        return self._then(metaops.pad, padding)

    def __getitem__(self, key):
        """Ints, slices, None and `...` as in NumPy, on this level."""
        return self._then(metaops.index, key)

    def __iter__(self):
        raise TypeError(f"`{self.name}` is symbolic and has no elements to iterate over")

    def __len__(self):
        if self.shape and isinstance(self.shape[0], int):
            return self.shape[0]
        raise TypeError(f"`{self.name}` of shape {self.shape} has no len()")

    def __bool__(self):
        return True

    def _then(self, operation, *arguments):
        return Tensor.of(operation(self._arrangement, self._level, *arguments), self._level)

    def __copy__(self):
        return Tensor.of(self._arrangement, self._level)

    def __deepcopy__(self, memo):
        return Tensor.of(self._arrangement, self._level)  # an arrangement is frozen: copies share it

    def __repr__(self):
        levels = ", ".join(map(str, self._arrangement.levels[self._level :]))
        return f"Tensor({self.name}: {levels})"

    def eval(self, subs=None):
        """The flat index into the source of every element of every level, -1 out of bounds, as a NumPy array."""
        from ninetoothed.evaluate import eval

        return eval(self, subs)

    def subs(self, mapping):
        """This tensor with numbers in the place of symbols."""
        from ninetoothed.evaluate import subs

        return subs(self, mapping)


def _rejoined(tensor: Tensor, level: Tensor) -> Arrangement:
    """`tensor`'s arrangement with the levels within its own replaced by `level` and what is within that.

    Steps on outer and on inner levels commute, so each side keeps its own since the two arrangements parted.
    """
    ours, theirs = tensor.arrangement, level.arrangement
    parted = next(
        (i for i, (a, b) in enumerate(zip(ours.steps, theirs.steps, strict=False)) if a != b),
        min(len(ours.steps), len(theirs.steps)),
    )
    outermost = tensor.level + 1
    outer = [step for step in ours.steps[parted:] if step.level < outermost]
    inner = [step for step in theirs.steps[parted:] if step.level >= outermost]
    moved = [step for step in (*outer, *theirs.steps[parted:]) if step.level < outermost]
    if (
        ours.source != theirs.source
        or level.level != outermost
        or any(step.operation in ("tile", "ravel") for step in moved)
    ):
        raise _error(
            f"a level of `{level.name}` of shape {level.shape} was assigned to the dtype of `{tensor.name}` of shape "
            f"{tensor.shape}, and was not made from it",
            "write for example `x.dtype = x.dtype.squeeze(0)`",
        )
    levels = ours.levels[:outermost] + theirs.levels[outermost:]
    return Arrangement(ours.source, levels, (*ours.steps[:parted], *outer, *inner))


def _number(name, other):
    """A Python number for one of NumPy's or PyTorch's, too."""
    number = other.item() if hasattr(other, "item") and getattr(other, "ndim", 0) == 0 else other
    if not isinstance(number, float) and not (isinstance(number, int) and -(2**63) <= number < 2**64):
        raise _error(f"`{name}` has other={other!r}", "give the number to read out of bounds, of 64 bits at most")
    return number


def _source_sizes(name, ndim, shape, shape_options):
    if ndim is not None and not _is_count(ndim):
        raise _error(f"`{name}` cannot have {ndim!r} dimensions", "ndim is an int of 0 or more")
    if shape is None:
        if ndim is None:
            raise _error(f"`{name}` has neither ndim nor shape", "write for example Tensor(2) or Tensor(shape=(4, 8))")
        shape = (None,) * ndim.__index__()
    elif not isinstance(shape, str) and hasattr(shape, "__iter__"):
        shape = tuple(shape)
    else:
        shape = (shape,)
    if ndim is not None and len(shape) != ndim:
        raise _error(f"`{name}` has ndim={ndim} and shape={shape}", "give one of the two, or let them agree")
    options = _options(name, shape_options, len(shape))
    return tuple(_source_size(name, dim, size, options[dim]) for dim, size in enumerate(shape))


def _is_count(value) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) >= 0
    except TypeError:
        return False


def _source_size(name, dim, size, options):
    if size is None:
        return Symbol(f"{name}_size_{dim}", **options)
    try:
        size = as_size(size)
    except TypeError as error:
        raise _error(f"size {dim} of `{name}`: {error}", "sizes are ints, symbols or None") from None
    if isinstance(size, int) and size < 0:
        raise _error(f"size {dim} of `{name}` is {size}", "sizes are 0 or more; None leaves one open")
    return size


def _options(name, shape_options, ndim):
    if shape_options is None or isinstance(shape_options, dict):
        options = (shape_options or {},) * ndim
    else:
        given = shape_options if hasattr(shape_options, "__iter__") else (shape_options,)
        options = tuple({} if entry is None else entry for entry in given)
    if len(options) != ndim or not all(isinstance(entry, dict) for entry in options):
        raise _error(f"`{name}` has shape_options {shape_options}", f"give one dict, or {ndim}, one a dimension")
    unknown = {option for entry in options for option in entry} - _OPTIONS
    if unknown:
        raise _error(f"`{name}` has a shape option {min(map(str, unknown))!r}", f"give {', '.join(sorted(_OPTIONS))}")
    return options


def _wrap(name, dim, ndim):
    if isinstance(dim, bool) or not hasattr(dim, "__index__") or not -ndim <= dim.__index__() < ndim:
        raise _error(f"{dim!r} is no dimension of `{name}`", f"it has {ndim} dimensions")
    return dim.__index__() % ndim
