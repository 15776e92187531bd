"""The language's rules in NumPy: an oracle for random applications, over the tiles of one program.

A `Tile` holds float64 (or integer) values; for each lane, a bound on what the kernel's may differ by; and which lanes
are overhang. An application's text runs on them with `LANGUAGE` as `ntl`. A bound is infinite where rounding decides (a
comparison of close values, halves that overflow) and where the rules leave a value open: such elements are
not compared.
"""

from __future__ import annotations

import operator
import types
from dataclasses import dataclass, replace

import numpy as np

# Type -> bits of the significand, the largest number, the smallest normal one.
FLOATS = {
    "float16": (11, 65504.0, 6.2e-5),
    "bfloat16": (8, 3.3895e38, 1.2e-38),
    "float32": (24, 3.4028e38, 1.2e-38),
    "float64": (53, 1.79e308, 2.3e-308),
}
INTEGERS = ("int8", "int16", "int32", "int64")
_ORDER = ("bool", *INTEGERS, *FLOATS)


def promote(*types: str) -> str:
    """The type in which operands meet."""
    if set(types) == {"float16", "bfloat16"}:
        return "float32"
    return max(types, key=_ORDER.index)


def holds(dtype: str, values: np.ndarray) -> np.ndarray:
    """Tell where a type holds numbers exactly."""
    if dtype == "float64":
        return np.ones(values.shape, bool)
    narrow = values.astype("float16" if dtype == "float16" else "float32")
    exact = narrow.astype("float64") == values
    if dtype == "bfloat16":
        exact &= (np.atleast_1d(narrow).view("uint32").reshape(narrow.shape) & 0xFFFF) == 0
    return exact | ~np.isfinite(values)


@dataclass(frozen=True)
class Tile:
    """A tile, or a scalar, of one program.

    over: the lanes that are overhang. axes: the same axis by axis, a lane being overhang where it is so along any axis;
    None where it cannot be said so. old: whether it was computed from the old value of the variable being assigned.
    """

    values: np.ndarray
    error: np.ndarray
    over: np.ndarray
    axes: tuple[np.ndarray, ...] | None
    type: str
    old: bool = False

    @property
    def shape(self):
        return self.values.shape

    @property
    def dtype(self):
        return self.type

    def to(self, dtype: str) -> Tile:
        if dtype == self.type:
            return self
        if dtype in FLOATS:
            return finish(self, self.values.astype("float64"), self.error, dtype)
        lost = self.type in FLOATS and (self.error > 0)
        return replace(self, values=self.values.astype(dtype), error=np.where(lost, np.inf, self.error), type=dtype)

    def __neg__(self):
        return replace(self, values=-self.values)

    def __add__(self, other):
        return arithmetic(operator.add, self, other, lambda a, b, v: a.error + b.error)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return arithmetic(operator.sub, self, other, lambda a, b, v: a.error + b.error)

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        def spread(a, b, v):
            return np.abs(a.values) * b.error + np.abs(b.values) * a.error + a.error * b.error

        return arithmetic(operator.mul, self, other, spread)

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        def spread(a, b, v):
            room = np.abs(b.values) - b.error
            return np.where(room > 0, (a.error + np.abs(v) * b.error) / room, np.inf)

        a, b = operands(self, other)
        wide = "float64" if promote(a.type, b.type) == "float64" else "float32"
        return arithmetic(operator.truediv, a, b, spread, wide)

    def __floordiv__(self, other):
        return arithmetic(operator.floordiv, self, other)

    def __mod__(self, other):
        return arithmetic(operator.mod, self, other)

    def __and__(self, other):
        return arithmetic(operator.and_, self, other)

    def __or__(self, other):
        return arithmetic(operator.or_, self, other)

    def __xor__(self, other):
        return arithmetic(operator.xor, self, other)

    def __lt__(self, other):
        return compare(operator.lt, self, other)

    def __le__(self, other):
        return compare(operator.le, self, other)

    def __gt__(self, other):
        return compare(operator.gt, self, other)

    def __ge__(self, other):
        return compare(operator.ge, self, other)

    def __bool__(self):
        if np.isinf(self.error).any():
            raise Open("a branch that rounding decides")
        return bool(self.values)


