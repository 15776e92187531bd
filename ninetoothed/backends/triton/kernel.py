"""Emit a program as the text of a module with one Triton kernel."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, replace

from ninetoothed import dtypes, ir, passes
from ninetoothed.backends.triton import grid, statements, syntax
from ninetoothed.backends.triton.analysis import ROOT, analyse
from ninetoothed.backends.triton.context import EmitContext
from ninetoothed.backends.triton.names import NameTable
from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr, divisor, var
from ninetoothed.passes import Buffer, ScheduledProgram, Target
from ninetoothed.passes.tma_tiles import TmaTile
from ninetoothed.schedule import Schedule


@dataclass(frozen=True)
class KernelArgument:
    """One argument of the emitted kernel.

    role: "pointer", "descriptor" or "scalar", of the kernel parameter `source`, or "integer", the run-time size or
        stride `source`.
    dtype: of the elements behind a pointer or a descriptor, or of the number itself.
    multiple_of: a number known to divide an integer.
    sizes, strides, block: what a descriptor describes, a dimension each; in terms of run-time sizes and strides.
    """

    name: str
    role: str
    source: str
    dtype: DType
    multiple_of: int = 1
    sizes: tuple[Expr, ...] = ()
    strides: tuple[Expr, ...] = ()
    block: tuple[int, ...] = ()


@dataclass(frozen=True)
class Emitted:
    """A module of text with one kernel, `name`, which takes `arguments`.

    Descriptors come first among the arguments. grid: the programs along each axis of a launch, as `Grid` has them.
    persistent: whether fewer programs than tiles will do. coarsening: how many programs of the original grid each
    computes. buffers: memory that the kernel takes beside what it is called with, by the names of arguments. dialect:
    "triton" or "gluon". relies_on_apart: whether no two parameters may be the same memory.
    """

    name: str
    source: str
    arguments: tuple[KernelArgument, ...]
    grid: tuple[tuple[Expr, ...], ...]
    persistent: bool = False
    coarsening: int = 1
    buffers: tuple[Buffer, ...] = ()
    dialect: str = "triton"
    relies_on_apart: bool = False

    @property
    def descriptors(self) -> tuple[KernelArgument, ...]:
        return tuple(argument for argument in self.arguments if argument.role == "descriptor")

    def programs(self, integers: dict[str, int], most: int | None = None) -> tuple[int, int, int]:
        """Count the programs along each axis for these values of the run-time sizes, `most` where fewer will do."""
        axes = [math.prod(max(extent.evaluate(integers), 0) for extent in axis) for axis in self.grid]
        count, second, third = (*axes, 1, 1)[:3]
        return min(count, most) if self.persistent and most else count, second, third


def emit(program: ir.Program, schedule: Schedule | None = None, target: Target | None = None) -> Emitted:
    """Give the Triton source of a program; equal programs give equal text.

    program: as the passes for every backend have left it; those for GPUs are applied here.
    Raises `UnsupportedError` for what runs on the CPU alone.
    """
    schedule, target = schedule or Schedule(), target or Target()
    return print_kernel(passes.run(program, target, schedule, passes.GPU), program.parameters, target)


def print_kernel(scheduled: ScheduledProgram, given: tuple[ir.Parameter, ...], target: Target) -> Emitted:
    """Print a program that has been through all passes.

    given: the parameters with the dimensions that they had before.
    """
    program = scheduled.program
    names = argument_names(program, given)
    title = syntax.identifier(program.name)
    analysis = replace(analyse(program.body), awaited=scheduled.tma_tiles)
    context = EmitContext(
        program, analysis, target, facts=program.facts, argument_names=names, tma_tiles=scheduled.tma_tiles
    )
    context.names.take(title, *names.values())
    grid.enter(context, scheduled.grid)
    statements.block(context, ROOT, program.body, {})
    grid.leave(context, scheduled.grid)
    arguments = tuple(argument_of(program, name, names[name]) for name in names if name in context.used)
    arguments = (*(descriptor_of(program, name, tile) for name, tile in context.descriptors.values()), *arguments)
    placed, source = scheduled.grid, _module(context, title, arguments)
    is_persistent = placed.tiles is not None
    return Emitted(
        title,
        source,
        arguments,
        placed.launch,
        is_persistent,
        scheduled.coarsening,
        scheduled.buffers,
        relies_on_apart=context.relies_on_apart,
    )


def _module(context: EmitContext, title: str, arguments: tuple[KernelArgument, ...]) -> str:
    """Put imports, helpers and the kernel together."""
    body = context.scopes[0].statements or [ast.Pass()]
    kernel = syntax.function(title, [argument.name for argument in arguments], body)
    imports = ["import triton", "import triton.language as tl"]
    if context.libdevice:
        imports.append("from triton.language.extra import libdevice")
    return "\n\n\n".join(["\n".join(imports), *(text.rstrip() for text in (*context.helpers, kernel))]) + "\n"


def descriptor_of(program: ir.Program, name: str, tile: TmaTile) -> KernelArgument:
    dtype = program.parameter(tile.parameter).dtype
    return KernelArgument(name, "descriptor", tile.parameter, dtype, 1, tile.sizes, tile.strides, tile.block)


def argument_names(program: ir.Program, given: tuple[ir.Parameter, ...]) -> dict[str, str]:
    """Name each possible argument in the text: pointers and scalars, then sizes, then strides.

    given: the parameters with the dimensions that they were given with.
    """
    names: dict[str, str] = {}
    for parameter in program.parameters:
        names[parameter.name] = f"{parameter.name}_ptr" if parameter.role == "tensor" else parameter.name
    for what in ("size", "stride"):
        for parameter in given:
            for d, e in enumerate(parameter.sizes if what == "size" else parameter.strides):
                for name in sorted(e.variables):
                    names.setdefault(name, f"{parameter.name}_{what}_{d}")
    mentioned = set().union(*(e.variables for e in program.grid), *map(ir.integers, ir.walk(program.body)))
    loops = [operation for operation in ir.walk(program.body) if isinstance(operation, ir.For)]
    counters = {name for loop in loops for name in (loop.variable, *dict(loop.counters))}
    for name in sorted(mentioned - names.keys() - counters - set(program.axes)):
        names[name] = re.sub(r"^ninetoothed_tensor_\d+_", "", name)
    return _distinct(names)


def _distinct(names: dict[str, str]) -> dict[str, str]:
    table = NameTable()
    return {key: table.fresh(name) for key, name in names.items()}


def argument_of(program: ir.Program, name: str, text: str) -> KernelArgument:
    for parameter in program.parameters:
        if parameter.name == name:
            role = "pointer" if parameter.role == "tensor" else "scalar"
            is_flag = role == "scalar" and parameter.dtype == dtypes.int1
            return KernelArgument(text, role, name, dtypes.int32 if is_flag else parameter.dtype)
    wide = any(p.wide and any(name in e.variables for e in (*p.sizes, *p.strides)) for p in program.parameters)
    dtype = dtypes.int64 if wide else dtypes.int32
    return KernelArgument(text, "integer", name, dtype, divisor(var(name), program.facts))
