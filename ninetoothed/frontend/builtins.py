"""Map each name that an application may call to the function of the frontend that traces it."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ninetoothed.expr import Expr, const
from ninetoothed.frontend import effects, elements, functions, libdevice, random, reductions, shape_functions, sorting
from ninetoothed.frontend.attributes import attribute
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.operators import binary, extremum, is_dynamic, operand
from ninetoothed.frontend.values import LevelRef, SourceRef, TileRef, shown
from ninetoothed.ir import Value
from ninetoothed.language.functions import FUNCTIONS, LIBDEVICE
from ninetoothed.language.primitive import Effect
from ninetoothed.language.primitives import PRIMITIVES
from ninetoothed.language.types import Level, Source, Tile


def floating(context: TraceContext, *operands: Any, name: str) -> Any:
    """Trace a function of floats; `name` is the primitive."""
    return context.builder.floating(name, *(operand(context, value) for value in operands))


def absolute(context: TraceContext, x: Any) -> Any:
    """Trace `abs`."""
    x = operand(context, x)
    if not is_dynamic(x):
        return abs(x)
    x = context.builder.value(x)
    return x if x.type.dtype.category in ("uint", "bool") else context.builder.elementwise("abs", x)


def pairwise(context: TraceContext, x: Any, y: Any, propagate_nan: Any = None, *, name: str) -> Any:
    """Trace `minimum` and `maximum`."""
    x, y = operand(context, x), operand(context, y)
    if not isinstance(x, Value) and not isinstance(y, Value):
        return extremum(context, name, (x, y))
    nan = "all" if propagate_nan is not None and "ALL" in str(propagate_nan).upper() else None
    return context.builder.elementwise(name, x, y, propagate_nan=nan)


def clamp(context: TraceContext, x: Any, min: Any, max: Any, propagate_nan: Any = None) -> Any:
    """Trace `clamp`: the maximum of `min` and the minimum of `x` and `max`."""
    low = pairwise(context, x, min, propagate_nan, name="maximum")
    return pairwise(context, low, max, propagate_nan, name="minimum")


def cdiv(context: TraceContext, x: Any, div: Any) -> Any:
    """Divide integers, rounding up."""
    x, div = operand(context, x), operand(context, div)
    if not isinstance(x, Value) and not isinstance(div, Value):
        return binary(context, "floordiv", binary(context, "sub", binary(context, "add", x, div), 1), div)
    # A tile's type may be narrow: x + div - 1 would not fit where x does.
    rest = binary(context, "ne", binary(context, "mod", x, div), 0)
    return binary(context, "add", binary(context, "floordiv", x, div), rest)


def arithmetic(context: TraceContext, x: Any, y: Any, sanitize_overflow: Any = True, *, name: str) -> Any:
    """Trace an operator that has a name, such as `add`."""
    return binary(context, name, x, y)


def umulhi(context: TraceContext, x: Any, y: Any) -> Any:
    """Trace the upper half of a product of integers."""
    x, y = operand(context, x), operand(context, y)
    return context.builder.elementwise("umulhi", x, y)


def swizzle2d(context: TraceContext, i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """Order a size_i x size_j matrix column by column within groups of size_g rows, as Triton defines it."""
    op = partial(binary, context)
    linear = op("add", op("mul", i, size_j), j)
    in_group = op("mul", size_g, size_j)
    group = op("floordiv", linear, in_group)
    first = op("mul", group, size_g)
    rows = extremum(context, "minimum", (op("sub", size_i, first), size_g))
    rest = op("mod", linear, in_group)
    return op("add", first, op("mod", rest, rows)), op("floordiv", rest, rows)


def program_id(context: TraceContext, axis: Any) -> Any:
    """Return the number of this program, row-major over the outermost level: programs form one dimension."""
    return context.program_number if _first(context, axis) else 0


def num_programs(context: TraceContext, axis: Any) -> Any:
    """Return the number of programs: they form one dimension."""
    return math.prod(context.grid, start=const(1)) if _first(context, axis) else 1


def _first(context: TraceContext, axis: Any) -> bool:
    if axis not in (0, 1, 2):
        raise context.error(f"a program's axis is 0, 1 or 2, not {shown(axis)}; write the number")
    return axis == 0


def hint(context: TraceContext, input: Any, values: Any = None) -> Any:
    """Return the input: hints of Triton's users are ignored, since this compiler proves what it needs."""
    return input


def static_print(context: TraceContext, values: Any) -> None:
    """Print when compiling; a tile shows its type and shape, since its numbers are not known."""
    if context.is_sketch:
        return
    builtins.print(*(shown(value) if isinstance(value, Value | TileRef) else value for value in values))


def static_assert(context: TraceContext, cond: Any, msg: Any = "") -> None:
    """Raise when compiling where a condition does not hold."""
    cond = operand(context, cond)
    if is_dynamic(cond):
        raise context.error("`static_assert` needs a condition that is known when compiling; use `ntl.device_assert`")
    if not cond:
        raise context.error(f"static assertion failed: {msg if isinstance(msg, str) else shown(msg)}")


def debug_barrier(context: TraceContext) -> None:
    """Emit a barrier among the threads of a program."""
    context.builder.apply("debug_barrier", ())


# The functions that read and write memory in one step.
UPDATES = tuple(row.name for row in PRIMITIVES.values() if row.effect is Effect.UPDATES)

