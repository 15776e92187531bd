"""The primitives of `language.PRIMITIVES` as Triton's expressions: one small function, or one row of a table, each."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

from ninetoothed import dtypes, ir
from ninetoothed.backends.triton import barriers, syntax
from ninetoothed.backends.triton.context import Context, Text
from ninetoothed.dtypes import DType, PointerType

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
# Functions that Triton has under the same name, with operands of one type.
_SAME_NAME = frozenset(
    "exp exp2 log log2 sqrt sqrt_rn rsqrt sin cos erf sigmoid floor ceil abs div_rn umulhi fma where clamp".split()
)
_OTHER = frozenset("neg invert floordiv mod maximum minimum pow tanh libdevice cast bitcast broadcast full".split())
# What is computed lane by lane, so that broadcasting may be left to Triton.
ELEMENTWISE = frozenset({*_OPERATORS, *_SAME_NAME, *_OTHER})
REDUCTIONS = frozenset("sum max min xor_sum argmax argmin".split())
SCANS = frozenset("cumsum cumprod".split())


def text_of(context: Context, operation: ir.Apply) -> Text:
    """The text of an application with one result, or with several (a tuple)."""
    function = operation.function
    operands = [context.texts[value] for value in operation.operands]
    if function in _SPECIAL:
        return _SPECIAL[function](context, operation, operands)
    if function in _OPERATORS or function in _SAME_NAME:
        return _elementwise(context, operation, operands)
    if function in REDUCTIONS:
        return _reduction(operation, operands)
    if function in SCANS:
        return _scan(operation, operands)
    if function.startswith("atomic_"):
        return _atomic(context, operation, operands)
    raise context.unsupported(f"`{function}` has no translation to Triton", operation)


# -- types and shapes --


def dtype_node(dtype: DType) -> ast.expr:
    return syntax.name(f"tl.{dtype.name}")


def typed(text: Text, dtype: DType | PointerType) -> ast.expr:
    """A literal with its type, where nothing that it meets would give it one."""
    if text.constant is None:
        return text.node
    return syntax.call("tl.full", (), text.node, dtype_node(dtype))


def materialise(text: Text, type: ir.TileType) -> ast.expr:
    """The text with all lanes of its type."""
    if text.shape == type.lanes:
        return typed(text, type.dtype)
    if text.constant is not None:
        if text.constant == 0 and math.copysign(1, text.constant) > 0:
            return syntax.call("tl.zeros", type.lanes, dtype_node(type.dtype))
        return syntax.call("tl.full", type.lanes, text.node, dtype_node(type.dtype))
    if not text.shape and not isinstance(type.dtype, PointerType):
        return syntax.call("tl.full", type.lanes, text.node, dtype_node(type.dtype))
    return syntax.call("tl.broadcast_to", text.node, type.lanes)


def _full(operation: ir.Apply, operands: list[Text]) -> list[ast.expr]:
    return [materialise(text, value.type) for text, value in zip(operands, operation.operands, strict=True)]


def _meet(operands: list[Text]) -> tuple[int, ...]:
    shapes = [text.shape for text in operands if text.shape]
    return tuple(map(max, *shapes)) if len(shapes) > 1 else shapes[0] if shapes else ()


# -- lane by lane --


def _weakly(operation: ir.Apply, operands: list[Text], first: int = 0) -> list[ast.expr]:
    """The operands from `first` on; literals stay bare where one that is none gives them its type."""
    nodes = [text.node for text in operands]
    if all(text.constant is not None for text in operands[first:]):
        nodes[first] = typed(operands[first], operation.operands[first].type.dtype)
    return nodes


def _elementwise(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    function = operation.function
    if function == "add" and (fused := _accumulated(context, operation)):
        return fused
    shape = _meet(operands)
    if function in _OPERATORS:
        return Text(syntax.binary(_OPERATORS[function], *_weakly(operation, operands)), shape)
    if function == "where":
        condition, *values = _weakly(operation, operands, first=1)
        return Text(syntax.call("tl.where", typed(operands[0], dtypes.int1), *values), shape)
    if function in ("fma", "clamp", "div_rn", "umulhi"):
        nodes = [typed(text, value.type.dtype) for text, value in zip(operands, operation.operands, strict=True)]
    else:
        nodes = _weakly(operation, operands)
    return Text(syntax.call(f"tl.{function}", *nodes), shape)


def _neg(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    (operand,) = operands
    if operand.constant is not None:
        return Text(syntax.number(-operand.constant), (), -operand.constant)
    return Text(syntax.negate(operand.node), operand.shape)


def _invert(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    (node,) = _weakly(operation, operands)
    if operation.result.type.dtype == dtypes.int1 and not operands[0].shape:
        return Text(syntax.negated(node))
    return Text(syntax.invert(node), operands[0].shape)


def _floordiv(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    """Triton's `//` truncates integers; where the remainder's sign is not the divisor's, the floor is one below."""
    shape, dtype = _meet(operands), operation.result.type.dtype
    lhs, rhs = _weakly(operation, operands)
    if operation.attribute("nonnegative") or dtype.kind == "uint":
        return Text(syntax.binary("//", lhs, rhs), shape)
    if not dtype.is_floating and _is_power_of_two(operands[1]):
        lhs = _named(context, "numerator", lhs)
        return Text(syntax.binary(">>", lhs, syntax.number(operands[1].constant.bit_length() - 1)), shape)
    lhs, rhs = _named(context, "numerator", lhs), _named(context, "divisor", rhs)
    remainder = context.assign("remainder", syntax.binary("%", lhs, rhs))
    if dtype.is_floating:
        return Text(_floating_quotient(context, lhs, rhs, remainder), shape)
    quotient = context.assign("quotient", syntax.binary("//", lhs, rhs))
    below = syntax.binary("-", quotient, syntax.number(1))
    return Text(syntax.call("tl.where", _is_beside(remainder, rhs, operands[1]), below, quotient), shape)


