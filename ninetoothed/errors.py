"""The errors that a user's mistake can raise: one base class, and one class for each mistake that users tell apart."""

from __future__ import annotations

import dis
import functools
import linecache
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_P = ParamSpec("_P")
_T = TypeVar("_T")
_E = TypeVar("_E", bound="ApplicationError")


class NineToothedError(Exception):
    """The base of every error that NineToothed raises on purpose."""


class ArrangementError(NineToothedError, ValueError):
    """A wrong arrangement: a meta-operation that does not fit its tensor, or a tensor or symbol that cannot be made.

    `place` is the user's line, `file:line: source`; empty where it is not known.
    """

    place: str = ""

    def __str__(self) -> str:
        return super().__str__() + (f"\n  at {self.place}" if self.place else "")


class ArrangementTypeError(ArrangementError, TypeError):
    """A value of a type that an arrangement cannot take, or a size asked for the number that only a call tells."""


class ArrangementAttributeError(ArrangementError, AttributeError):
    """A name that symbolic tensors lack; an AttributeError too, so that `hasattr` is False."""


class FusionError(ArrangementError):
    """Two kernels that cannot be fused; the message says where their arrangements or applications differ."""


class GradientError(ArrangementError):
    """An arrangement from which no gradient's arrangement follows; the message says why, and what to write by hand."""


class ApplicationError(NineToothedError, SyntaxError):
    """A construct that an application may not use; the message points at the user's source.

    `filename`, `lineno`, `offset` (1-based column) and `text` are those of `SyntaxError`. `unmet` is a failed
    `ir.Requirement` that other sizes could meet, to which the runtime adds the numbers of the call.
    """

    unmet: Any = None

    def __init__(
        self,
        message: str,
        filename: str | None = None,
        lineno: int | None = None,
        offset: int | None = None,
        text: str | None = None,
    ):
        super().__init__(message, (filename, lineno, offset, text))

    @classmethod
    def at(cls: type[_E], message: str, place: Any) -> _E:
        """Make an error that points at an `ir.SourceLocation`, or at no place for None."""
        if place is None:
            return cls(message)
        return cls(message, place.file, place.line, place.column + 1, place.text)

    def __str__(self) -> str:
        place = f"{self.filename}:{self.lineno}:{self.offset}: " if self.filename else ""
        if not self.text:
            return f"{place}{self.msg}"
        stripped = self.text.rstrip("\n").lstrip()
        indent = len(self.text) - len(self.text.lstrip())
        caret = " " * max((self.offset or 1) - 1 - indent, 0) + "^"
        return f"{place}{self.msg}\n    {stripped}\n    {caret}"


class RaceError(ApplicationError):
    """Several programs, or lanes of one, store different values to the same elements."""


class VerificationError(NineToothedError):
    """A kernel that was to be verified is refuted. `verification` holds all that was found."""

    def __init__(self, message: str, verification: Any):
        super().__init__(message)
        self.verification = verification


class VerificationWarning(UserWarning):
    """A kernel that was to be verified is neither proved nor refuted."""


class AbsentError(ApplicationError):
    """A variant touches a parameter that is absent; `runtime.dispatch` catches it."""

    def __init__(self, parameter: str):
        super().__init__(f"parameter {parameter!r} is touched, and is not given")
        self.parameter = parameter


class ArgumentError(NineToothedError, ValueError):
    """An argument of a kernel's call has a value or a shape that does not fit.

    `parameters`: the names of the parameters that it concerns; () where it may be any of them.
    """

    def __init__(self, message: str, parameters: tuple[str, ...] = ()):
        super().__init__(message)
        self.parameters = parameters


class SizeError(ArgumentError):
    """Sizes of a kernel's arguments do not fit together; the message names the parameters and the sizes.

    `requirement`: the `ir.Requirement` of the traced program that they do not meet, where it is one.
    """

    requirement: Any = None


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a kernel's call has a type, a device or a layout that does not fit, or their count does not."""


class RaceWarning(UserWarning):
    """Nothing tells whether a kernel's programs store different values to the same elements."""


class AliasingWarning(UserWarning):
    """Two arguments are the same memory, and a program reads again what it stored there."""


class EmptyKernelWarning(UserWarning):
    """A kernel stores nothing, and so does nothing."""