_TRACED_BY_NAME = (globals(), *map(vars, (functions, shape_functions, reductions, sorting, effects, elements, random)))
# The implementation of each of `language.functions.FUNCTIONS`: it takes the context, and then the arguments.
LANGUAGE: dict[str, Any] = {
    **{name: module[name] for module in _TRACED_BY_NAME for name in FUNCTIONS if name in module},
    **{
        row.name: partial(floating, name=row.name)
        for row in PRIMITIVES.values()
        if row.is_of_floats and row.name in FUNCTIONS
    },
    "abs": absolute,
    "maximum": partial(pairwise, name="maximum"),
    "minimum": partial(pairwise, name="minimum"),
    "fdiv": lambda context, x, y, ieee_rounding=False: binary(context, "truediv", x, y),
    **{name: partial(arithmetic, name=name) for name in ("add", "sub", "mul", "pow")},
    **{name: partial(reductions.reduction, name=name) for name in ("sum", "xor_sum", "reduce_or")},
    "bitonic_merge": sorting.sort,
    **{name: partial(reductions.extremum_along, name=name) for name in ("max", "min")},
    **{name: partial(reductions.arg_extremum, name=name) for name in ("argmax", "argmin")},
    **{name: partial(reductions.scan, name=name) for name in ("cumsum", "cumprod")},
    "trans": shape_functions.permute,
    "view": shape_functions.reshape,
    "unsqueeze": shape_functions.expand_dims,
    "to_tensor": functions.tile,
    **{name: partial(effects.atomic, name=name) for name in UPDATES},
    "atomic_cas": effects.atomic_cas,
    **{name: partial(random.random, name=name) for name in ("rand", "randn", "randint", "randint4x")},
    "device_print": lambda context, prefix, args=(): effects.print_(context, (prefix, *args)),
    "assume": lambda context, cond: None,
    **dict.fromkeys(("condition", "expect_zero", "max_constancy", "max_contiguous", "multiple_of"), hint),
}


# -- Python's own builtins -------------------------------------------------------------------------


def _max(context: TraceContext, *operands: Any, name: str) -> Any:
    if len(operands) == 1 and isinstance(operands[0], tuple | list | range):
        operands = tuple(operands[0])
    if len(operands) == 1:
        raise context.error(f"`{name[:3]}` of one tile: use `ntl.{name[:3]}` to reduce it")
    return extremum(context, name, operands)


def _sum(context: TraceContext, items: Any, start: Any = 0) -> Any:
    if not isinstance(items, tuple | list | range):
        raise context.error("`sum` adds up a Python sequence; use `ntl.sum` to reduce a tile")
    for item in items:
        start = binary(context, "add", start, item)
    return start


def _convert(context: TraceContext, value: Any, *, python: type) -> Any:
    value = operand(context, value)
    if not is_dynamic(value):
        return python(value)
    if isinstance(value, Expr) and python is int:
        return value
    return functions.cast(context, value, python)


def _round(context: TraceContext, value: Any, digits: Any = None) -> Any:
    value = operand(context, value)
    if not is_dynamic(value):
        return round(value) if digits is None else round(value, digits)
    if digits is not None:
        raise context.error("`round` of a tile rounds to whole numbers; scale it before and after for others")
    return libdevice.function(context, value, row=LIBDEVICE["rint"])


def _len(context: TraceContext, value: Any) -> Any:
    if isinstance(value, tuple | list | dict | str | range):
        return len(value)
    if not isinstance(value, TileRef | LevelRef | Value | Expr):
        raise context.error(f"{shown(value)} has no length; tiles, tuples, lists and texts have")
    shape = attribute(context, value, "shape")
    if not shape:
        raise context.error("a number has no length; tiles of a dimension or more have")
    return shape[0]


def _isinstance(context: TraceContext, value: Any, classes: Any) -> bool:
    """Tell whether a value is of a class; tiles, loaded or not, are `ntl.Tile`, sizes and counters are `int`."""
    for kinds, public in ((TileRef | Value, Tile), (SourceRef, Source), (LevelRef, Level), (Expr, int)):
        if isinstance(value, kinds):
            return issubclass(public, classes)
    return isinstance(operand(context, value), classes)


def _not_here(context: TraceContext, *_: Any, name: str) -> None:
    raise context.error(f"`{name}` has no meaning in an application; write what it gives, or name the variable itself")


PYTHON: dict[Any, Callable[..., Any]] = {
    builtins.max: partial(_max, name="maximum"),
    builtins.min: partial(_max, name="minimum"),
    builtins.sum: _sum,
    builtins.abs: absolute,
    builtins.float: partial(_convert, python=float),
    builtins.int: partial(_convert, python=int),
    builtins.bool: partial(_convert, python=bool),
    builtins.round: _round,
    builtins.len: _len,
    builtins.isinstance: _isinstance,
    **{
        function: partial(_not_here, name=function.__name__)
        for function in (builtins.globals, builtins.locals, builtins.eval, builtins.exec)
    },
    builtins.pow: lambda context, x, y: binary(context, "pow", x, y),
    builtins.divmod: lambda context, x, y: (binary(context, "floordiv", x, y), binary(context, "mod", x, y)),
    builtins.print: lambda context, *pieces, sep=" ", end="\n", flush=False: effects.print_(context, pieces, sep, end),
}
