"""List what an application touches, and which of its stores may race; see `ninetoothed.races`."""

from __future__ import annotations

from ninetoothed import ir
from ninetoothed.expr import as_expr, maximum
from ninetoothed.frontend.context import TraceContext
from ninetoothed.races import Footprints, TensorMemory, survey


def footprints(context: TraceContext, body: ir.Block) -> Footprints:
    """Return the footprints of a program."""
    blocks = dict.fromkeys(context.definition.meta_symbols, 1)
    outermost = () if context.launching is None else context.definition.parameters[context.launching].outermost
    axes = {
        axis: (count, maximum(count, context.number(as_expr(size).subs(blocks))))
        for axis, count, size in zip(context.axes, context.grid, outermost, strict=True)
    }
    memories = {
        parameter.name: TensorMemory(
            parameter.name,
            tuple(context.number(size) for size in parameter.source.sizes),
            tuple(context.number(stride) for stride in parameter.source.strides),
            parameter.source.unique_indices,
        )
        for parameter, argument in zip(context.definition.parameters, context.specialisation.arguments, strict=True)
        if argument.role == "tensor"
    }
    return survey(body, memories, axes, context.facts)
