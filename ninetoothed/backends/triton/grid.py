"""Print the index map of a grid: which tile, and which part of it, a program computes; see the pass `grid`."""

from __future__ import annotations

import ast
import re

from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, TextBlock
from ninetoothed.backends.triton.tiles import scalar
from ninetoothed.passes.grid import LAST, LAUNCH, PID
from ninetoothed.passes.scheduled import Grid


def enter(context: EmitContext, grid: Grid) -> None:
    """Define the names of a map, each in the outermost block that knows what it is made of."""
    last = syntax.binary("-", syntax.call("tl.num_programs", 0), syntax.number(1))
    known = {**{name: syntax.call("tl.program_id", axis) for axis, name in enumerate(LAUNCH)}, LAST: last}
    context.variables |= {name: (node, 0) for name, node in known.items()}
    if grid.tiles is not None:
        context.variables[PID] = syntax.name(context.fresh("pid", None)), 1
        context.scopes.append(TextBlock(repeats=True))
    for name in (*known, PID):
        context.facts = context.facts.bind(name, 0)
    for name, e in grid.names:
        node, depth = scalar(context, e), context.depth_of(e)
        if not isinstance(node, ast.Name | ast.Constant):
            node = context.common(_word(name), node, depth)
        context.variables[name] = node, depth
        if name not in context.program.axes:
            context.facts = context.facts.bind(name, 0)


def leave(context: EmitContext, grid: Grid) -> None:
    """Put the loop over tiles around what was printed, if there is one."""
    if grid.tiles is not None:
        body = context.leave()
        bounds = (syntax.call("tl.program_id", 0), scalar(context, grid.tiles), syntax.call("tl.num_programs", 0))
        iterator = syntax.call("tl.range", *bounds, flatten=True)
        context.append(ast.For(context.variable(PID), iterator, body, [], lineno=0))


def _word(name: str) -> str:
    return re.sub(r"^\$\d+\.", "", name).replace("program_", "pid_")