def _floating_quotient(context: Context, lhs: ast.expr, rhs: ast.expr, remainder: ast.expr) -> ast.expr:
    """As Python: from what is left without the remainder, which divides almost evenly, to the nearest whole number."""
    whole = context.assign("quotient", syntax.binary("/", syntax.binary("-", lhs, remainder), rhs))
    signs_differ = syntax.binary("<", syntax.binary("*", remainder, rhs), syntax.number(0.0))
    floored = syntax.call("tl.where", signs_differ, syntax.binary("-", whole, syntax.number(1.0)), whole)
    nearest = syntax.call("tl.floor", syntax.binary("+", floored, syntax.number(0.5)))
    is_zero = syntax.binary("==", rhs, syntax.number(0.0))
    return syntax.call("tl.where", is_zero, syntax.binary("/", lhs, rhs), nearest)


def _mod(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    """Triton's `%` takes the sign of the dividend, Python's that of the divisor."""
    shape, dtype = _meet(operands), operation.result.type.dtype
    lhs, rhs = _weakly(operation, operands)
    if operation.attribute("nonnegative") or dtype.kind == "uint":
        return Text(syntax.binary("%", lhs, rhs), shape)
    if not dtype.is_floating and _is_power_of_two(operands[1]):
        lhs = _named(context, "numerator", lhs)
        return Text(syntax.binary("&", lhs, syntax.number(operands[1].constant - 1)), shape)
    rhs = _named(context, "divisor", rhs)
    remainder = context.assign("remainder", syntax.binary("%", lhs, rhs))
    is_beside = (
        syntax.binary("<", syntax.binary("*", remainder, rhs), syntax.number(0.0))
        if dtype.is_floating
        else _is_beside(remainder, rhs, operands[1])
    )
    return Text(syntax.call("tl.where", is_beside, syntax.binary("+", remainder, rhs), remainder), shape)


def _is_beside(remainder: ast.expr, divisor: ast.expr, text: Text) -> ast.expr:
    """Whether a truncated remainder is not the floored one: its sign is not the divisor's. Nothing overflows."""
    is_negative = syntax.binary("<", remainder, syntax.number(0))
    if isinstance(text.constant, int) and text.constant > 0:
        return is_negative
    signs_differ = syntax.binary("!=", is_negative, syntax.binary("<", divisor, syntax.number(0)))
    return syntax.binary("&", syntax.binary("!=", remainder, syntax.number(0)), signs_differ)


def _is_power_of_two(text: Text) -> bool:
    return isinstance(text.constant, int) and text.constant > 0 and text.constant & (text.constant - 1) == 0


def _named(context: Context, wanted: str, node: ast.expr) -> ast.expr:
    """A text that may be repeated."""
    return node if isinstance(node, ast.Name | ast.Constant) else context.assign(wanted, node)


def _extremum(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    propagate = "tl.PropagateNan.ALL" if operation.attribute("propagate_nan") else None
    node = syntax.call(
        f"tl.{operation.function}",
        *_weakly(operation, operands),
        propagate_nan=syntax.name(propagate) if propagate else None,
    )
    return Text(node, _meet(operands))


def _pow(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    base, exponent = operands
    if exponent.constant == 2 and base.constant is None:
        node = _named(context, "base", base.node)
        return Text(syntax.binary("*", node, node), base.shape)
    if exponent.constant == 0.5 and base.constant is None:
        return Text(syntax.call("tl.sqrt", base.node), base.shape)
    return _libdevice_call(context, "pow", operation, operands)


def _tanh(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    return _libdevice_call(context, "tanh", operation, operands)


def _libdevice(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    return _libdevice_call(context, operation.attribute("name"), operation, operands)


def _libdevice_call(context: Context, function: str, operation: ir.Apply, operands: list[Text]) -> Text:
    context.libdevice = True
    nodes = [typed(text, value.type.dtype) for text, value in zip(operands, operation.operands, strict=True)]
    return Text(syntax.call(f"libdevice.{function}", *nodes), _meet(operands))


def _cast(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    (operand,) = operands
    dtype = operation.result.type.dtype
    if operand.constant is not None:
        kind = float if dtype.is_floating else bool if dtype == dtypes.int1 else int
        if math.isfinite(operand.constant) or dtype.is_floating:
            return Text(syntax.number(kind(operand.constant)), (), kind(operand.constant))
    if dtype == dtypes.int1:
        return Text(syntax.binary("!=", typed(operand, dtypes.float32), syntax.number(0)), operand.shape)
    (value,) = operation.operands
    if value.type.is_scalar and value.type.dtype.is_integer:  # in Triton's interpreter a loop counter is an int
        return Text(syntax.call("tl.cast", operand.node, dtype_node(dtype)))
    return Text(syntax.method(typed(operand, value.type.dtype), "to", dtype_node(dtype)), operand.shape)


def _bitcast(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    (operand,), (value,) = operands, operation.operands
    node = syntax.call(
        ast.Attribute(typed(operand, value.type.dtype), "to"), dtype_node(operation.result.type.dtype), bitcast=True
    )
    return Text(node, operand.shape)


# -- shapes --


def _same(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    """`full` and `broadcast`: left to whatever needs all lanes."""
    (operand,) = operands
    lanes = operation.result.type.lanes
    return Text(operand.node, operand.shape if len(operand.shape) == len(lanes) else (), operand.constant)


def _expand_dims(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    (operand,) = operands
    if not operand.shape:
        return operand
    rank = len(operation.result.type.lanes)
    axis = operation.attribute("axis") % rank
    shape = (*operand.shape[:axis], 1, *operand.shape[axis:])
    return Text(_with_new_axis(operand.node, axis, rank), shape)


def _with_new_axis(node: ast.expr, axis: int, rank: int) -> ast.expr:
    """`x[:, None][:, :, None]` reads better as `x[:, None, None]`."""
    kept = [True] * (rank - 1)
    if isinstance(node, ast.Subscript):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) == rank - 1:
            kept, node = [isinstance(item, ast.Slice) for item in items], node.value
    return syntax.new_axes(node, [*kept[:axis], False, *kept[axis:]])


def _reshape(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    (operand,) = operands
    lanes = operation.result.type.lanes
    if not operand.shape:
        return operand
    node = materialise(operand, operation.operands[0].type)
    if not lanes:  # one element: its sum is itself
        dtype = operation.result.type.dtype
        return _retyped(Text(syntax.call("tl.sum", node)), _summed(dtype), dtype)
    return Text(syntax.call("tl.reshape", node, lanes), lanes)


def _permute(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    (operand,) = operands
    if not operand.shape:
        return operand
    dims = tuple(dim % len(operand.shape) for dim in operation.attribute("dims"))
    shape = tuple(operand.shape[dim] for dim in dims)
    if dims == tuple(range(len(dims))):
        return operand
    if dims == (1, 0):
        return Text(syntax.call("tl.trans", operand.node), shape)
    return Text(syntax.call("tl.permute", operand.node, dims), shape)


def _join(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    return Text(syntax.call("tl.join", *_full(operation, operands)), operation.result.type.lanes)


def _split(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    return Text(syntax.call("tl.split", *_full(operation, operands)), operation.results[0].type.lanes)


def _cat(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    """`tl.cat` may reorder its elements; joining along a new first axis keeps them in order."""
    joined = syntax.call("tl.permute", syntax.call("tl.join", *_full(operation, operands)), (1, 0))
    lanes = operation.result.type.lanes
    return Text(syntax.call("tl.reshape", joined, lanes), lanes)


def _flip(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    axis = operation.attribute("axis")
    return Text(syntax.call("tl.flip", *_full(operation, operands), axis), operation.result.type.lanes)


def _gather(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    node = syntax.call("tl.gather", *_full(operation, operands), axis=operation.attribute("axis"))
    return Text(node, operation.result.type.lanes)


# -- reductions --


def _reduction(operation: ir.Apply, operands: list[Text]) -> Text:
    function = operation.function
    (node,) = _full(operation, operands)
    keep_dims = True if operation.attribute("keep_dims") else None
    node = syntax.call(f"tl.{function}", node, axis=_axis(operation), keep_dims=keep_dims)
    return _retyped(Text(node, operation.result.type.lanes), _reduced(operation), operation.result.type.dtype)


def _axis(operation: ir.Apply) -> int | None:
    axis = operation.attribute("axis")
    return None if axis is None else axis % len(operation.operands[0].type.lanes)


def _reduced(operation: ir.Apply) -> DType:
    """The type that Triton's reduction has."""
    dtype = operation.operands[0].type.dtype
    if operation.function in ("argmax", "argmin"):
        return dtypes.int32
    if operation.function == "sum":
        return _summed(dtype)
    if dtype.is_floating and dtype.bits < 32 and operation.function in ("max", "min"):
        return dtypes.float32
    if dtype.bits < 32 and not dtype.is_floating and operation.function in ("max", "min"):
        return dtypes.int32
    if dtype == dtypes.bfloat16:
        return dtypes.float32
    return dtype


def _summed(dtype: DType) -> DType:
    """The type of Triton's sum of a type."""
    if dtype.bits >= 32 or dtype.is_floating:
        return dtypes.float32 if dtype == dtypes.bfloat16 else dtype
    return dtypes.uint32 if dtype.kind == "uint" else dtypes.int32


def _retyped(text: Text, actual: DType, wanted: DType) -> Text:
    if actual == wanted:
        return text
    return Text(syntax.method(text.node, "to", dtype_node(wanted)), text.shape)


def _scan(operation: ir.Apply, operands: list[Text]) -> Text:
    (node,) = _full(operation, operands)
    reverse = True if operation.attribute("reverse") else None
    node = syntax.call(f"tl.{operation.function}", node, axis=_axis(operation), reverse=reverse)
    actual = operation.operands[0].type.dtype
    if actual == dtypes.bfloat16:
        actual = dtypes.float32
    return _retyped(Text(node, operation.result.type.lanes), actual, operation.result.type.dtype)


def _sort(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    descending = True if operation.attribute("descending") else None
    node = syntax.call("tl.sort", *_full(operation, operands), descending=descending)
    return Text(node, operation.result.type.lanes)


def _histogram(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    node = syntax.call("tl.histogram", *_full(operation, operands), operation.attribute("num_bins"))
    return Text(node, operation.result.type.lanes)


# -- products --


def _dot(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    accumulator = operation.operands[2] if len(operation.operands) > 2 else None
    return _product(context, operation, accumulator)


def _accumulated(context: Context, operation: ir.Apply) -> Text | None:
    """`acc + dot(a, b)` -> `tl.dot(a, b, acc)`, where the product is used for nothing else."""
    for product, accumulator in (operation.operands[::-1], operation.operands):
        dot = context.analysis.producers.get(product)
        if not isinstance(dot, ir.Apply) or dot.function != "dot" or len(dot.operands) > 2:
            continue
        is_whole = context.texts[accumulator].shape == accumulator.type.lanes and not _is_small(dot)
        if context.analysis.is_inlined(product) and accumulator.type.dtype == _product_type(dot) and is_whole:
            return _product(context, dot, accumulator)
    return None


def _product(context: Context, operation: ir.Apply, accumulator: ir.Value | None) -> Text:
    lhs, rhs = operation.operands[:2]
    result = operation.result.type
    if dtypes.float64 in (lhs.type.dtype, rhs.type.dtype):
        raise context.unsupported(
            "products of float64 run on the CPU alone; cast the operands of `dot` to float32, or pass CPU tensors",
            operation,
        )
    a, b = (materialise(context.texts[value], value.type) for value in (lhs, rhs))
    acc = None if accumulator is None else materialise(context.texts[accumulator], accumulator.type)
    if _is_small(operation):
        node = _small_product(a, b, operation, acc)
    else:
        precision = operation.attribute("input_precision") if lhs.type.dtype == dtypes.float32 else None
        node = syntax.call("tl.dot", a, b, *([acc] if acc is not None else []), input_precision=precision)
    return _retyped(Text(node, result.lanes), _product_type(operation), result.dtype)


def _product_type(operation: ir.Apply) -> DType:
    return dtypes.float32 if operation.operands[0].type.dtype.is_floating else dtypes.int32


def _is_small(operation: ir.Apply) -> bool:
    """Whether `tl.dot` does not take so short an inner dimension: 32 bytes for bytes, 16 elements else."""
    lhs = operation.operands[0].type
    return lhs.lanes[-1] < (32 if lhs.dtype.bits == 8 else 16)


def _small_product(a: ast.expr, b: ast.expr, operation: ir.Apply, accumulator: ast.expr | None) -> ast.expr:
    """`sum(a[:, None, :] * trans(b)[None, :, :], axis=2)`, exactly.

    Triton takes a sum over the middle axis of such a product for a matrix product, and multiplies in tf32.
    """
    lhs, rhs = operation.operands[:2]
    rank = len(lhs.type.lanes)
    dtype = dtype_node(_product_type(operation))
    if lhs.type.dtype != _product_type(operation):
        a, b = (syntax.method(node, "to", dtype) for node in (a, b))
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    a = syntax.new_axes(a, [True] * (rank - 1) + [False, True])
    b = syntax.new_axes(syntax.call("tl.permute", b, *swapped), [True] * (rank - 2) + [False, True, True])
    node = syntax.call("tl.sum", syntax.binary("*", a, b), axis=rank)
    return node if accumulator is None else syntax.binary("+", accumulator, node)


def _dot_scaled(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    lhs, lhs_scale, rhs, rhs_scale, *accumulator = _full(operation, operands)
    lhs_format, rhs_format = operation.attribute("formats")
    node = syntax.call("tl.dot_scaled", lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, *accumulator)
    return Text(node, operation.result.type.lanes)


# -- memory behind pointers --


def _data_ptr(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    return Text(context.argument(operation.attribute("parameter")))


def _load_pointer(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    barriers.before_read(context, operation.operands[0].type.dtype.parameter, object())
    pointer, mask, other = (*_pointers(operation, operands), None)[:3]
    return Text(syntax.call("tl.load", pointer, mask=mask, other=other), operation.result.type.lanes)


def _store_pointer(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    barriers.before_write(context, operation.operands[0].type.dtype.parameter, object())
    pointer, value, mask = (*_pointers(operation, operands), None)[:3]
    return Text(syntax.call("tl.store", pointer, value, mask=mask))


def _pointers(operation: ir.Apply, operands: list[Text]) -> list[ast.expr | None]:
    """Pointers with all their lanes, a mask, numbers as they are; None for what is not given."""
    pointer, *rest = operands
    nodes = [materialise(pointer, operation.operands[0].type), *(text.node for text in rest)]
    return nodes + [None] * (3 - len(nodes))


def _atomic(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    pointer_type = operation.operands[0].type
    barriers.before_write(context, pointer_type.dtype.parameter, object())
    pointer = materialise(operands[0], pointer_type)
    values = [text.node for text in operands[1:]]
    keywords = {name: operation.attribute(name) for name in ("sem", "scope")}
    if operation.function != "atomic_cas" and len(values) == 2:
        keywords = {"mask": values.pop(), **keywords}
    node = syntax.call(f"tl.{operation.function}", pointer, *values, **keywords)
    return Text(node, pointer_type.lanes)


# -- the rest --


def _random(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    seed, offset = _full(operation, operands)
    rounds = operation.attribute("n_rounds", 10)
    node = syntax.call(f"tl.{operation.function}", seed, offset, n_rounds=None if rounds == 10 else rounds)
    return Text(node, operation.results[0].type.lanes)


def _device_assert(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    return Text(syntax.call("tl.device_assert", operands[0].node, operation.attribute("message", "")))


def _debug_barrier(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    barriers.forget(context)
    return Text(syntax.call("tl.debug_barrier"))


def _inline_asm(context: Context, operation: ir.Apply, operands: list[Text]) -> Text:
    types = [dtype_node(result.type.dtype) for result in operation.results]
    node = syntax.call(
        "tl.inline_asm_elementwise",
        operation.attribute("asm"),
        operation.attribute("constraints"),
        ast.List(_full(operation, operands)),
        dtype=types[0] if len(types) == 1 else ast.Tuple(types),
        is_pure=operation.attribute("is_pure", True),
        pack=operation.attribute("pack", 1),
    )
    return Text(node, operation.results[0].type.lanes)


_SPECIAL: dict[str, Callable[[Context, ir.Apply, list[Text]], Text]] = {
    "neg": _neg,
    "invert": _invert,
    "floordiv": _floordiv,
    "mod": _mod,
    "maximum": _extremum,
    "minimum": _extremum,
    "pow": _pow,
    "tanh": _tanh,
    "libdevice": _libdevice,
    "cast": _cast,
    "bitcast": _bitcast,
    "full": _same,
    "broadcast": _same,
    "expand_dims": _expand_dims,
    "reshape": _reshape,
    "permute": _permute,
    "join": _join,
    "split": _split,
    "cat": _cat,
    "flip": _flip,
    "gather": _gather,
    "sort": _sort,
    "histogram": _histogram,
    "dot": _dot,
    "dot_scaled": _dot_scaled,
    "data_ptr": _data_ptr,
    "load_pointer": _load_pointer,
    "store_pointer": _store_pointer,
    "rand": _random,
    "randn": _random,
    "randint": _random,
    "randint4x": _random,
    "device_assert": _device_assert,
    "debug_barrier": _debug_barrier,
    "inline_asm_elementwise": _inline_asm,
}
