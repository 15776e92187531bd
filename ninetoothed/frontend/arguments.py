"""Bind the arguments of a call to parameters, of the language's functions and of Python's."""

from __future__ import annotations

from typing import Any

from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.values import Cell, InlineFunction
from ninetoothed.frontend.variables import read
from ninetoothed.language.functions import Function
from ninetoothed.wording import near


def value_of(context: TraceContext, argument: Any) -> Any:
    """Return the value of an argument, which may be a variable."""
    return read(context, argument) if isinstance(argument, Cell) else argument


def bind(context: TraceContext, function: Function, args: list, kwargs: dict) -> list:
    """Order arguments by the signature and fill in defaults; variadic ones become one tuple."""
    names = list(function.parameters)
    if function.variadic:
        fixed = names[:-1]
        values = [*args[: len(fixed)], *(kwargs.pop(name) for name in fixed[len(args) :] if name in kwargs)]
        rest = kwargs.pop(names[-1], kwargs.pop("shape", kwargs.pop("dims", None)))
        variadic = tuple(args[len(fixed) :]) or (
            () if rest is None else tuple(rest) if isinstance(rest, tuple | list) else (rest,)
        )
        args, kwargs = [*values, variadic], kwargs
    unknown = set(kwargs) - set(names)
    if len(args) > len(names) or unknown:
        what = f"an unknown argument {sorted(unknown)[0]!r}" if unknown else f"{len(args)} arguments"
        raise context.error(f"`ntl.{function.name}` was given {what}; it takes ({', '.join(names)})")
    result = list(args)
    for name in names[len(args) :]:
        if name in kwargs:
            result.append(kwargs[name])
        elif name in function.defaults:
            result.append(function.defaults[name])
        else:
            raise context.error(f"`ntl.{function.name}` misses its argument {name!r}; it takes ({', '.join(names)})")
    return result


def _takes(names: list[str]) -> str:
    return f"it takes ({', '.join(names)})"


def bind_python(context: TraceContext, function: InlineFunction, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Bind arguments to parameters by Python's rules for calls."""
    spec, name, defaults = function.tree.args, function.name, function.defaults
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    names = [*positional, *(a.arg for a in spec.kwonlyargs)]
    bound: dict[str, Any] = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    bound.update(function.keyword_defaults)
    if len(args) > len(positional) and spec.vararg is None:
        raise context.error(
            f"{name!r} takes {len(positional)} positional arguments but {len(args)} were given; {_takes(names)}"
        )
    given = dict(zip(positional, args, strict=False))
    extra: dict[str, Any] = {}
    for key, value in kwargs.items():
        if key in given:
            raise context.error(f"{name!r} got two values for its parameter {key!r}")
        if key not in names and spec.kwarg is None:
            raise context.error(f"{name!r} has no parameter {key!r}; {near(key, names) or _takes(names)}")
        (given if key in names else extra)[key] = value
    bound.update(given)
    if spec.vararg is not None:
        bound[spec.vararg.arg] = tuple(value_of(context, a) for a in args[len(positional) :])
    if spec.kwarg is not None:
        bound[spec.kwarg.arg] = {key: value_of(context, value) for key, value in extra.items()}
    for key in names:
        if key not in bound:
            raise context.error(f"{name!r} misses its argument {key!r}; {_takes(names)}")
    return bound
