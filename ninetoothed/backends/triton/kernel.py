"""From a program to the text of a module with one Triton kernel."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from ninetoothed import dtypes, ir
from ninetoothed.backends.triton import grid, statements, syntax
from ninetoothed.backends.triton.analysis import ROOT, analyse
from ninetoothed.backends.triton.context import Context, Options
from ninetoothed.backends.triton.names import Names
from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr, divisor, var
from ninetoothed.passes import (
    coarsening,
    collapse_dimensions,
    epilogue_subtile,
    exponentials,
    fix_up,
    loop_peeling,
    persistent,
    remainder_subtile,
    split_k,
    tma_tiles,
    wgmma_operands,
)


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

    Descriptors come first among the arguments. grid: how many programs there are along each axis, those with one left
    out. spread: whether these are axes of the launch (see `grid`), or one is. persistent: whether fewer programs than
    tiles do. packed: whether each does the work of several. buffers: memory that the kernel takes beside what it is
    called with, by the names of arguments.
    """

    name: str
    source: str
    arguments: tuple[KernelArgument, ...]
    grid: tuple[Expr, ...]
    spread: bool = False
    persistent: bool = False
    packed: bool = False
    buffers: tuple[fix_up.Buffer, ...] = ()

    @property
    def descriptors(self) -> tuple[KernelArgument, ...]:
        return tuple(argument for argument in self.arguments if argument.role == "descriptor")

    def programs(self, integers: dict[str, int], at_once: int | None = None) -> tuple[int, int, int]:
        """How many to launch along each axis for these values of the run-time sizes, `at_once` where fewer will do."""
        count, *others = grid.launched([max(extent.evaluate(integers), 0) for extent in self.grid], self.spread)
        return min(count, at_once) if self.persistent and at_once else count, *others


def emit(program: ir.Program, options: Options | None = None) -> Emitted:
    """The Triton source of a program; equal programs give equal text.

    Raises `UnsupportedError` for what runs on the CPU alone.
    """
    options = options or Options()
    single, (shared, loop) = program, _passed(program, options)
    program, buffers, tail = shared.program, shared.buffers, shared.tail
    program = wgmma_operands.keep_in_shared_memory(program) if options.opaque else program
    names = _argument_names(program, single.parameters)
    title = syntax.identifier(program.name)
    analysis = analyse(program.body)
    boxes = tma_tiles.boxes(program, options.described)
    analysis = replace(analysis, awaited=boxes)
    context = Context(program, analysis, options, facts=program.facts, argument_names=names, boxes=boxes)
    context.names.take(title, *names.values())
    if loop is not None:
        grid.enter_tile_loop(context)
    spread = grid.decompose(context, loop is None and not buffers and tail is None, tail)
    statements.block(context, ROOT, program.body, statements.Targets())
    if loop is not None:
        grid.leave_tile_loop(context, grid.count(context))
    arguments = tuple(_argument(program, name, names[name]) for name in names if name in context.used)
    arguments = (*(_described(program, name, box) for name, box in context.descriptors.values()), *arguments)
    body = context.scopes[0].statements or [ast.Pass()]
    kernel = syntax.function(title, [argument.name for argument in arguments], body)
    imports = ["import triton", "import triton.language as tl"]
    if context.libdevice:
        imports.append("from triton.language.extra import libdevice")
    source = "\n\n\n".join(["\n".join(imports), *(text.rstrip() for text in (*context.helpers, kernel))]) + "\n"
    is_packed = not buffers and tail is None and program.grid != single.grid
    extents = (tail.programs,) if tail is not None else tuple(extent for extent in program.grid if extent != 1)
    return Emitted(title, source, arguments, extents, spread, loop is not None, is_packed, buffers)


def _passed(program: ir.Program, options: Options) -> tuple[split_k.Shared, ir.For | None]:
    """The program after the passes that rewrite it, and the loop that a persistent program's tiles share."""
    program = exponentials.to_base_two(collapse_dimensions.collapse(program))
    if options.persistent:
        loop = persistent.loop_of(program, tma_tiles.boxes(program, options.described))
        if loop is not None:
            return split_k.Shared(epilogue_subtile.subtile(program, loop)), loop
    shared = remainder_subtile.subtile(program, options.split, options.at_once, options.quarters)
    if shared.program is program:
        shared = split_k.split(program, options.split, options.at_once)
    program = coarsening.coarsen(program, options.packed) if shared.program is program else shared.program
    boxes = tma_tiles.boxes(program, options.described)
    return replace(shared, program=loop_peeling.peel(program, boxes)), None


def _described(program: ir.Program, name: str, box: tma_tiles.Box) -> KernelArgument:
    dtype = program.parameter(box.parameter).dtype
    return KernelArgument(name, "descriptor", box.parameter, dtype, 1, box.sizes, box.strides, box.block)


def _argument_names(program: ir.Program, given: tuple[ir.Parameter, ...]) -> dict[str, str]:
    """What each possible argument is called in the text: pointers and scalars, then sizes, then strides.

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
    mentioned = set().union(*(e.variables for e in program.grid), *map(_integers_of, ir.walk(program.body)))
    counters = {operation.variable for operation in ir.walk(program.body) if isinstance(operation, ir.For)}
    for name in sorted(mentioned - names.keys() - counters - set(program.axes)):
        names[name] = re.sub(r"^ninetoothed_tensor_\d+_", "", name)
    return _distinct(names)


def _distinct(names: dict[str, str]) -> dict[str, str]:
    table = Names()
    return {key: table.fresh(name) for key, name in names.items()}


def _integers_of(operation: ir.Operation) -> frozenset[str]:
    """The run-time integers that an operation mentions: what is no lane, counter or bound value."""
    match operation:
        case ir.Index(expr=e, lanes=lanes, bindings=bindings):
            expressions, local = [e], {lane.name for lane in lanes} | {name for name, _ in bindings}
        case ir.Load(access=access) | ir.Store(access=access):
            guarded = [e for guard in access.guards for e in (guard.index, guard.size)]
            expressions = [*access.indices, *guarded]
            local = {lane.name for lane in access.lanes} | {name for name, _ in access.bindings}
        case ir.For(start=start, stop=stop, step=step, bindings=bindings):
            expressions, local = [start, stop, step], {name for name, _ in bindings}
        case _:
            return frozenset()
    return frozenset().union(*(e.variables for e in expressions)) - local


def _argument(program: ir.Program, name: str, text: str) -> KernelArgument:
    for parameter in program.parameters:
        if parameter.name == name:
            role = "pointer" if parameter.role == "tensor" else "scalar"
            is_flag = role == "scalar" and parameter.dtype == dtypes.int1
            return KernelArgument(text, role, name, dtypes.int32 if is_flag else parameter.dtype)
    wide = any(p.wide and any(name in e.variables for e in (*p.sizes, *p.strides)) for p in program.parameters)
    dtype = dtypes.int64 if wide else dtypes.int32
    return KernelArgument(text, "integer", name, dtype, divisor(var(name), program.facts))
