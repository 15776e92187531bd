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
class Seen:
    """A touch that a run must show: of an element of a parameter, by a program.

    element: its indices, or of a pointer its distance from the first; None where a run decides on it.
    """

    parameter: str
    program: Program
    is_store: bool
    element: tuple[int, ...] | None


@dataclass(frozen=True)
class Counterexample:
    """A counterexample: a sentence, and the touches that a run must show.

    missing: the parameter and the element to which no program stores, where that is what it says.
    """

    text: str
    touches: tuple[Seen, ...] = ()
    missing: tuple[str, tuple[int, ...]] | None = None


class _GivenUp(BaseException):  # no `Exception`, which the evaluator would explain
    """Ends a run that takes too long."""


def is_shown(subject: Subject, example: Counterexample) -> bool:
    """Run the programs of an example, on memory of their own, and tell whether they touch what it says."""
    arguments = {key: _copied(value) for key, value in subject.arguments.items()}
    touched = _Touched()
    programs = {each.program for each in example.touches} or None
    target = passes.run(subject.program, passes.CPU, passes=passes.PORTABLE).program
    is_complete = True
    try:
        with torch.inference_mode():
            prepare(target)(arguments, subject.values, touched, programs)
    except (NineToothedError, _GivenUp):
        is_complete = False  # a place out of bounds is an error, and seen before
    if example.missing is not None:
        name, element = example.missing
        place = _offset(arguments[name], element)
        return is_complete and not any(touched.of(name, program, True)[place] for program in touched.programs)
    return _are_met(example.touches, arguments, touched)


def _are_met(touches: tuple[Seen, ...], arguments: dict[str, Any], touched: _Touched) -> bool:
    """Tell whether there were such touches, each as often as it is named; of no element in particular, of one alike."""
    named: Counter[Seen] = Counter(touches)
    places: set[int] | None = None
    for each, times in named.items():
        counts = touched.of(each.parameter, each.program, each.is_store)
        if each.element is None:
            own = {place for place, count in counts.items() if count >= times}
            places = own if places is None else places & own
        elif counts[_offset(arguments[each.parameter], each.element)] < times:
            return False
    return places is None or bool(places)


class _Touched(Watcher):
    """Count what each program touches of each parameter, by the distance from its first element."""

    def __init__(self) -> None:
        super().__init__()
        self._left = _OPERATIONS
        self._found: dict[tuple[str, Program, bool], Counter[int]] = {}

    @property
    def programs(self) -> set[Program]:
        """The programs that ran, and touched something."""
        return {program for _, program, _ in self._found}

    def of(self, name: str, program: Program, is_store: bool) -> Counter[int]:
        """Return how often a program loaded each element of a parameter, or stored to it."""
        return self._found.get((name, program, is_store), Counter())

    def begins(self, programs: ProgramSlice, operation: ir.Operation) -> None:
        """Note what an operation will touch."""
        self._left -= 1
        if self._left < 0:
            raise _GivenUp
        if isinstance(operation, ir.Load | ir.Store):
            places = offsets(programs, operation)
            self._note(programs, operation.access.parameter, isinstance(operation, ir.Store), places[places >= 0])
        elif isinstance(operation, ir.Apply) and operation.primitive.effect in (Effect.READS, Effect.WRITES):
            is_store = operation.primitive.effect is Effect.WRITES
            pointers, *rest = operation.operands
            assert isinstance(pointers.type.dtype, PointerType)
            places, masks = programs.tile(pointers), rest[1:] if is_store else rest
            inside = programs.tile(masks[0]).bool() if masks else torch.ones((), dtype=torch.bool)
            self._note(programs, pointers.type.dtype.parameter, is_store, places[inside.expand_as(places)])

    def ends(self, programs: ProgramSlice, operation: ir.Operation) -> None:
        """Follow no overhang: nothing is shown."""

    def _note(self, programs: ProgramSlice, name: str, is_store: bool, places: torch.Tensor) -> None:
        self._found.setdefault((name, programs.starts, is_store), Counter()).update(places.flatten().tolist())


def _copied(value: Any) -> Any:
    """Make memory of the same sizes and strides; what is no floating point may be indices, and is copied."""
    if not isinstance(value, torch.Tensor) or not value.dim():
        return value
    extent = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)) + 1
    flat = torch.zeros(extent * value.itemsize if value.numel() else 0, dtype=torch.uint8)
    made = flat.view(value.dtype).as_strided(value.shape, value.stride())
    if not value.is_floating_point() and all(value.stride()):
        made.copy_(value)
    return made


def _offset(memory: torch.Tensor, element: tuple[int, ...]) -> int:
    """Return the distance of an element from the first; of a pointer that is given already."""
    if len(element) != memory.dim():
        return element[0]
    return sum(index * stride for index, stride in zip(element, memory.stride(), strict=True))
