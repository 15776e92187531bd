"""Trace functions of the language that touch memory behind pointers, combine by a function, print or assert."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.arrangement.operands import several
from ninetoothed.dtypes import DType, PointerType
from ninetoothed.frontend import shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.functions import as_dtype, axis_of, tile
from ninetoothed.frontend.lanes import both, lane_bounds, mask as mask_of
from ninetoothed.frontend.operators import is_dynamic, operand, truth
from ninetoothed.frontend.pointers import addressed
from ninetoothed.frontend.shape_functions import exact
from ninetoothed.frontend.shapes import extents_of
from ninetoothed.frontend.values import FormattedText, name_of, shown
from ninetoothed.ir import TileType, Value
from ninetoothed.ir.commutativity import commutes
from ninetoothed.ir.effects import has_effect
from ninetoothed.wording import counted


def pointer(context: TraceContext, value: Any) -> Value:
    """Convert an argument to a tile of pointers."""
    value = tile(context, value)
    if not isinstance(value.type.dtype, PointerType):
        raise context.error(
            "expected a pointer such as `x.source.data_ptr() + x.offsets()`; tiles are read by"
            " naming them and written by assigning them"
        )
    return value


def _changed(context: TraceContext, name: str, place: Any) -> tuple[Value, Value | None]:
    """Convert the first argument of an atomic function to pointers, and a mask of those in bounds (None: all)."""
    if isinstance(place, ir.Access):
        return addressed(context, place)
    value = tile(context, place)
    if not isinstance(value.type.dtype, PointerType):
        raise context.error(
            f"`{name}` changes a parameter, as in `{name}(y, value)`, `{name}(y[k], value)` and"
            f" `{name}(y.source[i], value)`, or what pointers point to; this is {shown(value)}"
        )
    return value, None


def pointed(address: Value) -> DType:
    """Return the type of the elements that pointers point to."""
    assert isinstance(address.type.dtype, PointerType)
    return address.type.dtype.element


def _masked(context: TraceContext, address: Value, mask: Any, *rest: Value) -> tuple[Value, ...]:
    """Broadcast pointers, `rest` and the mask to one shape; lanes without an element are masked out."""
    builder = context.builder
    address, *others = builder.broadcast(address, *rest)
    known = mask_of(context, lane_bounds(context, address))
    all_masks = both(context, None if mask is None else truth(context, mask), known)
    return builder.broadcast(address, *others, *(() if all_masks is None else (all_masks,)))


def load(context: TraceContext, pointer_: Any, mask: Any = None, other: Any = None) -> Value:
    """Trace `ntl.load`."""
    builder, address = context.builder, pointer(context, pointer_)
    element = pointed(address)
    operands = _masked(context, address, mask)
    if mask is not None and other is not None:
        operands = builder.broadcast(*operands, builder.value(operand(context, other), element))
    return builder.apply("load_pointer", operands)


def store(context: TraceContext, pointer_: Any, value: Any, mask: Any = None) -> None:
    """Trace `ntl.store`."""
    builder, address = context.builder, pointer(context, pointer_)
    value = builder.value(operand(context, value), pointed(address))
    builder.apply("store_pointer", _masked(context, address, mask, value))
    context.forget_loads()


def atomic(
    context: TraceContext, pointer_: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None, *, name: str
) -> Value:
    """Trace an atomic read-modify-write; `name` is the primitive."""
    builder = context.builder
    address, known = _changed(context, name, pointer_)
    element = pointed(address)
    mask = both(context, None if mask is None else truth(context, mask), known)
    operands = _masked(context, address, mask, builder.value(operand(context, val), element))
    result = builder.apply(name, operands, sem=sem, scope=scope)
    context.forget_loads()
    return result


def atomic_cas(context: TraceContext, pointer_: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Value:
    """Trace an atomic compare-and-swap."""
    builder = context.builder
    address, known = _changed(context, "atomic_cas", pointer_)
    if known is not None:
        raise context.error("`atomic_cas` takes no mask, and these elements may be out of bounds; give it pointers")
    element = pointed(address)
    operands = builder.broadcast(address, *(builder.value(operand(context, v), element) for v in (cmp, val)))
    exact(context, "atomic_cas", operands[0])
    result = builder.apply("atomic_cas", operands, sem=sem, scope=scope)
    context.forget_loads()
    return result


def reduce(context: TraceContext, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """Trace a reduction by a combining function of the user's, of all elements without an axis."""
    return _combined(context, "reduce", input, axis, combine_fn, axis is None, keep_dims=bool(keep_dims))


