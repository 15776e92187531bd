"""Emit a program with overlapped products as the text of a module with one Gluon kernel, whose warps have tasks.

    gl.warp_specialize([(compute, (0, ...)), (compute, (1, ...)), (copy, (...))], [4, 1], [240, 24])

One warp copies tiles into rings of buffers, and the others compute: see `copies` and `products`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.backends.gluon import layouts
from ninetoothed.backends.gluon.copies import CopyingWarp
from ninetoothed.backends.gluon.form import HOPPER, NAMES, Form, NoFormError, form_of
from ninetoothed.backends.gluon.products import ComputingWarps
from ninetoothed.backends.gluon.rings import Ring
from ninetoothed.backends.triton import descriptors, grid, statements, syntax
from ninetoothed.backends.triton.analysis import ROOT, analyse
from ninetoothed.backends.triton.context import Dialect, EmitContext
from ninetoothed.backends.triton.kernel import Emitted, argument_names, argument_of, descriptor_of
from ninetoothed.backends.triton.names import NameTable
from ninetoothed.ir.effects import touched
from ninetoothed.passes import ScheduledProgram, Target
from ninetoothed.passes.operations import is_dot
from ninetoothed.passes.row_halves import HALF, HALVES
from ninetoothed.schedule import Schedule

_IMPORTED = ("gluon", "gl", *NAMES[HOPPER])
_IMPORTS = "\n".join(
    (
        "from triton.experimental import gluon",
        "from triton.experimental.gluon import language as gl",
        f"from {HOPPER} import (",
        *(f"    {name}," for name in NAMES[HOPPER]),
        ")",
    )
)
# Registers of a thread: as few as there can be for the warp that copies, as many as that leaves for two that compute.
_COPYING_REGISTERS, _COMPUTING_REGISTERS = 24, 240


def print_kernel(
    scheduled: ScheduledProgram, given: tuple[ir.Parameter, ...], schedule: Schedule, target: Target
) -> Emitted | str:
    """Print a program that has been through all passes; or say why it has no such form.

    given: the parameters with the dimensions that they had before.
    """
    program = _touched(scheduled.program)
    arguments, title = argument_names(program, given), syntax.identifier(program.name)
    names = NameTable((title, *arguments.values(), *_IMPORTED, layouts.NAME))
    half = names.fresh(HALF)
    tasks = HALVES if HALF in program.axes else 1
    # Where indices have 64 bits, the number of a task is converted, too, as only a tensor can be.
    is_wide = any(parameter.wide for parameter in scheduled.program.parameters)
    number = syntax.call("tl.to_tensor", syntax.name(half)) if is_wide else syntax.name(half)
    try:
        form = form_of(program, scheduled.tma_tiles, schedule, tasks, names, target.shared_memory)
    except NoFormError as error:
        return str(error)
    module = _Module(replace(scheduled, program=program), schedule, target, form, arguments, names, half, number)
    task = syntax.name(half) if tasks > 1 else syntax.number(0)
    compute = module.function("compute", program.body, ComputingWarps(form, task), tasks)
    copy = module.function("copy", form.copied, CopyingWarp(form))
    return module.emitted(title, (compute, copy)) if module.has_form else "it calls functions of CUDA's library"


def _touched(program: ir.Program) -> ir.Program:
    """Leave out tensors that a program never accesses: their sizes would tell how wide integers have to be."""
    names = touched(program.body)
    kept = tuple(each for each in program.parameters if each.role != "tensor" or each.name in names)
    return replace(program, parameters=kept)


@dataclass(frozen=True)
class _Function:
    """A function that warps run: its name, the arguments and memory that it takes, and its text.

    tasks: how many run it, each with its number before all else.
    """

    name: str
    taken: tuple[str, ...]
    text: str
    tasks: int

    def calls(self) -> Iterator[ast.expr]:
        """Yield what `warp_specialize` takes of each task."""
        given = [*map(syntax.name, self.taken)]
        for number in range(self.tasks):
            own = [syntax.number(number)] if self.tasks > 1 else []
            yield ast.Tuple([syntax.name(self.name), ast.Tuple([*own, *given])])


@dataclass
class _Module:
    """The module that is being printed.

    arguments: what each argument that there may be is called. half: what the number of a task is called. task_number:
    that number in sums.
    used, descriptors: those that were needed so far.
    has_form: whether all that functions do has a form in Gluon.
    """

    scheduled: ScheduledProgram
    schedule: Schedule
    target: Target
    form: Form
    arguments: dict[str, str]
    names: NameTable
    half: str
    task_number: ast.expr
    used: dict[str, None] = field(default_factory=dict)
    descriptors: dict = field(default_factory=dict)
    has_form: bool = True
    relies_on_apart: bool = False

    def __post_init__(self):
        context = self._context((), None)
        for buffer in self.form.buffers:
            descriptors.descriptor(context, buffer.tile)
        self.names.take(*(name for name, _ in self.descriptors.values()))

    def function(self, wanted: str, body: ir.Block, dialect: Dialect, tasks: int = 1) -> _Function:
        """Print the function of some tasks."""
        name, context = self.names.fresh(wanted), self._context(body, dialect)
        context.variables[HALF] = self.task_number, 0
        grid.enter(context, self.scheduled.grid)
        for ring in self._rings():
            context.append(syntax.assign(ring.count, syntax.call("tl.to_tensor", 0)))
        statements.block(context, ROOT, body, {})
        self.has_form &= not (context.libdevice or context.helpers)
        self.relies_on_apart |= context.relies_on_apart
        lines = [layouts.translated(each) for each in context.scopes[0].statements]
        mentioned = frozenset[str]().union(*map(syntax.names_in, lines))
        taken = tuple(name for name in self._known() if name in mentioned)
        if layouts.NAME in mentioned:
            lines.insert(0, layouts.defined(self.schedule.num_warps, self._columns()))
        parameters = [*([f"{self.half}: gl.constexpr"] if tasks > 1 else []), *taken]
        return _Function(name, taken, syntax.function(name, parameters, lines, "gluon.jit"), tasks)

    def emitted(self, title: str, functions: tuple[_Function, ...]) -> Emitted:
        """Put imports, the functions and the kernel that starts them together."""
        program = self.scheduled.program
        arguments = tuple(argument_of(program, name, self.arguments[name]) for name in self._used())
        arguments = (*(descriptor_of(program, *each) for each in self.descriptors.values()), *arguments)
        body = [layouts.translated(each) for each in self._start(functions)]
        kernel = syntax.function(title, [argument.name for argument in arguments], body, "gluon.jit")
        texts = [_IMPORTS, *(each.text.rstrip() for each in functions), kernel.rstrip()]
        source, launch, is_apart = "\n\n\n".join(texts) + "\n", self.scheduled.grid.launch, self.relies_on_apart
        return Emitted(title, source, arguments, launch, dialect="gluon", relies_on_apart=is_apart)

    def _start(self, functions: tuple[_Function, ...]) -> Iterator[ast.stmt]:
        """Allocate the memory and share out the warps."""
        context = self._context((), None)
        for buffer in self.form.buffers:
            yield from buffer.allocated(descriptors.descriptor(context, buffer.tile))
        tasks = [call for each in functions for call in each.calls()]
        more = len(tasks) - 2  # The first task has the warps that the kernel begins with.
        warps = ast.List([*map(syntax.number, [self.schedule.num_warps] * more + [1])])
        registers = ast.List([*map(syntax.number, [_COMPUTING_REGISTERS] * more + [_COPYING_REGISTERS])])
        yield ast.Expr(syntax.call("tl.warp_specialize", ast.List(tasks), warps, registers))

    def _context(self, body: ir.Block, dialect: Dialect | None) -> EmitContext:
        return EmitContext(
            self.scheduled.program,
            replace(analyse(body), awaited=self.form.tiles),
            self.target,
            names=self.names.copy(),
            facts=self.scheduled.program.facts,
            argument_names=self.arguments,
            descriptors=self.descriptors,
            used=self.used,
            dialect=dialect,
        )

    def _known(self) -> Iterator[str]:
        """Yield what functions may take: arguments and memory."""
        yield from (name for name, _ in self.descriptors.values())
        yield from (self.arguments[name] for name in self._used())
        yield from (name for buffer in self.form.buffers for name in buffer.names)

    def _used(self) -> Iterator[str]:
        return (name for name in self.arguments if name in self.used)

    def _rings(self) -> Mapping[Ring, None]:
        return dict.fromkeys(self.form.rings.values())

    def _columns(self) -> int:
        """Return the columns of the instruction: those that all products have."""
        return min(dot.result.type.lanes[1] for dot in filter(is_dot, ir.walk(self.scheduled.program.body)))
