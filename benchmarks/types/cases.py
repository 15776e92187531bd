"""A kernel of one function and one type: what becomes of it on the CPU, and when Triton compiles it."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import io
import linecache
import os
import random
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, dtypes
from ninetoothed.dtypes import ALL, DType
from ninetoothed.errors import CompilationError, EmptyKernelWarning, ExecutionError, NineToothedError
from ninetoothed.language.primitive import Primitive
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection.machine import Machine

from .operands import REFERENCES, SHAPES, operand, tensor_of
from .rows import Row, rows


def plus(p, q):
    return p + q


def larger(p, q):
    return ntl.maximum(p, q)


@dataclass(frozen=True)
class Case:
    """A row with the types for T and U, and with operands that a seed draws."""

    row: Row
    dtype: DType
    other: DType | None = None

    def __str__(self) -> str:
        return f"{self.row.name} of {self.dtype}" + (f" and {self.other}" if self.other else "")

    @functools.cached_property
    def letters(self) -> tuple[str, ...]:
        names = {node.id for node in ast.walk(ast.parse(self.row.body)) if isinstance(node, ast.Name)}
        return tuple(sorted(names & SHAPES.keys()))

    @functools.cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        choose = random.Random(str(self))
        drawn = {letter: operand(letter, self._own(letter), choose) for letter in self.letters}
        return {letter: self._convertible(numbers) for letter, numbers in drawn.items()} if self.other else drawn

    def _convertible(self, numbers: np.ndarray) -> np.ndarray:
        """Leave out what backends convert differently: negative floats to unsigned."""
        return abs(numbers) if self.dtype.is_floating and self.other.category == "uint" else numbers

    def _own(self, letter: str) -> DType:
        return dtypes.int32 if letter == "i" else self.other if letter == "r" else self.dtype

    def operands(self) -> list[torch.Tensor]:
        return [tensor_of(self.numbers[letter], self._own(letter)) for letter in self.letters]

    @property
    def is_in_place(self) -> bool:
        return "out" not in self.row.body

    def kernel(self) -> tuple[Any, list[torch.Tensor]]:
        """Make the kernel, and its arguments; those that it writes come last."""
        operands, parameters = self.operands(), list(self.letters)
        if not self.is_in_place:
            operands.append(self._result(operands))
            parameters.append("out")
        return self._made(self.row.body, parameters, operands), operands

    def _result(self, operands: list[torch.Tensor]) -> torch.Tensor:
        """Make a tensor of the shape and the type of the result, which tracing tells."""
        noted: list[Any] = []
        body = f"{self.row.body}\nnote((out.dtype, out.shape))"
        probe = self._made(body, list(self.letters), operands, note=noted.append)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptyKernelWarning)
            dispatch.launcher_of(probe).trace(tuple(operands), {})
        dtype, shape = noted[-1]
        return torch.full([int(size) for size in shape], 1, dtype=getattr(torch, dtypes.to_torch_name(dtype)))

    def _made(self, body: str, parameters: list[str], operands: list[torch.Tensor], **names: Any) -> Any:
        text = f"def application({', '.join(parameters)}):\n{textwrap.indent(body, '    ')}\n"
        file = f"<{self}: {body}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        names |= {"ntl": ntl, "T": self.dtype, "U": self.other, "larger": larger, "plus": plus}
        exec(compile(text, file, "exec"), names)
        tensors = tuple(Tensor(each.ndim, shape_options={"constexpr": True}) for each in operands)
        return ninetoothed.make(_whole, names["application"], tensors)

    def expected(self, dtype: DType) -> torch.Tensor | None:
        """Compute the result by NumPy, as a tensor of a type; None where the row does not say."""
        names = {**REFERENCES, **self.numbers, "bits": self.dtype.bits, "is_float": self.dtype.is_floating}
        names["to_bool"] = self.other == dtypes.int1
        with np.errstate(all="ignore"):
            result = eval(self.row.reference, names)
        return None if result is None else tensor_of(result, dtype)


def _whole(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Arrange each tensor as one tile."""
    return tuple(tensor.tile((-1,) * tensor.ndim) if tensor.ndim else tensor for tensor in tensors)


def cases(only: str = "") -> Iterator[Case]:
    """List each row whose name has a text with each type, and conversions with each pair of types."""
    for row in (row for row in rows() if only in row.name):
        for dtype in ALL:
            for other in ALL if row.has_other else (None,):
                if other is None or "bitcast" not in row.body or dtype.bits == other.bits:
                    yield Case(row, dtype, other)