class Open(Exception):
    """The rules, or rounding, leave open what a program gives."""


def loaded(values: np.ndarray, dtype: str, over: np.ndarray) -> Tile:
    """A tile as it is read; `over` as all lanes have it."""
    axes = tuple(over.all(tuple(d for d in range(over.ndim) if d != axis)) for axis in range(over.ndim))
    together = np.zeros(over.shape, bool)
    for d, axis in enumerate(axes):
        together |= along(axis, d, over.ndim)
    if over.ndim > 1 and over.all() and over.size:
        raise Open("a tile of nothing but overhang, along one axis or another")
    return Tile(values, np.zeros(values.shape), over, axes if (together == over).all() else None, dtype)


def along(axis, d, ndim):
    return axis.reshape([-1 if each == d else 1 for each in range(ndim)])


def scalar(value, dtype: str) -> Tile:
    array = np.asarray(value, "float64" if dtype in FLOATS else dtype)
    return Tile(array, np.zeros(array.shape), np.zeros(array.shape, bool), (), dtype)


def operands(*given) -> list[Tile]:
    """Tiles of all: a number takes the type of the tile that it meets, or float32 where that has integers."""
    kinds = [each.type for each in given if isinstance(each, Tile)]
    met = promote(*kinds)
    tiles = []
    for each in given:
        if isinstance(each, Tile):
            tiles.append(each)
        elif isinstance(each, float) and met not in FLOATS:
            tiles.append(scalar(each, "float32"))
        else:
            tiles.append(scalar(each, met))
    return tiles


def joined(*tiles: Tile) -> tuple[tuple[int, ...], dict]:
    """The shape of an element-wise result, and which of its lanes are overhang: those where an operand's are."""
    shape = np.broadcast_shapes(*(tile.shape for tile in tiles))
    over = np.zeros(shape, bool)
    for tile in tiles:
        over |= tile.over
    axes = [np.zeros(size, bool) for size in shape]
    for tile in tiles:
        if tile.axes is None:
            return shape, {"over": over, "axes": None}
        for d, axis in enumerate(tile.axes):
            axes[d] = axes[d] | axis
    return shape, {"over": over, "axes": tuple(axes)}


def finish(tile: Tile, values, error, dtype: str) -> Tile:
    """Round values to a type: exactly where it holds them and nothing was inexact before."""
    if dtype not in FLOATS:
        return replace(tile, values=values.astype(dtype), error=error, type=dtype)
    digits, largest, smallest = FLOATS[dtype]
    values, error = np.asarray(values, "float64"), np.asarray(error, "float64")
    error = np.where(np.isnan(error), np.inf, error)
    grown = error + 2.0**-digits * (np.abs(values) + error) + smallest
    grown = np.where(np.isfinite(values), grown, np.where(error == 0, 0, np.inf))
    grown = np.where(np.isfinite(values) & (np.abs(values) + grown > largest), np.inf, grown)
    return replace(tile, values=values, error=np.where((error == 0) & holds(dtype, values), 0, grown), type=dtype)


def arithmetic(function, lhs, rhs, spread=None, dtype=None) -> Tile:
    a, b = operands(lhs, rhs)
    dtype = dtype or promote(a.type, b.type)
    shape, lanes = joined(a, b)
    if dtype not in FLOATS:
        values = function(a.values.astype(dtype), b.values.astype(dtype))
        result = Tile(values, np.broadcast_to(np.maximum(a.error, b.error), shape), type=dtype, **lanes)
    else:
        a, b = (each if each.type in FLOATS else each.to(dtype) for each in (a, b))
        values = function(a.values, b.values)
        error = np.where((a.error == 0) & (b.error == 0), 0, spread(a, b, values))
        result = finish(Tile(values, error, type=dtype, **lanes), values, error, dtype)
    return kept_old(result, a, b)


