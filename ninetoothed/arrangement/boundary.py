"""Tell mistakes in calls of what arrangements are made with: each is an `ArrangementError` at the user's line.

x.pad((1, 1), (0, 2))   pad((1, 1), (0, 2)) of `x`, of shape (x_size_0, x_size_1): too many positional arguments; write
                        pad(((1, 1), (0, 2)))
x.tile((2,), stride=1)  tile((2,), stride=1) of `x`, of shape (x_size_0,): got an unexpected keyword argument 'stride';
                        did you mean 'strides'?

Python refuses such calls before a function runs, by a bare TypeError. The checks of each function's own raise their
errors themselves.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ninetoothed.errors import ArrangementError, ArrangementTypeError, NineToothedError, arrangement_error, is_ours
from ninetoothed.wording import brief, near

_P = ParamSpec("_P")
_T = TypeVar("_T")


def tells_mistakes(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap a public function, a method or `__init__` so that a call that does not fit it is an `ArrangementError`."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except NineToothedError:
            raise
        except Exception as error:
            found = _told(function, args, kwargs, error)
            if found is None:
                raise
            raise found from (None if isinstance(found, ArrangementTypeError) else error)

    return call


def _told(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> ArrangementError | None:
    """Make the error for a call that failed; None where code of the user's failed in it, as in an iterator."""
    signature = inspect.signature(function)
    is_method = next(iter(signature.parameters), "") == "self"
    given = [*map(brief, args[is_method:]), *(f"{name}={brief(value)}" for name, value in kwargs.items())]
    name = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
    owner = getattr(args[0], "described", "") if is_method and args and function.__name__ != "__init__" else ""
    what = f"{name}({', '.join(given)})" + (f" of {owner}" if owner else "")
    trace = error.__traceback__
    if trace is None or trace.tb_next is None:  # the function did not even begin
        reason, remedy = _misfit(signature, name, given, is_method, args, kwargs)
        return arrangement_error(f"{what}: {reason}", remedy, ArrangementTypeError)
    while trace.tb_next is not None:
        trace = trace.tb_next
    if not is_ours(trace.tb_frame):
        return None
    return arrangement_error(f"{what}: {type(error).__name__}: {error}", _takes(signature, is_method))


def _misfit(
    signature: inspect.Signature, name: str, given: list[str], is_method: bool, args: Any, kwargs: Any
) -> tuple[str, str]:
    """Say why arguments do not fit a signature, and what to write instead."""
    parameters = [*signature.parameters.values()][is_method:]
    remedy = _takes(signature, is_method)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = [key for key in kwargs if key not in signature.parameters]
        takes_several = bool(parameters) and any(
            each in str(parameters[0].annotation) for each in ("Sizes", "Iterable")
        )
        if unknown:
            remedy = near(unknown[0], [each.name for each in parameters]) or remedy
        elif len(args) - is_method > len(parameters) and takes_several and not kwargs:
            remedy = f"write {name}(({', '.join(given)}))"
        return str(error), remedy
    return "it cannot be called so", remedy


def _takes(signature: inspect.Signature, is_method: bool) -> str:
    parameters = [*signature.parameters.values()][is_method:]
    public = [each for each in parameters if not each.name.startswith("_")]
    told = (each.name if each.default is each.empty else f"{each.name}={brief(each.default)}" for each in public)
    return f"it takes ({', '.join(told)})"
