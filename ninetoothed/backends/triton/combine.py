"""`reduce` and `associative_scan` with a function of the user's: it is printed above the kernel."""

from __future__ import annotations

import ast

from ninetoothed import ir
from ninetoothed.backends.triton import functions, syntax
from ninetoothed.backends.triton.analysis import analyse
from ninetoothed.backends.triton.context import EmitContext, ValueText


def text_of(context: EmitContext, operation: ir.Apply) -> ValueText:
    nodes = [functions.materialise(context.texts[value], value.type) for value in operation.operands]
    combine = syntax.name(_helper(context, operation.attribute("combine")))
    data = ast.Tuple(nodes) if len(nodes) > 1 else nodes[0]
    axis = operation.attribute("axis")
    axis = None if axis is None else axis % len(operation.operands[0].type.lanes)
    keywords = {name: True for name in ("keep_dims", "reverse") if operation.attribute(name)}
    node = syntax.call(f"tl.{operation.function}", data, axis, combine, **keywords)
    return ValueText(node, operation.results[0].type.lanes)


def _helper(context: EmitContext, combine: ir.Lambda) -> str:
    """Print the combining function, unless an equal one is there, and return its name."""
    body = combine.body
    analysis = analyse(body, combine.arguments, combine.yields)
    inner = EmitContext(context.program, analysis, context.target, helpers=context.helpers)
    parameters = []
    for index, argument in enumerate(combine.arguments):
        parameters.append(inner.names.fresh(argument.hint or f"value_{index}"))
        inner.texts[argument] = ValueText(syntax.name(parameters[-1]))
    for operation in body:
        match operation:
            case ir.Constant(result=result, value=value):
                inner.texts[result] = ValueText(syntax.number(value), (), value)
            case ir.Apply(results=(result,)):
                text = functions.text_of(inner, operation)
                if not inner.analysis.is_inlined(result):
                    text = ValueText(inner.assign(result.hint or operation.function, text.node))
                inner.texts[result] = text
            case _:
                raise context.unsupported(
                    "a combining function may only compute: it has no loads, stores or control flow", operation
                )
    values = [functions.typed(inner.texts[value], value.type.dtype) for value in combine.yields]
    inner.append(ast.Return(values[0] if len(values) == 1 else ast.Tuple(values)))
    context.libdevice |= inner.libdevice
    statements = inner.scopes[0].statements
    key = syntax.function("combine", parameters, statements)
    if key not in context.combines:
        name = context.names.fresh(combine.name if combine.name.isidentifier() else "combine")
        context.combines[key] = name
        context.helpers.append(syntax.function(name, parameters, statements))
    return context.combines[key]