def kept_old(result: Tile, a: Tile, b: Tile) -> Tile:
    """Give the part computed from the old value where what joins it is overhang."""
    if a.old == b.old:
        return replace(result, old=a.old)
    old, new = (a, b) if a.old else (b, a)
    old = old.to(result.type)
    over = np.broadcast_to(old.over, result.shape)
    axes = None
    if old.axes is not None:
        sizes = result.shape
        axes = tuple(np.broadcast_to(axis, sizes[d]) for d, axis in enumerate(old.axes))
        axes = axes or tuple(np.zeros(size, bool) for size in sizes)
    values = np.where(new.over, old.values, result.values)
    return Tile(values, np.where(new.over, old.error, result.error), over, axes, result.type, True)


def assigned(value, is_old: bool):
    """Mark a variable as the old value of what is assigned next, or take that mark away."""
    return replace(value, old=is_old) if isinstance(value, Tile) else value


def compare(function, lhs, rhs) -> Tile:
    a, b = operands(lhs, rhs)
    shape, lanes = joined(a, b)
    room = a.error + b.error
    close = (room > 0) & ~(np.abs(a.values.astype("float64") - b.values) > room)
    return Tile(function(a.values, b.values), np.where(close, np.inf, np.zeros(shape)), type="bool", **lanes)


def where(condition: Tile, x, y) -> Tile:
    x, y = operands(x, y)
    dtype = promote(x.type, y.type)
    x, y = x.to(dtype), y.to(dtype)
    shape, lanes = joined(condition, x, y)
    chosen = np.broadcast_to(np.where(condition.values, x.over, y.over), shape)
    over = condition.over | chosen
    unknown = np.isinf(condition.error)
    same = (over == lanes["over"]).all()
    over = np.where(unknown, False, over)  # Whatever counts them knows nothing then.
    axes = lanes["axes"] if same and not unknown.any() else None
    error = np.where(unknown, np.inf, np.where(condition.values, x.error, y.error))
    return Tile(np.where(condition.values, x.values, y.values), error + np.zeros(shape), over, axes, dtype)


def pairwise(function, x, y) -> Tile:
    return arithmetic(function, x, y, lambda a, b, v: np.maximum(a.error, b.error) + 0 * v)


def maximum(x, y) -> Tile:
    return pairwise(np.fmax, x, y)


def minimum(x, y) -> Tile:
    return pairwise(np.fmin, x, y)


def elementwise(function, spread, x: Tile) -> Tile:
    """A function of floats: in float32 or float64, rounded back to halves."""
    own = x.type if x.type in FLOATS else "float32"
    x = x.to(own)
    wide = "float64" if own == "float64" else "float32"
    values = function(x.values)
    error = np.where(x.error == 0, 0, spread(x.values, x.error, values))
    # Some units in the last place: functions are not rounded correctly.
    slack = 8 * 2.0 ** -FLOATS[wide][0] * np.abs(np.where(np.isfinite(values), values, 0))
    exact = (x.error == 0) & ~np.isfinite(values)
    return finish(x, values, np.where(exact, 0, error + slack + FLOATS[wide][2]), own)


def absolute(x):
    return replace(x, values=np.abs(x.values))


def exp(x):
    return elementwise(np.exp, lambda x, e, v: v * np.expm1(e), x)


def sqrt(x):
    return elementwise(
        np.sqrt, lambda x, e, v: np.where(x > e, e / np.sqrt(np.abs(x - e)), np.sqrt(np.abs(e) + 0 * x)), x
    )


def sigmoid(x):
    return elementwise(lambda x: 1 / (1 + np.exp(-x)), lambda x, e, v: e / 4, x)


def tanh(x):
    return elementwise(np.tanh, lambda x, e, v: e, x)


def sin(x):
    return elementwise(np.sin, lambda x, e, v: e, x)


def floor(x):
    def spread(x, e, v):
        return np.where(np.floor(x - e) == np.floor(x + e), 0, np.inf)

    result = elementwise(np.floor, spread, x)
    exact = (x.error == 0) | (spread(x.values, x.error, None) == 0)
    return replace(result, error=np.where(exact & holds(result.type, result.values), 0, np.inf))


