"""Exempt parameters that a variant never touches from all checks: a refused call runs without them.

if masked:                      kernel(x, torch.empty((), device="meta"), False, y)
    y = x * mask                `mask` is in no branch that is left: it may be on the meta device, or None
else:
    y = x
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import AbsentError, ApplicationError, ArgumentError
from ninetoothed.runtime import arguments


class Exemptions:
    """Make and remember launchers of one kernel in which some parameters are absent.

    Only tracing tells which parameters a variant touches. So the parameter of a refused argument is made absent and the
    application traced: if it touches the parameter, the argument is refused after all.

    `_launchers` has one for each set of absent parameters: few, since an application has few branches.
    """

    def __init__(self, definition: KernelDefinition, make: Callable[[KernelDefinition], Any]):
        self._definition = definition
        self._make = make
        self._launchers: dict[frozenset[int], Any] = {}

    def run(self, refused: ArgumentError, args: tuple, run: Callable[[Any, tuple], Any]) -> Any:
        """Call `run(launcher, args)` without parameters that its variant never touches; raise if none can be absent.

        Each time that a parameter turns out to be needed, the search begins anew with one fewer to try.
        """
        names = tuple(parameter.name for parameter in self._definition.parameters)
        error: ArgumentError = refused
        touched: set[int] = set()
        needed: set[int] = set()
        absent: tuple[int, ...] = ()
        while True:
            suspects = [i for i, p in enumerate(self._definition.parameters) if p.touched and _may_concern(error, p)]
            position = next((i for i in suspects if i not in needed and i not in absent), None)
            if position is None:
                if not absent or touched.issuperset(suspects):
                    raise error  # All that it is about is touched.
                needed, absent, error = {*needed, absent[-1]}, (), refused
                continue
            absent = (*absent, position)
            launcher = self._launchers.get(frozenset(absent)) or self._make(self._definition.without(frozenset(absent)))
            try:
                result = run(
                    launcher, tuple(arguments.unused(value) if i in absent else value for i, value in enumerate(args))
                )
            except AbsentError as found:
                touched.add(names.index(found.parameter))
                needed, absent, error = needed | touched, (), refused
            except ApplicationError:
                needed, absent, error = {*needed, position}, (), refused
            except ArgumentError as another:
                error = another
            else:
                self._launchers.setdefault(frozenset(absent), launcher)
                return result


def _may_concern(error: ArgumentError, parameter: KernelParameter) -> bool:
    return not error.parameters or parameter.name in error.parameters
