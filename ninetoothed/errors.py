"""The errors that a user's mistake can raise: one base class, one class for each kind of mistake."""

import os
import sys
from typing import Any

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class NineToothedError(Exception):
    """Base of every error that NineToothed raises on purpose."""


class ArrangementError(NineToothedError, ValueError):
    """A meta-operation that does not fit its tensor, or a tensor or symbol that cannot be made."""


class ApplicationError(NineToothedError, SyntaxError):
    """A construct that an application may not use; the message points at the user's source.

    `filename`, `lineno`, `offset` (1-based column) and `text` are those of `SyntaxError`. `unmet` is what
    it requires of the sizes of a call, where another call could meet that: a call's numbers say why it does not.
    """

    unmet: Any = None

    def __init__(self, message, filename=None, lineno=None, offset=None, text=None):
        super().__init__(message, (filename, lineno, offset, text))

    def __str__(self):
        place = f"{self.filename}:{self.lineno}:{self.offset}: " if self.filename else ""
        if not self.text:
            return f"{place}{self.msg}"
        stripped = self.text.rstrip("\n").lstrip()
        indent = len(self.text) - len(self.text.lstrip())
        caret = " " * max((self.offset or 1) - 1 - indent, 0) + "^"
        return f"{place}{self.msg}\n    {stripped}\n    {caret}"


class RaceError(ApplicationError):
    """A store by several programs to the same elements, of values that differ between them."""


class AbsentError(ApplicationError):
    """A parameter that is touched by a variant that is not given it; see `runtime.exemption`."""

    def __init__(self, parameter: str):
        super().__init__(f"parameter {parameter!r} is touched, and is not given")
        self.parameter = parameter


class ArgumentError(NineToothedError, ValueError):
    """An argument of a kernel's call whose value or shape does not fit.

    `parameters`: the names of the parameters that it is about; () where it may be any of them.
    """

    def __init__(self, message, parameters: tuple[str, ...] = ()):
        super().__init__(message)
        self.parameters = parameters


class SizeError(ArgumentError):
    """Sizes of a kernel's arguments that do not fit together; the message names the parameters and the sizes.

    `requirement` is what the traced program asks of them, where that is how it was found.
    """

    requirement: Any = None


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a kernel's call whose type does not fit."""


class EmptyKernelWarning(UserWarning):
    """A kernel that stores nothing, and so does nothing."""


class CompilationError(NineToothedError, RuntimeError):
    """A backend could not compile a program."""


class ResourceError(CompilationError):
    """A configuration needs more of a GPU than it has: shared memory, threads or registers of one program."""


class AssemblerError(CompilationError):
    """The assembler at hand makes machine code that gives wrong numbers, so that it is not launched."""

    def __init__(self, kernel, target, assembler, lost):
        super().__init__(
            f"{assembler} loses registers of kernel `{kernel}` for {target}, or cannot be verified not to:\n"
            + "".join(f"    {each}\n" for each in lost[:3])
            + 'from CUDA 13.3 on it keeps them: `pip install "ninetoothed[cuda]"`, or let the environment variable '
            "TRITON_PTXAS_PATH name such a ptxas; the driver must support CUDA 13, too"
        )


class ExecutionError(NineToothedError, RuntimeError):
    """An operation of a program failed while it ran on PyTorch tensors; the message names the programs and the line."""


class UnsupportedError(NineToothedError, NotImplementedError):
    """Something that the language has, and this backend or this version does not."""


class NotOfferedYet(UnsupportedError, ModuleNotFoundError):
    """A module of the language that this version lacks."""

    def __init__(self, name, what):
        super().__init__(f"ninetoothed.{name} ({what}) is not offered by this version yet")


def user_line():
    """`file:line: source` of the innermost frame outside the package, or an empty string."""
    import linecache

    frame = sys._getframe(1)
    while frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return ""
    path, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(path, line, frame.f_globals).strip()
    return f"{path}:{line}: {source}" if source else f"{path}:{line}"


def arrangement_error(what: str, remedy: str) -> ArrangementError:
    """An error at the user's line."""
    place = user_line()
    return ArrangementError(f"{what}; {remedy}" + (f"\n  at {place}" if place else ""))
