"""Choose the variable of a value: the one that its block yields, that of a dead value, or a new one."""

from __future__ import annotations

from collections.abc import Container

from ninetoothed import ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.analysis import BlockKey, OperationPlace, YieldTargets
from ninetoothed.backends.triton.context import EmitContext


def is_free(context: EmitContext, name: str, place: OperationPlace, loop: ir.Loop | None = None) -> bool:
    """Tell whether no value that a variable holds is read after the operation at `place`.

    A `loop` assigns all initial values at once, and only then reads what its bounds and blocks need.
    """
    bounds = {value for _, value in loop.bindings} if isinstance(loop, ir.For) else set()
    for value in context.texts.holders.get(name, ()):
        for use in context.analysis.uses.get(value, ()):
            read = context.analysis.last_read_of(value, use, place.key)
            is_first_value = use.operation is loop and value not in bounds
            if read > place.position or (loop is not None and read == place.position and not is_first_value):
                return False
    return True


def is_target(context: EmitContext, value: ir.Value, place: OperationPlace) -> bool:
    """Tell whether a value is computed in the variable that its block leaves it in."""
    name = place.targets.get(value)
    return name is not None and is_free(context, name, place)


def is_taken_over(context: EmitContext, name: str, initial: ir.Value, loop: ir.Loop, place: OperationPlace) -> bool:
    """Tell whether a loop may reuse the variable of an initial value: of this block, and read by nothing else.

    A variable that the block's own loop carries is one of these: at the end of the round it is assigned anyway.
    """
    block, position = context.analysis.definitions.get(initial, (None, 0))
    is_own = block == place.key and (name in context.scopes[-1].own or position == -1)
    is_once = loop.initial.count(initial) == 1 and initial not in place.targets
    return is_own and is_once and not context.is_integer(name) and is_free(context, name, place, loop)


def target(
    context: EmitContext,
    value: ir.Value,
    place: OperationPlace,
    wanted: str,
    shape: tuple[int, ...],
    by_branches: bool = False,
    taken: Container[str] = (),
) -> str:
    """Return the variable of a value: the one that it must have, that of a dead value of the same name, or a new one.

    by_branches: whether the two branches of an `if` assign it, which do not change a variable's type and shape. taken:
    the variables that other results of the same operation have.
    """
    if is_target(context, value, place) and place.targets[value] not in taken:
        return place.targets[value]
    wanted, content, scope = syntax.identifier(wanted), (value.type.dtype, shape), context.scopes[-1]
    held = scope.variables.get(wanted)
    if (
        held is not None
        and held not in taken
        and is_free(context, held, place)
        and (scope.contents.get(held) == content or not (by_branches or held in context.left))
    ):
        name = held
        scope.contents[name] = content
    else:
        name = context.fresh(wanted, content)
    if context.analysis.block_of(value) == place.key:
        scope.variables[wanted] = name
    return name


def targets_of(context: EmitContext, key: BlockKey, names: list[str], yields: tuple[ir.Value, ...]) -> YieldTargets:
    """Return the variables in which a block leaves the yields that it computes itself."""
    chosen: dict[ir.Value, str] = {}
    for name, yielded in zip(names, yields, strict=True):
        defined_in, position = context.analysis.definitions.get(yielded, (None, -1))
        is_literal = isinstance(context.analysis.producers.get(yielded), ir.Constant | ir.ScalarArgument)
        if defined_in == key and position >= 0 and not is_literal:
            chosen.setdefault(yielded, name)
    return chosen
