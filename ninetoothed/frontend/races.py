"""Ask which stores of an application may race; see `ninetoothed.races`."""

from __future__ import annotations

from ninetoothed import ir
from ninetoothed.expr import as_expr, maximum
from ninetoothed.frontend.context import TraceContext
from ninetoothed.races import TensorMemory, Question, questions


def races(context: TraceContext, body: ir.Block) -> tuple[Question, ...]:
    """Return what only the numbers of a call can answer."""
    stored = {each.access.parameter for each in ir.walk(body) if isinstance(each, ir.Store)}
    pointed = any(isinstance(each, ir.Apply) and each.primitive.effect.writes for each in ir.walk(body))
    if not stored and not pointed:
        return ()
    blocks = dict.fromkeys(context.definition.meta_symbols, 1)
    outermost = () if context.launching is None else context.definition.parameters[context.launching].outermost
    axes = {
        axis: (count, maximum(count, context.number(as_expr(size).subs(blocks))))
        for axis, count, size in zip(context.axes, context.grid, outermost, strict=True)
    }
    parameters = [
        TensorMemory(
            parameter.name,
            tuple(context.number(size) for size in parameter.source.sizes),
            tuple(context.number(stride) for stride in parameter.source.strides),
        )
        for parameter, argument in zip(context.definition.parameters, context.specialisation.arguments, strict=True)
        if argument.role == "tensor"
    ]
    return questions(body, parameters, axes, context.facts)
