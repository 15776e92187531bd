"""Trace an application to a program: execute it symbolically, once for each specialisation."""

from __future__ import annotations

from collections.abc import Callable, Container

from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import ApplicationError
from ninetoothed.expr import Var, as_expr
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
from ninetoothed.ir import Block, Parameter, Program, Requirement
from ninetoothed.ir.effects import may_write
from ninetoothed.ir.verify import verify
from ninetoothed.passes.dead_code import remove_dead
from ninetoothed.specialisation import Specialisation

__all__ = ["sketch", "trace"]


# Answers a requirement with what a call meets instead, given the names whose numbers are known; see `trace`.
Answer = Callable[[Requirement, Container[str]], tuple[Requirement, ...]]


class _Tracer(TraceContext):
    """A context with the functions that trace syntax."""

    evaluate, run, assign, call = evaluate, statements.run, statements.assign, call


def trace(
    definition: KernelDefinition,
    specialisation: Specialisation,
    answer: Answer = lambda requirement, known: (requirement,),
) -> Program:
    """Trace one instance of a kernel under a specialisation.

    Tracing finds sizes that must be equal. `answer` tells what this call meets: that, or that a size has its number, or
    that 32 bits hold no index; or it raises. `known`: the names whose numbers are. Equal sizes then get one name, and
    the application is traced again. So it is where two extents are equal in this call, and their bounds gave them
    different numbers of lanes: then both get the lower bound.

    Raises `ApplicationError`, pointing at the user's source, for what an application may not do.
    """
    context, body, requirements = _traced_until_answered(definition, specialisation, answer)
    arguments = enumerate(context.specialisation.arguments)
    program = Program(
        definition.name,
        tuple(_parameter(context, i) for i, argument in arguments if argument.role in ("tensor", "scalar")),
        context.grid,
        context.axes,
        body,
        context.facts,
        requirements,
        tuple(context.free_names),
        footprints(context, body) if may_write(body) else None,
        specialisation.in_place,
    )
    verify(program)
    oversights.warn(context)
    if not program.body:
        _warn_if_it_never_stores(context)
    return program


def sketch(definition: KernelDefinition, specialisation: Specialisation) -> Program:
    """Trace what a kernel computes, and from where: no guard is proved, so that it takes a fraction of the time.

    It is to be looked at, not to be run. Raises `ApplicationError` as `trace` does.
    """
    equal: tuple[Requirement, ...] = ()
    while True:
        context, unmet = _traced(definition, specialisation, equal, is_sketch=True)
        if unmet is None:
            found = context.builder.top, context.facts
            return Program(definition.name, (), context.grid, context.axes, *found, (), tuple(context.free_names))
        equal += (unmet,)


def _traced_until_answered(
    definition: KernelDefinition, specialisation: Specialisation, answer: Answer
) -> tuple[TraceContext, Block, tuple[Requirement, ...]]:
    """Trace an application until its requirements tell nothing new. Returns also its operations, and these."""
    equal: tuple[Requirement, ...] = ()
    requirements: tuple[Requirement, ...] = ()

    def answers(asked: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
        return tuple(found for each in asked for found in answer(each, specialisation.numbers))

    while True:
        context, unmet = _traced(definition, specialisation, equal)
        found = answers(context.builder.requirements if unmet is None else (unmet,))
        equal += () if unmet is None else found
        requirements += found
        unified = _unified(definition, specialisation, found)
        if unmet is None and unified == specialisation:
            body = remove_dead(context.builder.top)
            asked = widths(context, body)
            found = answers(asked)
            requirements += found
            if found == asked:
                return context, body, tuple(dict.fromkeys(requirements))
            unified = specialisation.widened()
        specialisation = unified


def _traced(
    definition: KernelDefinition,
    specialisation: Specialisation,
    equal: tuple[Requirement, ...],
    is_sketch: bool = False,
) -> tuple[TraceContext, Requirement | None]:
    """Trace an application once, with sizes that are `equal` in this call; tell where more of them have to be."""
    context = _Tracer.create(definition, specialisation, is_sketch)
    for requirement in equal:
        context.assume_equal(requirement.left, requirement.right)
    arguments = tuple(_cell(context, i) for i in range(len(definition.given)))
    try:
        call(context, definition.application, arguments, {})
        return context, None
    except ApplicationError as found:
        error = found
    except Mismatch as found:
        error = context.mismatch(found)
    except RecursionError:
        error = ApplicationError(f"kernel {definition.name!r}: the application is nested too deeply")
    if error.unmet is None or error.unmet in equal:
        raise error
    return context, error.unmet


def _unified(
    definition: KernelDefinition, specialisation: Specialisation, found: tuple[Requirement, ...]
) -> Specialisation:
    """Give sizes that must be equal one name, that of the first among the parameters, or their number."""
    sizes = (as_expr(size) for parameter in definition.parameters for size in parameter.source.sizes)
    order = {size: position for position, size in enumerate(dict.fromkeys(sizes)) if not size.is_constant}
    for requirement in found:
        bindings = specialisation.bindings()
        sides = requirement.left.subs(bindings), requirement.right.subs(bindings)
        first, later = sorted(sides, key=lambda side: (not side.is_constant, order.get(side, 0)))
        is_fixed = first.is_constant and isinstance(later.sole_atom, Var)
        if first != later and (is_fixed or (first.is_constant or first in order) and later in order):
            specialisation = specialisation.unified(str(later), first)
    return specialisation


def _warn_if_it_never_stores(context: TraceContext) -> None:
    """Warn where no parameter is ever assigned. A program may also be empty because a branch is not taken."""
    application = context.definition.application
    names = tuple(parameter.name for parameter in context.definition.given)
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
