"""Run a kernel program by program and line by line, by the backend for CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed import ir
from ninetoothed.backends.torch import prepare
from ninetoothed.backends.torch.debugging import code_at, shown
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.watching import Watcher, offsets
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import ArgumentTypeError, NineToothedError
from ninetoothed.runtime.dispatch import launcher_of


@dataclass(frozen=True, eq=False)
class Line:
    """A line of an application that one program has run.

    program: its index. location: its place, with its text. values: the variables that it assigned, by name. variables:
    all so far. touched: for each parameter that it read or wrote, the offsets of its elements, -1 for overhang.
    """

    program: tuple[int, ...]
    location: ir.SourceLocation
    values: Mapping[str, Any]
    variables: Mapping[str, Any]
    touched: tuple[tuple[str, str, torch.Tensor], ...]


def debug(
    kernel: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], on_line: Callable[[Line], Any] | None = None
) -> None:
    """Run a call line by line; see `Kernel.debug`."""
    if any(isinstance(each, torch.Tensor) and each.device.type != "cpu" for each in (*args, *kwargs.values())):
        raise ArgumentTypeError("`debug` and `show` run on the CPU; pass copies of the tensors, as by `x.cpu()`")
    call = launcher_of(kernel).host_call(args, dict(kwargs))
    stepper = Stepper(kernel.definition, on_line)
    with torch.inference_mode():
        try:
            prepare(call.program)(call.arguments, call.integers, stepper)
            stepper.finish()
        except NineToothedError as error:
            stepper.fail(error)


class Stepper(Watcher):
    """Give each line of the application a frame of its own, with the program's variables as locals."""

    def __init__(self, definition: KernelDefinition, on_line: Callable[[Line], Any] | None):
        super().__init__()
        self._name = definition.name
        self._globals = getattr(definition.application, "__globals__", {})
        self._on_line = on_line
        self._programs: ProgramSlice | None = None
        self._line: ir.SourceLocation | None = None
        self._variables: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        self._touched: list[tuple[str, str, torch.Tensor]] = []

    def begins(self, programs: ProgramSlice, operation: ir.Operation) -> None:
        """Go on to the operation's line, where it is another one or of another program."""
        place = operation.location
        if programs is not self._programs:
            self.finish()
            self._programs, self._variables = programs, {}
        if place is None or (self._line is not None and _same(place, self._line)):
            return
        self._report()
        self._line = place
        names = {"program": programs.starts} | self._variables
        self._run("pass", names)

    def ends(self, programs: ProgramSlice, operation: ir.Operation) -> None:
        """Note the variables that an operation assigned, and what it touched."""
        super().ends(programs, operation)
        if isinstance(operation, ir.For | ir.While | ir.If):
            self._report()
        for value in ir.results(operation):
            if value.hint and value in programs.values:
                self._variables[value.hint] = self._values[value.hint] = shown(programs, value)
        if isinstance(operation, ir.Load | ir.Store):
            what = "read" if isinstance(operation, ir.Load) else "written"
            self._touched.append((operation.access.parameter, what, offsets(programs, operation)))

    def rebinds(self, names: Iterable[ir.Value], values: Iterable[ir.Value]) -> None:
        """Report the last line of a round: the next one may begin with the same."""
        super().rebinds(names, values)
        self._report()

    def finish(self) -> None:
        """Report the last line of a program."""
        self._report()
        self._line = None

    def fail(self, error: NineToothedError) -> None:
        """Raise an error in a frame at its line, so that a debugger finds the program's variables there."""
        program = self._programs.starts if self._programs is not None else ()
        self._run("raise error", self._variables | {"program": program, "error": error})

    def _run(self, statement: str, names: dict[str, Any]) -> None:
        code = code_at(self._line, statement).replace(co_name=self._name)
        exec(code, dict(self._globals), names)

    def _report(self) -> None:
        line, programs = self._line, self._programs
        if line is not None and programs is not None and self._on_line is not None:
            told = Line(programs.starts, line, dict(self._values), dict(self._variables), tuple(self._touched))
            self._on_line(told)
        self._values, self._touched, self._line = {}, [], None


def _same(place: ir.SourceLocation, other: ir.SourceLocation) -> bool:
    return (place.file, place.line) == (other.file, other.line)
