"""A row of the language: a name that applications call, with its signature and its docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ninetoothed.errors import ApplicationError

NAMESPACE = "ninetoothed.language"


class _Annotation(str):
    """The text of an annotation, shown without quotes in a signature."""

    def __repr__(self) -> str:
        return str(self)


class Function:
    """A name that applications call. Outside an application it has no meaning: calling it says so.

    definition: a function without a body, whose signature and docstring are the row's.
    parameters: the names of its parameters, in order, the variadic one last.
    """

    __name__: str
    __doc__: str | None

    def __init__(self, definition: Callable[..., Any], module: str = NAMESPACE) -> None:
        functools.update_wrapper(self, definition)
        self.module = module
        self.name = definition.__name__
        self.__module__, _, inner = NAMESPACE, *module.removeprefix(NAMESPACE).rpartition(".")[1:]
        self.__qualname__ = f"{inner}.{self.name}" if inner else self.name
        signature = inspect.signature(definition)
        parameters = [each.replace(annotation=_Annotation(each.annotation)) for each in signature.parameters.values()]
        self.__signature__ = inspect.Signature(parameters, return_annotation=_Annotation(signature.return_annotation))
        self.parameters = tuple(each.name for each in parameters)
        self.defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        self.variadic = any(each.kind == each.VAR_POSITIONAL for each in parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ApplicationError(
            f"`{self.module}.{self.name}` works on tiles: call it inside an application, not in ordinary Python"
        )

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}{self.__signature__}"

    def __reduce__(self) -> str:
        return self.__qualname__


def row(definition: Callable[..., Any]) -> Function:
    """Make a row of `ninetoothed.language` of a function without a body."""
    return Function(definition)
