"""Trace an application to a program: execute it symbolically, once for each specialisation."""

from __future__ import annotations

from collections.abc import Callable

from ninetoothed.definition import KernelDefinition
from ninetoothed.effects import may_write
from ninetoothed.errors import ApplicationError
from ninetoothed.expr import as_expr
from ninetoothed.frontend import oversights, statements
from ninetoothed.frontend.calls import call
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.expressions import evaluate
from ninetoothed.frontend.numbers import numeric
from ninetoothed.frontend.parse import assigned_names, parse_application
from ninetoothed.frontend.preview import warn_that_nothing_is_stored
from ninetoothed.frontend.races import footprints
from ninetoothed.frontend.shapes import Mismatch
from ninetoothed.frontend.values import Cell, TileRef, absent
from ninetoothed.frontend.widths import widths
from ninetoothed.ir import Parameter, Program, Requirement
from ninetoothed.passes.dead_code import remove_dead
from ninetoothed.specialisation import Specialisation
from ninetoothed.verify import verify

__all__ = ["trace"]


class _Tracer(TraceContext):
    """A context with the functions that trace syntax."""

    evaluate, run, assign, call = evaluate, statements.run, statements.assign, call


def trace(
    definition: KernelDefinition,
    specialisation: Specialisation,
    check: Callable[[tuple[Requirement, ...]], None] = lambda requirements: None,
) -> Program:
    """Trace one instance of a kernel under a specialisation.

    Tracing finds sizes that must be equal. After `check`, which may raise, they get one name, and the application is
    traced again. So it is where two extents are equal in this call, and their bounds gave them different numbers of
    lanes: then both get the lower bound.

    Raises `ApplicationError`, pointing at the user's source, for what an application may not do.
    """
    context, requirements = _traced_until_unified(definition, specialisation, check)
    body = remove_dead(context.builder.top)
    found = widths(context, body)
    check(found)
    arguments = enumerate(context.specialisation.arguments)
    program = Program(
        definition.name,
        tuple(_parameter(context, i) for i, argument in arguments if argument.role in ("tensor", "scalar")),
        context.grid,
        context.axes,
        body,
        context.facts,
        requirements + found,
        tuple(context.free_names),
        footprints(context, body) if may_write(body) else None,
    )
    verify(program)
    oversights.warn(context)
    if not program.body:
        _warn_if_it_never_stores(context)
    return program


def _traced_until_unified(
    definition: KernelDefinition, specialisation: Specialisation, check: Callable[[tuple[Requirement, ...]], None]
) -> tuple[TraceContext, tuple[Requirement, ...]]:
    """Trace an application until no more sizes have to be unified. Returns also all that it requires."""
    equal: tuple[Requirement, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    while True:
        try:
            context = _traced(definition, specialisation, equal)
        except ApplicationError as error:
            if error.unmet is None or error.unmet in equal:
                raise
            check((error.unmet,))
            equal += (error.unmet,)
            continue
        check(context.builder.requirements)
        requirements += context.builder.requirements
        unified = _unified(context, specialisation)
        if unified == specialisation:
            return context, requirements + equal
        specialisation = unified


def _traced(
    definition: KernelDefinition, specialisation: Specialisation, equal: tuple[Requirement, ...]
) -> TraceContext:
    """Trace an application once; `equal` lists sizes that are the same number in this call."""
    context = _Tracer.create(definition, specialisation)
    for requirement in equal:
        context.assume_equal(requirement.left, requirement.right)
    arguments = tuple(_cell(context, i) for i in range(len(definition.parameters)))
    try:
        call(context, definition.application, arguments, {})
    except Mismatch as error:
        raise context.mismatch(error) from None
    except RecursionError:
        raise ApplicationError(f"kernel {definition.name!r}: the application is nested too deeply") from None
    return context


def _unified(context: TraceContext, specialisation: Specialisation) -> Specialisation:
    """Give sizes that must be equal one name, that of the first among the parameters."""
    sizes = (as_expr(size) for parameter in context.definition.parameters for size in parameter.source.sizes)
    order = {size: position for position, size in enumerate(dict.fromkeys(sizes)) if not size.is_constant}
    for requirement in context.builder.requirements:
        bindings = specialisation.bindings()
        sides = {requirement.left.subs(bindings), requirement.right.subs(bindings)}
        if len(sides) == 2 and all(side in order or side.is_constant for side in sides):
            first, later = sorted(sides, key=lambda side: order.get(side, -1))
            specialisation = specialisation.unified(str(later), first)
    return specialisation


def _warn_if_it_never_stores(context: TraceContext) -> None:
    """Warn where no parameter is ever assigned. A program may also be empty because a branch is not taken."""
    application = context.definition.application
    names = tuple(parameter.name for parameter in context.definition.parameters)
    if names and not set(names) & set(assigned_names(parse_application(application).tree)):
        warn_that_nothing_is_stored(context.definition.name, application, names)


def _cell(context: TraceContext, parameter: int) -> Cell:
    name, argument = context.definition.parameters[parameter].name, context.argument(parameter)
    if argument.role == "constant":
        return Cell(name, argument.value)
    if argument.role == "absent":
        return Cell(name, None, absent(name))
    return Cell(name, None, TileRef(parameter, (context.program_indices(parameter),)))


def _parameter(context: TraceContext, position: int) -> Parameter:
    parameter, argument = context.definition.parameters[position], context.argument(position)
    if argument.role == "scalar":
        return Parameter(parameter.name, "scalar", numeric(argument.dtype))
    source = parameter.source
    sizes = tuple(context.number(size) for size in source.sizes)
    strides = tuple(context.number(stride) for stride in source.strides)
    return Parameter(parameter.name, "tensor", numeric(argument.dtype), sizes, strides, argument.wide)