def reduction(x: Tile, axis, keep_dims, reduce) -> Tile:
    """`reduce(values, error, counts, axes)` over the lanes that count; what remains keeps its overhang."""
    reduced = tuple(range(x.values.ndim)) if axis is None else (axis % x.values.ndim,)
    values, error = reduce(x.values, x.error, ~x.over, reduced)
    axes = x.axes
    if axes is None:
        error = np.where(x.over.all(reduced, keepdims=True), np.inf, error)
        axes = tuple(np.zeros(size, bool) for size in x.shape)
    axes = tuple(np.zeros(1, bool) if d in reduced else kept for d, kept in enumerate(axes))
    over = np.zeros(values.shape, bool)
    for d, kept in enumerate(axes):
        over |= along(kept, d, over.ndim)
    error = np.where(over, np.inf, error)
    result = Tile(values, error, over, axes, x.type)
    if keep_dims:
        return result
    kept = tuple(axis for d, axis in enumerate(axes) if d not in reduced)
    values, error, over = (array.squeeze(reduced) for array in (values, error, over))
    return Tile(values, error, over, kept, x.type)


def total(x: Tile, axis=None, keep_dims=False) -> Tile:
    def reduce(values, error, counts, axes):
        values, error = np.where(counts, values, 0), np.where(counts, error, 0)
        result = values.sum(axes, keepdims=True)
        if x.type not in FLOATS:
            return result, error.max(axes, keepdims=True, initial=0)
        finite = np.where(np.isfinite(values), values, 0)
        size, terms = np.abs(finite).sum(axes, keepdims=True), counts.sum(axes, keepdims=True)
        whole = ((finite * 4 == np.floor(finite * 4)) | ~counts).all(axes, keepdims=True) & (size < 2**20)
        wide = FLOATS["float64" if x.type == "float64" else "float32"]
        error = error.sum(axes, keepdims=True)
        grown = error + terms * 2.0 ** -wide[0] * (size + error)
        grown = np.where(grown + size > wide[1], np.inf, grown)
        return result, np.where(~np.isfinite(result) & np.isfinite(error) | whole & (error == 0), 0, grown)

    if x.type in ("bool", "int8", "int16"):
        x = x.to("int32")
    result = reduction(x, axis, keep_dims, reduce)
    return finish(result, result.values, result.error, x.type)


def extremum(function, worst: float, x: Tile, axis, keep_dims) -> Tile:
    """The largest or smallest element that is no NaN. With lanes past those that are all NaN it may be infinite."""
    if x.type not in FLOATS:
        low, high = np.iinfo(x.type).min, np.iinfo(x.type).max
        worst = low if worst < 0 else high

    def reduce(values, error, counts, axes):
        nan = np.isnan(values) if x.type in FLOATS else np.zeros(values.shape, bool)
        result = function(np.where(counts & ~nan, values, worst), axes, keepdims=True, initial=worst)
        only_nan = (counts & nan).any(axes, keepdims=True) & ~(counts & ~nan).any(axes, keepdims=True)
        if x.type in FLOATS:
            result = np.where(only_nan, np.nan, result)
        has_past = ~counts.all(axes, keepdims=True) | any(values.shape[d] & (values.shape[d] - 1) for d in axes)
        error = np.where(counts, error, 0).max(axes, keepdims=True, initial=0)
        return result, np.where(only_nan & has_past, np.inf, error)

    return reduction(x, axis, keep_dims, reduce)


def largest(x: Tile, axis=None, keep_dims=False) -> Tile:
    return extremum(np.max, -np.inf, x, axis, keep_dims)


def smallest(x: Tile, axis=None, keep_dims=False) -> Tile:
    return extremum(np.min, np.inf, x, axis, keep_dims)


LANGUAGE = types.SimpleNamespace(
    abs=absolute,
    exp=exp,
    sqrt=sqrt,
    sigmoid=sigmoid,
    tanh=tanh,
    sin=sin,
    floor=floor,
    where=where,
    maximum=maximum,
    minimum=minimum,
    sum=total,
    max=largest,
    min=smallest,
    assigned=assigned,
    **{name: name for name in (*FLOATS, *INTEGERS)},
)
