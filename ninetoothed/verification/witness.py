"""Run the programs of a counterexample on the CPU: what was counted must be what they touch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed import ir, passes
from ninetoothed.backends.torch import prepare
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.watching import Watcher, offsets
from ninetoothed.dtypes import PointerType
from ninetoothed.errors import NineToothedError
from ninetoothed.language.primitive import Effect
from ninetoothed.verification.subject import Subject

# The operations after which a run is given up: what is stored may decide how long a loop runs.
_OPERATIONS = 1 << 18
Program = tuple[int, ...]


@dataclass(frozen=True)
class Example:
    """A counterexample: a sentence, and what a run must show.

    element: its indices, or of a pointer its distance from the first; None where a run decides on it. touches: the
    programs that touch it, each with whether it stores; without any, no program at all may store to it.
    """

    text: str
    element: tuple[int, ...] | None
    touches: tuple[tuple[Program, bool], ...] = ()


class _GivenUp(BaseException):  # no `Exception`, which the evaluator would explain
    """Ends a run that takes too long."""


def is_shown(subject: Subject, name: str, example: Example) -> bool:
    """Run the programs of an example, on memory of their own, and tell whether they touch what it says."""
    arguments = {key: _copied(value) for key, value in subject.arguments.items()}
    memory = arguments[name]
    wanted = None if example.element is None else _offset(memory, example.element)
    touched = _Touched(name)
    programs = {program for program, _ in example.touches} or None
    target = passes.run(subject.program, passes.CPU, passes=passes.PORTABLE).program
    is_complete = True
    try:
        with torch.inference_mode():
            prepare(target)(arguments, subject.values, touched, programs)
    except (NineToothedError, _GivenUp):
        is_complete = False  # a place out of bounds is an error, and seen before
    found = touched.found
    if not example.touches:
        stored = (counts for (_, is_store), counts in found.items() if is_store)
        return is_complete and not any(counts[wanted] for counts in stored)
    needed = Counter(example.touches)
    places = set(found.get(example.touches[0], ())) if wanted is None else {wanted}
    none = Counter[int]()
    return any(all(found.get(touch, none)[at] >= times for touch, times in needed.items()) for at in places)


class _Touched(Watcher):
    """Count what each program touches of a parameter, by the distance from its first element."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self._left = name, _OPERATIONS
        self.found: dict[tuple[Program, bool], Counter[int]] = {}

    def begins(self, programs: ProgramSlice, operation: ir.Operation) -> None:
        """Note what an operation will touch."""
        self._left -= 1
        if self._left < 0:
            raise _GivenUp
        if isinstance(operation, ir.Load | ir.Store):
            if operation.access.parameter == self._name:
                places = offsets(programs, operation)
                self._note(programs, isinstance(operation, ir.Store), places[places >= 0])
        elif isinstance(operation, ir.Apply) and operation.primitive.effect in (Effect.READS, Effect.WRITES):
            is_store = operation.primitive.effect is Effect.WRITES
            pointers, *rest = operation.operands
            if isinstance(pointers.type.dtype, PointerType) and pointers.type.dtype.parameter == self._name:
                places, masks = programs.tile(pointers), rest[1:] if is_store else rest
                inside = programs.tile(masks[0]).bool() if masks else torch.ones((), dtype=torch.bool)
                self._note(programs, is_store, places[inside.expand_as(places)])

    def ends(self, programs: ProgramSlice, operation: ir.Operation) -> None:
        """Follow no overhang: nothing is shown."""

    def _note(self, programs: ProgramSlice, is_store: bool, places: torch.Tensor) -> None:
        counts = self.found.setdefault((programs.starts, is_store), Counter())
        counts.update(places.flatten().tolist())


def _copied(value: Any) -> Any:
    """Make memory of the same sizes and strides; what is no floating point may be indices, and is copied."""
    if not isinstance(value, torch.Tensor) or not value.dim():
        return value
    extent = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)) + 1
    flat = torch.ones(max(extent, 0) if value.numel() else 0, dtype=value.dtype)
    made = flat.as_strided(value.shape, value.stride())
    if not value.is_floating_point() and all(value.stride()):
        made.copy_(value)
    return made


def _offset(memory: torch.Tensor, element: tuple[int, ...]) -> int:
    """Return the distance of an element from the first; of a pointer that is given already."""
    if len(element) != memory.dim():
        return element[0]
    return sum(index * stride for index, stride in zip(element, memory.stride(), strict=True))
