"""Expressions of an application, one function a kind of syntax."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr
from ninetoothed.frontend import functions, memory
from ninetoothed.frontend.calls import call_node
from ninetoothed.frontend.context import Context
from ninetoothed.frontend.operators import (
    BINARY,
    binary,
    is_dynamic,
    logical,
    operand,
    truth,
    unary,
)
from ninetoothed.frontend.values import (
    UNDEFINED,
    BoundMethod,
    Cell,
    Frame,
    LevelRef,
    LocalFunction,
    SourceRef,
    TileRef,
)
from ninetoothed.ir import Value
from ninetoothed.language import FUNCTIONS
from ninetoothed.symbol import Symbol


@dataclass(frozen=True)
class Text:
    """An f-string with run-time values in it: for `print` alone."""

    pieces: tuple


def evaluate(context: Context, frame: Frame, node: ast.expr) -> Any:
    """What an expression stands for. Naming a parameter gives a handle: it is loaded where its elements are needed."""
    rule = _RULES.get(type(node))
    if rule is None:
        raise context.error(f"an application may not use {_describe(node)}", frame.parsed.location(node))
    return rule(context, frame, node)


def _describe(node: ast.AST) -> str:
    names = {
        ast.Await: "`await`",
        ast.Yield: "`yield`",
        ast.YieldFrom: "`yield from`",
        ast.SetComp: "set comprehensions",
        ast.DictComp: "dict comprehensions",
        ast.Set: "sets",
    }
    return names.get(type(node), f"this syntax ({type(node).__name__})")


def read(context: Context, cell: Cell) -> Any:
    """The value of a variable: what was assigned last, else a handle on its tile."""
    if cell.value is UNDEFINED:
        raise context.error(
            f"{cell.name!r} may not have a value here: it is assigned only inside a loop or one branch of an `if`"
        )
    if cell.value is not None or cell.tile is None:
        return cell.value
    return cell.tile


def _name(context, frame, node):
    cell = frame.find(node.id)
    if cell is not None:
        return read(context, cell)
    try:
        return outside(context, frame.parsed.lookup(node.id))
    except KeyError:
        raise context.error(f"name {node.id!r} is not defined", frame.parsed.location(node)) from None


def outside(context: Context, value: Any) -> Any:
    """A Python object from outside the application: symbols stand for the numbers chosen for them."""
    if isinstance(value, Symbol):
        number = context.number(value)
        return number.constant if number.is_constant else number
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        return value.value
    return value


def _constant(context, frame, node):
    return node.value


def _binary(context, frame, node):
    lhs, rhs = evaluate(context, frame, node.left), evaluate(context, frame, node.right)
    return binary(context, BINARY[type(node.op)][0], lhs, rhs)


def _unary(context, frame, node):
    return unary(context, node.op, evaluate(context, frame, node.operand))


def _logical(context, frame, node):
    name = "and" if isinstance(node.op, ast.And) else "or"
    result = operand(context, evaluate(context, frame, node.values[0]))
    for next_node in node.values[1:]:
        if not is_dynamic(result):
            if bool(result) == (name == "or"):
                return result
            result = operand(context, evaluate(context, frame, next_node))
        else:
            result = logical(context, name, result, evaluate(context, frame, next_node))
    return result


def _compare(context, frame, node):
    result = True
    lhs = evaluate(context, frame, node.left)
    for op, right in zip(node.ops, node.comparators, strict=True):
        rhs = evaluate(context, frame, right)
        outcome = compare(context, op, lhs, rhs)
        result = outcome if result is True else logical(context, "and", result, outcome)
        if result is False:
            return False
        lhs = rhs
    return result


def compare(context: Context, op: ast.cmpop, lhs: Any, rhs: Any) -> Any:
    if isinstance(op, ast.Is | ast.IsNot):
        same = lhs is rhs or (
            isinstance(lhs, DType) and functions.as_dtype(context, rhs) == lhs if _is_dtype(rhs) else False
        )
        return same == isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        if is_dynamic(lhs):
            raise context.error("`in` needs values that are known when compiling")
        return (lhs in rhs) == isinstance(op, ast.In)
    if isinstance(lhs, DType) and _is_dtype(rhs):
        return (functions.as_dtype(context, rhs) == lhs) == isinstance(op, ast.Eq)
    return binary(context, BINARY[type(op)][0], lhs, rhs)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, DType) or type(value).__name__ == "dtype"


def _conditional(context, frame, node):
    condition = operand(context, evaluate(context, frame, node.test))
    if not is_dynamic(condition):
        return evaluate(context, frame, node.body if condition else node.orelse)
    chosen = evaluate(context, frame, node.body), evaluate(context, frame, node.orelse)
    return functions.where(context, truth(context, condition), *chosen)


def _tuple(context, frame, node):
    items = []
    for element in node.elts:
        if isinstance(element, ast.Starred):
            items.extend(iterate(context, evaluate(context, frame, element.value)))
        else:
            items.append(snapshot(context, evaluate(context, frame, element)))
    return tuple(items)


def snapshot(context: Context, value: Any) -> Any:
    """A value that later stores do not change: tiles are loaded now."""
    if isinstance(value, TileRef) and not memory.is_hierarchical(context, value):
        return memory.load(context, value)
    return value


def _dict(context, frame, node):
    return {
        evaluate(context, frame, k): evaluate(context, frame, v) for k, v in zip(node.keys, node.values, strict=True)
    }


def iterate(context: Context, value: Any) -> list:
    """The items of something whose length is known when compiling."""
    if isinstance(value, TileRef):
        (length,) = memory.shape(context, value)[:1] or (None,)
        if length is None or not length.is_constant:
            raise context.error(
                "iterate over a tile whose length is only known at run time with `for i in range(x.shape[0])`"
            )
        return [index(context, value, (i,)) for i in range(length.constant)]
    if is_dynamic(value):
        raise context.error("a computed tile cannot be unpacked or iterated over; index or `split` it")
    return [outside(context, item) for item in value]


def _comprehension(context, frame, node):
    items: list = []

    def generate(remaining):
        if not remaining:
            items.append(snapshot(context, evaluate(context, inner, node.elt)))
            return
        first, *rest = remaining
        for item in iterate(context, evaluate(context, inner, first.iter)):
            bind(context, inner, first.target, item)
            conditions = [operand(context, evaluate(context, inner, test)) for test in first.ifs]
            if any(is_dynamic(condition) for condition in conditions):
                raise context.error("a comprehension's `if` must be known when compiling", frame.parsed.location(node))
            if all(conditions):
                generate(rest)

    inner = Frame(frame.parsed, parent=frame, depth=frame.depth)
    generate(node.generators)
    return tuple(items)


def bind(context: Context, frame: Frame, target: ast.expr, value: Any) -> None:
    """Fresh local names for the targets of a comprehension."""
    if isinstance(target, ast.Name):
        frame.cells[target.id] = Cell(target.id, value)
        return
    for element, item in zip(target.elts, iterate(context, value), strict=True):
        bind(context, frame, element, item)


def _text(context, frame, node):
    pieces: list = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            pieces.append(part.value)
            continue
        value = operand(context, evaluate(context, frame, part.value))
        if is_dynamic(value):
            pieces.append(value)
        else:
            form = evaluate(context, frame, part.format_spec) if part.format_spec else ""
            converted = {115: str, 114: repr, 97: ascii}.get(part.conversion, lambda v: v)(value)
            pieces.append(format(converted, form))
    return Text(tuple(pieces)) if any(is_dynamic(piece) for piece in pieces) else "".join(pieces)


def _lambda(context, frame, node):
    defaults = tuple(evaluate(context, frame, default) for default in node.args.defaults)
    return LocalFunction(node, frame, frame.parsed, "lambda", defaults)


def _named(context, frame, node):
    from ninetoothed.frontend.statements import assign

    value = evaluate(context, frame, node.value)
    assign(context, frame, node.target, value)
    return value


# -- attributes and indices ------------------------------------------------------------------------


def _attribute(context, frame, node):
    owner = evaluate(context, frame, node.value)
    context.builder.location = frame.parsed.location(node)
    return outside(context, attribute(context, owner, node.attr))


def attribute(context: Context, owner: Any, name: str) -> Any:
    """`owner.name` of a tile, a level, a source, or any Python object."""
    if isinstance(owner, TileRef):
        return _tile_attribute(context, owner, name)
    if isinstance(owner, LevelRef):
        return _level_attribute(context, owner.parameter, owner.level, name)
    if isinstance(owner, SourceRef):
        return _source_attribute(context, owner, name)
    if isinstance(owner, Expr):
        owner = context.builder.value(owner)
    if isinstance(owner, Value):
        return _value_attribute(context, owner, name)
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise context.error(str(error)) from None


def _sizes(sizes) -> tuple:
    return tuple(size.constant if isinstance(size, Expr) and size.is_constant else size for size in sizes)


def _tile_attribute(context: Context, ref: TileRef, name: str) -> Any:
    if name == "source":
        return SourceRef(ref.parameter)
    if name in ("offsets", "data_ptr"):
        return BoundMethod(ref, name)
    if name in ("shape", "ndim", "dtype"):
        return _level_attribute(context, ref.parameter, ref.level, name)
    if memory.is_hierarchical(context, ref):
        raise context.error(
            f"a tile of tiles has no attribute {name!r}; it has shape, ndim, dtype, source, offsets"
            " and data_ptr, and can be indexed"
        )
    return _value_attribute(context, memory.load(context, ref), name)


def _level_attribute(context: Context, parameter: int, level: int, name: str) -> Any:
    levels = context.levels(parameter)
    shape = levels[level] if level < len(levels) else ()
    if name == "shape":
        return _sizes(shape)
    if name == "ndim":
        return len(shape)
    if name == "dtype":
        return LevelRef(parameter, level + 1) if level + 1 < len(levels) else context.argument(parameter).dtype
    raise context.error(f"{name!r} is no attribute of a tile's type; it has shape, ndim and dtype")


def _source_attribute(context: Context, ref: SourceRef, name: str) -> Any:
    source = context.definition.parameters[ref.parameter].source
    if name == "shape":
        return _sizes(context.number(size) for size in source.sizes)
    if name == "strides":
        return _sizes(context.number(stride) for stride in source.strides)
    if name == "ndim":
        return len(source.sizes)
    if name == "dtype":
        return context.argument(ref.parameter).dtype
    if name in ("stride", "size", "data_ptr"):
        return BoundMethod(ref, name)
    raise context.error(
        f"{name!r} is no attribute of a source; it has shape, strides, ndim, dtype, size, stride and data_ptr"
    )


def _value_attribute(context: Context, value: Value, name: str) -> Any:
    if name == "shape":
        return _sizes(value.type.shape)
    if name == "ndim":
        return len(value.type.shape)
    if name == "dtype":
        return value.type.dtype
    if name == "T":
        return functions.permute(context, value, ())
    if name == "to" or name in FUNCTIONS:
        return BoundMethod(value, name)
    raise context.error(f"a tile has no attribute {name!r}")


def _subscript(context, frame, node):
    owner = evaluate(context, frame, node.value)
    indices = evaluate_indices(context, frame, node.slice)
    context.builder.location = frame.parsed.location(node)
    if isinstance(owner, dict | str | tuple | list | range):
        return _of_python(context, owner, indices)
    return index(context, owner, indices)


def _of_python(context: Context, owner: Any, indices: tuple) -> Any:
    key = indices[0] if len(indices) == 1 else indices
    if is_dynamic(key):
        raise context.error("a Python sequence is indexed with numbers that are known when compiling")
    try:
        return outside(context, owner[key])
    except (IndexError, KeyError, TypeError) as error:
        raise context.error(f"{type(error).__name__}: {error}") from None


def evaluate_indices(context: Context, frame: Frame, node: ast.expr) -> tuple:
    elements = node.elts if isinstance(node, ast.Tuple) else [node]
    indices: list = []
    for element in elements:
        if isinstance(element, ast.Slice):
            parts = (element.lower, element.upper, element.step)
            indices.append(slice(*(None if p is None else evaluate(context, frame, p) for p in parts)))
        elif isinstance(element, ast.Starred):
            indices.extend(iterate(context, evaluate(context, frame, element.value)))
        else:
            indices.append(operand(context, evaluate(context, frame, element)))
    if len(indices) == 1 and isinstance(indices[0], tuple):
        return indices[0]
    return tuple(indices)


def index(context: Context, owner: Any, indices: tuple) -> Any:
    """`owner[indices]`: an element of the next level, elements of a tile, or elements of the source."""
    if isinstance(owner, SourceRef):
        return memory.gather(context, owner, _source_indices(context, indices))
    if isinstance(owner, TileRef):
        if memory.is_hierarchical(context, owner):
            return memory.element(context, owner, _element_indices(context, indices))
        if is_elementwise(indices):
            return memory.load(context, owner, innermost_indices(context, owner, indices))
        owner = memory.load(context, owner)
    if isinstance(owner, Value):
        return functions.index_value(context, owner, indices)
    try:
        return outside(context, owner[indices[0] if len(indices) == 1 else indices])
    except TypeError:
        raise context.error(f"{owner!r} cannot be indexed") from None


def is_elementwise(indices: tuple) -> bool:
    """Whether indices pick elements (rather than add axes to the whole tile)."""
    return any(not (i is None or i is Ellipsis or isinstance(i, slice)) for i in indices) and None not in [
        i for i in indices if i is None
    ]


def _source_indices(context: Context, indices: tuple) -> tuple:
    for i in indices:
        if not isinstance(i, int | Expr | Value):
            raise context.error("a source is indexed with numbers or tiles of indices, one a dimension")
        _check_integer(context, i)
    return indices


def _check_integer(context: Context, value: Any) -> None:
    if isinstance(value, Value) and value.type.dtype.is_floating:
        raise context.error(f"an index must be an integer, not {value.type.dtype}; convert it with `.to(ntl.int32)`")


def _element_indices(context: Context, indices: tuple) -> tuple:
    from ninetoothed.expr import as_expr
    from ninetoothed.frontend.operators import integer

    for i in indices:
        if i is None or i is Ellipsis or isinstance(i, slice):
            raise context.error("a tile of tiles is indexed with one number for each dimension")
    return tuple(as_expr(integer(context, i, "an index")) for i in indices)


def innermost_indices(context: Context, ref: TileRef, indices: tuple) -> tuple:
    """Indices into the innermost level: numbers, tiles of numbers, and bare slices."""
    from ninetoothed.expr import as_expr

    rank = len(memory.shape(context, ref))
    if Ellipsis in [i for i in indices if i is Ellipsis]:
        at = next(n for n, i in enumerate(indices) if i is Ellipsis)
        indices = (*indices[:at], *(slice(None),) * (rank - len(indices) + 1), *indices[at + 1 :])
    if len(indices) > rank:
        raise context.error(f"a tile of {rank} dimensions is indexed with {len(indices)} indices")
    result = []
    for i in indices:
        _check_integer(context, i)
        if isinstance(i, slice):
            if i != slice(None):
                raise context.error("the innermost level can be sliced only with a bare `:`")
            result.append(i)
        elif isinstance(i, Value) and i.type.is_scalar:
            result.append(context.builder.expr_of(i))
        else:
            result.append(i if isinstance(i, Value) else as_expr(i))
    return tuple(result)


_RULES = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _logical,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.JoinedStr: _text,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Call: call_node,
}
