"""Trace the `merge` of a loop whose rounds may be shared out over programs: `ntl.range(n, merge=function)`.

    def merge(peak, total, other_peak, other_total):
        highest = ntl.maximum(peak, other_peak)

        return highest, total * ntl.exp(peak - highest) + other_total * ntl.exp(other_peak - highest)

    for j in ntl.range(n, merge=merge):
        ...  # assigns `peak` and `total`

Each part of the rounds starts from the variables' values before the loop, and `merge` combines the results of two
parts. Its first parameters are named after the loop-carried variables; as many follow for the other part, in the same
order.
"""

from __future__ import annotations

import inspect
from typing import Any

from ninetoothed import ir
from ninetoothed.arrangement.operands import several
from ninetoothed.frontend.block_arguments import convert
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.loop_carried import TracedLoop
from ninetoothed.frontend.values import InlineFunction, name_of
from ninetoothed.ir import TileType, Value
from ninetoothed.ir.lanes import is_repetition
from ninetoothed.language.primitive import Effect


def trace_merge(context: TraceContext, function: Any, traced: TracedLoop) -> ir.Lambda:
    """Trace the function that merges two parts of a loop.

    Raises `ApplicationError` where the function takes other variables than the loop carries, or does more than compute
    element by element.
    """
    if not callable(function) and not isinstance(function, InlineFunction):
        raise context.error(f"`merge` is a function of what two parts have left, not {function!r}")
    types = {cell.name: type for cell, type in traced.types.items()}
    names = _order(context, function, types)
    if not all(isinstance(type, TileType) for type in types.values()):
        raise context.error(f"`{name_of(function)}` merges numbers and tiles, and this loop carries a tuple")
    state, other = ({name: Value(types[name], name) for name in names} for _ in range(2))
    with context.builder.block() as body:
        results = several(context.call(function, (*state.values(), *other.values()), {}))
        if len(results) != len(names):
            raise context.error(
                f"`{name_of(function)}` returns {len(results)} values; return {_listed(names)}, which it merges"
            )
        ends = {name: convert(context, result, types[name])[0] for name, result in zip(names, results, strict=True)}
    for operation in body:
        if not _stays_in_lanes(operation):
            raise context.error(
                f"`{name_of(function)}` may only compute element by element: it merges what is in registers",
                operation.location,
            )
    arguments = (*(state[name] for name in types), *(other[name] for name in types))
    return ir.Lambda(name_of(function), arguments, tuple(body), tuple(ends[name] for name in types))


def _stays_in_lanes(operation: ir.Operation) -> bool:
    if isinstance(operation, ir.Apply):
        primitive = operation.primitive
        return primitive.effect is Effect.NONE and (primitive.is_elementwise or is_repetition(operation))
    return isinstance(operation, ir.Constant | ir.ScalarArgument | ir.Index)


def _order(context: TraceContext, function: Any, types: dict[str, Any]) -> list[str]:
    """Return the names of the variables in the order in which the function takes them."""
    parameters = _parameters(function)
    names = parameters[: len(parameters) // 2]
    if len(parameters) != 2 * len(types) or set(names) != set(types):
        raise context.error(
            f"`{name_of(function)}` takes ({', '.join(parameters)}), and this loop carries {_listed(types)}: let it"
            " take these, by their names, and then as many more for the other part"
        )
    return names


def _parameters(function: Any) -> list[str]:
    if isinstance(function, InlineFunction):
        return [argument.arg for argument in function.tree.args.args]
    return list(inspect.signature(function).parameters)


def _listed(names) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"
