"""Warn of what an application may do, and is rarely meant: once for each place in the user's code."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ninetoothed.errors import (
    ApplicationError,
    HelperAssignmentWarning,
    LoopVariableWarning,
    ReorderedParametersWarning,
)
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.parse import parse_application
from ninetoothed.frontend.values import Cell, Scope
from ninetoothed.ir import SourceLocation


def note_target(context: TraceContext, scope: Scope, target: ast.expr) -> None:
    """Note a loop whose variable is a tensor of the kernel: each round stores its counter there."""
    for node in ast.walk(target):
        cell = scope.cells.get(node.id) if isinstance(node, ast.Name) else None
        if cell is not None and _is_tensor(context, cell):
            _note(
                context,
                LoopVariableWarning,
                f"the loop's variable {cell.name!r} is a tensor of the kernel, to which each round stores its counter;"
                f" give the variable another name, or assign {cell.name!r} inside the loop if that is meant",
            )


def note_assignment(context: TraceContext, scope: Scope, name: str, cell: Cell) -> None:
    """Note a helper that gives a result, and assigns a tensor of the kernel as if it were a variable of its own."""
    if context.call_depth > 1 and scope.returns and _is_tensor(context, cell):
        own = repr(cell.name) if name == cell.name else f"{cell.name!r} (its {name!r})"
        _note(
            context,
            HelperAssignmentWarning,
            f"the function {scope.parsed.name!r} returns a value, and stores to the kernel's tensor {own}: parameters"
            " are passed by reference; give what it computes another name, or, if the store is meant, return nothing",
        )


def _is_tensor(context: TraceContext, cell: Cell) -> bool:
    return cell.tile is not None and context.argument(cell.tile.parameter).role == "tensor"


def _note(context: TraceContext, category: type[Warning], message: str) -> None:
    place = context.builder.location
    context.oversights.setdefault((category, place), f"kernel {context.definition.name!r}: {message}")


def warn(context: TraceContext) -> None:
    """Warn of all that was noted while an application was traced."""
    for (category, place), message in context.oversights.items():
        warn_at(context.definition.application, category, message, place)


def warn_if_reordered(
    name: str, application: Callable[..., Any], parameters: Sequence[str], arranged: Sequence[str | None]
) -> None:
    """Warn of an application with the arrangement's names for its parameters, in another order.

    arranged: for each parameter of the application, the arrangement's name for its tensor; None where it has none.
    """
    moved = [
        (own, theirs)
        for own, theirs in zip(parameters, arranged, strict=True)
        if theirs is not None and own != theirs and own in arranged and theirs in parameters
    ]
    if moved and len(set(arranged)) == len(arranged):
        parsed = parse_application(application)
        told = " and ".join(f"its {own!r} is the arrangement's {theirs!r}" for own, theirs in moved)
        order = ", ".join(theirs or own for own, theirs in zip(parameters, arranged, strict=True))
        message = (
            f"kernel {name!r}: an application is given tensors in the order in which the arrangement returns them:"
            f" {told}; write `def {parsed.name}({order})`, or use other names if that is meant"
        )
        warn_at(application, ReorderedParametersWarning, message, parsed.location(parsed.tree))


def warn_at(
    application: Callable[..., Any], category: type[Warning], message: str, place: SourceLocation | None
) -> None:
    """Warn at a place in an application, once in its module."""
    error = ApplicationError.at(message, place)
    registry = parse_application(application).function.__globals__.setdefault("__warningregistry__", {})
    warnings.warn_explicit(str(error), category, error.filename or "", error.lineno or 0, registry=registry)
