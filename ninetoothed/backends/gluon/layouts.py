"""Gluon's spelling of what is computed: Triton's, with the layout of tiles that are filled with a number.

All tiles have the layout of products, vectors of rows that of its rows. What comes from `arange` takes its layout from
what it meets.
"""

from __future__ import annotations

import ast
from typing import Any

from ninetoothed.backends.triton import syntax

NAME = "layout"


def defined(num_warps: int, columns: int) -> ast.stmt:
    """Define the layout of products by so many warps, whose instruction has 16 rows a warp, and a depth of 16."""
    text = f"tl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[{num_warps}, 1], instr_shape=[16, {columns}, 16])"
    line = ast.AnnAssign(ast.Name(NAME), syntax.name("gl.constexpr"), translated(ast.parse(text, mode="eval").body), 1)
    return line


def translated(node: Any) -> Any:
    """Translate a tree of Triton's: `tl.zeros((128, 64), tl.float32)` -> `gl.zeros((128, 64), gl.float32, layout)`."""
    if isinstance(node, list | tuple):
        return [*map(translated, node)]
    if not isinstance(node, ast.AST):
        return node
    new: Any = type(node)(**{name: translated(value) for name, value in ast.iter_fields(node)})
    match node:
        case ast.Name("tl"):
            return ast.Name("gl")
        case ast.Call(ast.Attribute(ast.Name("tl"), "range")):
            return ast.Call(ast.Name("range"), new.args, [])  # its loops take no hints
        case ast.Call(ast.Attribute(ast.Name("tl"), "zeros" | "full"), args=[ast.Tuple(elts=shape), *_]) if shape:
            return ast.Call(new.func, [*new.args, _of_rank(len(shape))], new.keywords)
        case ast.Call(ast.Attribute(ast.Name("tl"), "broadcast_to"), args=[_, ast.Tuple(elts=shape)]):
            filled = syntax.call("gl.zeros", ast.Tuple(shape), syntax.name("gl.int1"), _of_rank(len(shape)))
            return ast.Subscript(syntax.call("gl.broadcast", new.args[0], filled), ast.Constant(0))
    return new


def _of_rank(rank: int) -> ast.expr:
    return syntax.name(NAME) if rank > 1 else syntax.call("gl.SliceLayout", 1, syntax.name(NAME))