def associative_scan(context: TraceContext, input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """Trace a scan by a combining function of the user's."""
    return _combined(context, "associative_scan", input, axis, combine_fn, reverse=bool(reverse))


def _combined(
    context: TraceContext, name: str, input: Any, axis: Any, function: Any, is_whole: bool = False, **attributes: Any
) -> Any:
    builder, given = context.builder, _tiles(context, input)
    values = tuple(builder.taken(name, value) for value in given)
    axis = None if is_whole else axis_of(context, values[0], axis)
    combine, results = combining(context, function, values), values
    if not all(value.type.is_scalar for value in values):
        types = (value.type.dtype for value in values)
        results = builder.apply(name, values, *types, axis=axis, combine=combine, **attributes)
        results = tuple(builder.cast(each, own.type.dtype) for each, own in zip(several(results), given, strict=True))
    return results if len(results) > 1 else results[0]


def _tiles(context: TraceContext, input: Any) -> tuple[Value, ...]:
    return tuple(tile(context, value) for value in several(input))


def combining(context: TraceContext, function: Any, values: tuple[Value, ...]) -> ir.Lambda:
    """Trace a combining function on scalars: the running values, then the next."""
    arguments = tuple(Value(TileType(value.type.dtype)) for value in (*values, *values))
    loads = dict(context.loads)
    with context.builder.block() as body:
        results = several(context.call(function, arguments, {}))
        if len(results) != len(values):
            gives, takes = counted(len(results), "value"), counted(len(values), "tile")
            raise context.error(f"`{name_of(function)}` returns {gives}, and combines {takes}; return one for each")
        yields = tuple(
            context.builder.value(operand(context, r), v.type.dtype) for r, v in zip(results, values, strict=True)
        )
    context.loads = loads  # What the function loads is not known after it.
    combine = ir.Lambda(name_of(function), arguments, Flattener(context=context).block(tuple(body)), yields)
    check_closed(context, combine)
    return replace(combine, is_commutative=commutes(combine))


def check_closed(context: TraceContext, combine: ir.Lambda) -> None:
    """Raise where a function of elements reads a value that the kernel computed before: only arguments reach it."""
    known = set(combine.arguments)
    for operation in combine.body:
        known.update(ir.results(operation))
    outer = [value for operation in combine.body for value in ir.reads(operation) if value not in known]
    outer += [value for value in combine.yields if value not in known]
    if outer:
        hint = outer[0].hint
        what = f"`{hint}`, {shown(outer[0])}," if hint else shown(outer[0])
        raise context.error(
            f"`{combine.name}` may use its arguments alone, and uses {what} that the kernel computed before; apply that"
            " to its tiles or to the result, or give it as another tile"
        )


@dataclass(kw_only=True)
class Flattener(ir.Rewriter):
    """Replaces each `if` of a function of elements by both its branches, and a choice between their results.

    Elements of a tile are computed side by side, and take different branches.
    """

    context: TraceContext

    def operation(self, operation: ir.Operation) -> ir.Block:
        if not isinstance(operation, ir.If):
            return (self.rebuilt(operation),)
        if has_effect(operation):
            raise self.context.error(
                "a branch of a function of elements stores, asserts or prints; it may only compute", operation.location
            )
        choices = (
            ir.Apply((e.result,), "where", (operation.condition, e.then, e.otherwise), location=operation.location)
            for e in operation.outcomes
        )
        return (*self.block(operation.then_body + operation.else_body), *choices)


def print_(context: TraceContext, pieces: tuple, sep: str = " ", end: str = "\n") -> None:
    """Trace `print` and `device_print`; adjacent constant texts are joined."""
    flat: list[str | Value] = []
    for i, piece in enumerate(pieces):
        if i:
            flat.append(sep)
        for part in piece.pieces if hasattr(piece, "pieces") else (piece,):
            flat.append(tile(context, part) if is_dynamic(part) else str(part))
    joined: list[str | Value] = []
    for is_text, group in itertools.groupby(flat, lambda part: isinstance(part, str)):
        parts = [*group]
        joined += ["".join(map(str, parts))] if is_text else parts
    context.builder.emit(ir.Print(tuple(joined), end, location=context.builder.location))


def device_assert(context: TraceContext, cond: Any, msg: Any = "") -> None:
    """Trace an assertion; one that is known to fail is an error when compiling."""
    cond = operand(context, cond)
    if not is_dynamic(cond):
        if not cond:
            raise context.error(f"assertion failed when compiling: {msg if isinstance(msg, str) else shown(msg)}")
        return
    if isinstance(msg, FormattedText):
        raise context.error("the message of an assertion is text that is known when compiling; print what is computed")
    context.builder.apply("device_assert", (truth(context, cond),), message=str(msg))


def inline_asm_elementwise(
    context: TraceContext, asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any
) -> Any:
    """Trace inline assembly, element by element."""
    values = context.builder.broadcast(*_tiles(context, args))
    types = (as_dtype(context, each) for each in several(dtype))
    return context.builder.apply(
        "inline_asm_elementwise", values, *types, asm=asm, constraints=constraints, is_pure=bool(is_pure), pack=pack
    )


def dot_scaled(
    context: TraceContext,
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    out_dtype: Any = dtypes.float32,
) -> Value:
    """Trace a product of matrices with scales of their blocks."""
    values = [tile(context, v) for v in (lhs, lhs_scale, rhs, rhs_scale) if v is not None]
    if len(values) != 4:
        raise context.error("`dot_scaled` needs both scales")
    a, b = extents_of(values[0].type), extents_of(values[2].type)
    if len(a) != 2 or len(b) != 2:
        raise context.error(
            f"`dot_scaled` multiplies two tiles of 2 dimensions, not {shapes.text(a)} by {shapes.text(b)}; add one with"
            " `x[:, None]`"
        )
    dtype, shape = as_dtype(context, out_dtype), (a[-2], b[-1])
    if acc is not None:
        values.append(context.builder.broadcast_to(tile(context, acc), shape))
    return context.builder.apply("dot_scaled", tuple(values), dtype, shape=shape, formats=(lhs_format, rhs_format))