@dataclass(frozen=True)
class Outcome:
    """What became of a case on one backend: `kind`, and what was said."""

    kind: str
    said: str = ""


RIGHT, REFUSED, REJECTED, CRASH, WRONG = "right", "refused", "Triton's error", "our crash", "wrong"
FAULTS = (REJECTED, CRASH, WRONG)


def on_cpu(case: Case) -> Outcome:
    """Run a case on the CPU, and compare with NumPy."""
    with _outcome() as outcome:
        found = run(case, "cpu")
        expected = case.expected(dtypes.from_torch(found.dtype))
        wrong = "" if expected is None else difference(found, expected)
        outcome.append(Outcome(WRONG, f"{found.dtype}: {wrong}") if wrong else Outcome(RIGHT))
    return outcome[0]


def run(case: Case, device: str) -> torch.Tensor:
    """Run a case on a device, and return what it wrote."""
    kernel, arguments = case.kernel()
    arguments = [each.to(device) for each in arguments]
    with contextlib.redirect_stdout(io.StringIO()):
        kernel(*arguments)
    return arguments[case.letters.index("o")] if case.is_in_place else arguments[-1]


@contextlib.contextmanager
def _outcome() -> Iterator[list[Outcome]]:
    """Turn errors into outcomes: one that is named refuses, all others are ours, those that were wrapped too."""
    outcome: list[Outcome] = []
    try:
        yield outcome
    except NineToothedError as error:
        is_ours = isinstance(error, CompilationError | ExecutionError) or _WRAPPED.search(str(error))
        outcome.append(Outcome(CRASH if is_ours else REFUSED, str(error)))
    except Exception as error:
        outcome.append(Outcome(CRASH, f"{type(error).__name__}: {error}"))


_WRAPPED = re.compile(r": \w+Error: ")
_TOLERANCE = {"float8e4nv": 0.13, "float8e5": 0.26, "float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5}


def difference(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-10) -> str:
    """Say where two tensors differ by more than rounding; "" where they do not."""
    dtype = dtypes.from_torch(found.dtype)
    if dtype.is_floating:
        tolerance = max(tolerance, _TOLERANCE.get(dtype.name, 0))
        a, b = found.double(), expected.double()
        same = (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= tolerance * b.abs().clamp(min=0.5))
    else:
        a, b = found, expected
        same = a == b
    if a.shape != b.shape:
        return f"shape {tuple(a.shape)} for {tuple(b.shape)}"
    if bool(same.all()):
        return ""
    place = tuple((~same).nonzero()[0].tolist())
    return f"{a[place].item()} for {b[place].item()} at {place}, {int((~same).sum())} of {same.numel()}"


def on_gpu(case: Case, gpu: Machine, compiled: dict[str, str]) -> Outcome:
    """Compile a case for a GPU that need not be there. `compiled`: what Triton has said of texts."""
    with _outcome() as outcome:
        kernel, arguments = case.kernel()
        variant = dispatch.launcher_of(kernel).trace(tuple(arguments), {}, gpu)
        emitted = executable.emitted_for(variant)
        types = [(each.name, each.dtype.name) for each in emitted.arguments]
        key = hashlib.sha256(repr((emitted.source, types, gpu.architecture)).encode()).hexdigest()
        if key not in compiled:
            compiled[key] = _compiled(kernel.definition, variant)
        outcome.append(Outcome(REJECTED, compiled[key]) if compiled[key] else Outcome(RIGHT))
    return outcome[0]


@contextlib.contextmanager
def unlimited() -> Iterator[None]:
    """Let primitives take every type, as if their rows named all: what compiles so is refused without need."""
    with (
        mock.patch.object(Primitive, "unfit", lambda self, operands: None),
        mock.patch.object(Primitive, "refusal", lambda self, operands, results, attributes: None),
        mock.patch.object(Primitive, "lacking", lambda self, types, backend, architecture: None),
    ):
        yield


def _compiled(definition: Any, variant: Any) -> str:
    """Compile a variant; return what Triton says against it, of which it prints a part."""
    with _errors_of_this_process() as printed:
        try:
            executable.compile_for_gpu(definition, variant)
        except CompilationError as error:
            said = str(error)
        else:
            return ""
    return f"{said}\n{printed()}"


@contextlib.contextmanager
def _errors_of_this_process():
    """Catch what is written to file 2, by C++ too."""
    sys.stderr.flush()
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        texts: list[str] = []
        try:
            yield lambda: texts[0]
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            texts.append(file.read())
