"""The program: one application, specialised and typed, before any backend.

A program computes one element of the outermost level: a list of operations on immutable values, with structured
control flow. All that is implicit in the language is explicit here: every conversion is a `cast`, every broadcast a
`broadcast`, every access carries source indices and the guards that could not be proved away. `print_program`
shows it.

Integer expressions (`expr.Expr`) appear in `Index`, `Access` and `For`. Their variables are
  * sizes and strides: names of run-time integer arguments (`Parameter.sizes`, `.strides`);
  * program indices: the names in `Program.axes`;
  * loop counters: `For.variable` of an enclosing loop;
  * lanes: names in the `lanes` of the `Index` or `Access` itself, one an axis of its tile;
  * bound values: names in its `bindings`, standing for an integer value computed by the program (a scalar, or a tile
    that broadcasts against the result).
"""

from ninetoothed.ir.nodes import (
    Access,
    Apply,
    Block,
    Breakpoint,
    Carried,
    Constant,
    For,
    If,
    Index,
    Lambda,
    Load,
    Loop,
    Operation,
    Outcome,
    Print,
    ScalarArgument,
    SourceLocation,
    Store,
    While,
    result_types,
)
from ninetoothed.ir.printer import print_operation, print_program
from ninetoothed.ir.program import Parameter, Program, Requirement
from ninetoothed.ir.rewriter import Cloner, Rewriter
from ninetoothed.ir.traversal import blocks, controls, expressions, integers, operands, reads, regions, results, walk
from ninetoothed.ir.values import Bindings, Lane, TileType, Value

__all__ = [
    "Access",
    "Apply",
    "Bindings",
    "Block",
    "Breakpoint",
    "Carried",
    "Outcome",
    "Cloner",
    "Constant",
    "For",
    "If",
    "Index",
    "Lambda",
    "Lane",
    "Load",
    "Loop",
    "Operation",
    "Parameter",
    "Print",
    "Program",
    "Requirement",
    "Rewriter",
    "ScalarArgument",
    "SourceLocation",
    "Store",
    "TileType",
    "Value",
    "While",
    "blocks",
    "controls",
    "expressions",
    "integers",
    "operands",
    "print_operation",
    "print_program",
    "reads",
    "regions",
    "result_types",
    "results",
    "walk",
]