class ReorderedParametersWarning(UserWarning):
    """An application has the arrangement's names for its parameters, in another order."""


class LoopVariableWarning(UserWarning):
    """The variable of a loop is a tensor of the kernel, to which each round stores."""


class HelperAssignmentWarning(UserWarning):
    """A function that returns a value stores to a tensor of the kernel that it was given."""


class LostGradientWarning(UserWarning):
    """A kernel is called with tensors that require gradients, and autograd does not record what it computes."""


class CompilationError(NineToothedError, RuntimeError):
    """A backend could not compile a program."""


class ResourceError(CompilationError):
    """A configuration needs more of a GPU than it has: shared memory, threads or registers of one program."""


class LoadError(NineToothedError, RuntimeError):
    """Kernels that were built ahead of time cannot run here: files are missing or damaged, or for other GPUs."""


class ExecutionError(NineToothedError, RuntimeError):
    """An operation of a program failed while it ran on PyTorch tensors; the message names the programs and the line."""


class UnsupportedError(NineToothedError, NotImplementedError):
    """The language has this, and the backend at hand or this version does not."""

    @classmethod
    def at(cls, message: str, place: Any) -> UnsupportedError:
        """Make an error that names an `ir.SourceLocation` and shows its line, or that names none for None."""
        return cls(message) if place is None else cls(f"{place}: {message}\n    {place.text.strip()}".rstrip())


class NotOfferedError(UnsupportedError, AttributeError):
    """A name of the language that this version lacks; an AttributeError too, so that `hasattr` is False."""


class NotOfferedImportError(UnsupportedError, ImportError):
    """A module of the original implementation that this one does not have."""


def shortened(error: NineToothedError) -> NineToothedError:
    """Drop the package's frames from an error's traceback: they tell a user nothing about a mistake.

    The environment variable `NINETOOTHED_TRACEBACK=full` keeps them.
    """
    if os.environ.get("NINETOOTHED_TRACEBACK") == "full":
        return error
    frames = [each for each in _trace(error) if not is_ours(each.tb_frame)]
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return error.with_traceback(kept)


def shortens_tracebacks(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap a public function so that its errors have short tracebacks (see `shortened`) and the user's line."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except NineToothedError as error:
            if isinstance(error, ArrangementError) and not error.place:
                error.place = user_line()
            raise shortened(error)  # noqa: B904

    return call


def is_ours(frame: FrameType) -> bool:
    """Tell whether code of the package runs in a frame."""
    return os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE)


def _users_frame() -> FrameType | None:
    """Return the innermost frame outside the package, PyTorch and NumPy."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_passed(frame):
        frame = frame.f_back
    return frame


def _is_passed(frame: FrameType) -> bool:
    return is_ours(frame) or str(frame.f_globals.get("__name__")).startswith(("torch.", "numpy."))


def user_line() -> str:
    """Return `file:line: source` of the innermost frame outside the package, PyTorch and NumPy, or an empty string."""
    frame = _users_frame()
    return "" if frame is None else _line(frame, frame.f_lineno)


def line_of(error: BaseException) -> str:
    """Return `file:line: source` of the last line outside the package, PyTorch and NumPy that an error met, or ""."""
    frames = [each for each in _trace(error) if not _is_passed(each.tb_frame)]
    return _line(frames[-1].tb_frame, frames[-1].tb_lineno) if frames else ""


def was_raised_by_user(error: BaseException) -> bool:
    """Tell whether a `raise` or an `assert` of the user's raised an error, and not Python itself."""
    *_, last = _trace(error)
    code = last.tb_frame.f_code.co_code
    return not _is_passed(last.tb_frame) and dis.opname[code[last.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")


def _trace(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _line(frame: FrameType, line: int) -> str:
    path = frame.f_code.co_filename
    source = linecache.getline(path, line, frame.f_globals).strip()
    return f"{path}:{line}: {source}" if source else f"{path}:{line}"


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the user's line: once for each line and message, unless filters say otherwise."""
    frame = _users_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
    else:
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def arrangement_error(
    what: str, remedy: str, kind: type[ArrangementError] = ArrangementError, place: str = ""
) -> ArrangementError:
    """Make an error that says what is wrong, how to mend it, and the user's line."""
    error = kind(f"{what}; {remedy}")
    error.place = place or user_line()
    return error
