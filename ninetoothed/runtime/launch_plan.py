"""Record functions that allocate an output and launch kernels, and replay them without running their Python.

`ReplayedFunction` runs the function at the first call, records it at the second that is equal (in types, shapes,
strides, devices, alignment, and values other than tensors), and from then on allocates the same memory and launches the
same kernels on it. Checks and views of the arguments cost nothing any more.

    output = allocate(x, dim)                                      Allocation((4, 8), (8, 1), float32, cuda:0)
    kernel(x.movedim(dim, -1), output.movedim(dim, -1))     ->     Launch(..., (TensorAddress(0), TensorAddress(2)))

Copies from tensor to tensor and zeros are replayed, too. A call that does anything else (computes in PyTorch, reads a
value, or launches a kernel on other memory) has no plan, and is run each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch

from ninetoothed.free_names import FreeName
from ninetoothed.runtime.aliasing import KnownPair, near
from ninetoothed.runtime.arguments import ALIGNMENT
from ninetoothed.runtime.call_cache import CallCache, Mark
from ninetoothed.runtime.fast_path import run
from ninetoothed.runtime.launch_steps import Copy, Launch, LaunchPlan, Scalar, TensorAddress, View
from ninetoothed.runtime.private import TorchDispatchMode, hidden_from_dynamo, modes_see_operations
from ninetoothed.runtime.workspace import Allocation

# The recorder of this thread's call, if it is being recorded.
RECORDER: ContextVar[LaunchRecorder | None] = ContextVar("recorder", default=None)

_EMPTY = frozenset(
    {f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")}
)
_COPIES = frozenset({"aten::clone", "aten::_to_copy"})
_ZEROS = frozenset({"aten::zeros", "aten::zeros_like", "aten::new_zeros"})
_PLAIN = frozenset({bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})


class LaunchRecorder(TorchDispatchMode):
    """Record one call: where its views lie, what it allocates and launches, and whether it does anything else."""

    def __init__(self, tensors: dict[int, torch.Tensor], first: int):
        super().__init__()
        # By identity, since several arguments may share a storage. The tensors are kept, so that no `id` is reused.
        self._places = {id(tensor): (tensor, number, 0) for number, tensor in tensors.items()}
        self._whole = dict(tensors)
        self._next = first
        self.allocations: list[Allocation] = []
        self.steps: list[Launch | Copy] = []
        self.launchers: list[Any] = []
        self.precision: str | None = None
        self.devices: set[int] = set()
        self.free_names: tuple[FreeName, ...] = ()
        self.separate: set[tuple[int, int]] = set()
        self.fits = True
        self._is_paused = False

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if self._is_paused:
            return function(*args, **(kwargs or {}))
        with self:  # Inference mode leaves operations composite, which may be views or copies.
            result = function.decompose(*args, **(kwargs or {}))
        if result is NotImplemented:
            result = function(*args, **(kwargs or {}))
            name = function.name().partition(".")[0]
            if name in _EMPTY:
                self._allocated(result)
            elif name in _ZEROS:
                self._allocated(result)
                self._zeroed(result)
            elif name == "aten::zero_":
                self._zeroed(args[0])
            elif name in _COPIES:
                self._allocated(result)
                self._copied(args[0], result)
            elif name == "aten::copy_" and len(args) > 1:
                self._copied(args[1], args[0])
            elif not ((function.is_view or name == "aten::_unsafe_view") and args and id(args[0]) in self._places):
                self.fits = False
            else:
                for view in result if isinstance(result, list | tuple) else [result]:
                    self._viewed(args[0], view)
        return result

    def _allocated(self, tensor: torch.Tensor) -> None:
        """Note an allocation."""
        self.fits = self.fits and is_recordable(tensor)
        self._places[id(tensor)] = tensor, self._next, 0
        self._whole[self._next] = tensor
        self._next += 1
        self.allocations.append(Allocation.of(tensor))

    def _viewed(self, base: torch.Tensor, view: torch.Tensor) -> None:
        """Note where a view lies."""
        _, number, offset = self._places[id(base)]
        if view.untyped_storage().data_ptr() != base.untyped_storage().data_ptr() or view.is_neg() != base.is_neg():
            self.fits = False
        self._places.setdefault(id(view), (view, number, offset + _start(view) - _start(base)))

    def placed(self, tensor: torch.Tensor, base: torch.Tensor) -> None:
        """Note that a tensor begins where another does, and may be larger."""
        _, number, offset = self._places[id(base)]
        self._places[id(tensor)] = tensor, number, offset

    def _copied(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Note a copy."""
        views = self._view(source), self._view(target)
        if views[0] is None or views[1] is None or source.device != target.device:
            self.fits = False
        else:
            self.steps.append(Copy(views[0], views[1]))

    def _zeroed(self, tensor: torch.Tensor) -> None:
        """Note that a tensor is set to 0."""
        target = self._view(tensor)
        if target is None:
            self.fits = False
        else:
            self.steps.append(Copy(None, target))

    def _view(self, tensor: Any) -> View | None:
        """Find the tensor that this one views; None where it is unknown, or the types differ."""
        _, number, offset = self._places.get(id(tensor), (None, None, 0))
        if number is None or tensor.dtype != self._whole[number].dtype:
            return None
        size, stride, start = tuple(tensor.shape), tensor.stride(), offset // tensor.itemsize
        base = self._whole[number]
        return View(number, size, stride, start, not start and (base.shape, base.stride()) == (size, stride))

    def launched(self, launcher: Any, plan: LaunchPlan, given: tuple, args: tuple) -> None:
        """Note a launch: the launcher, its plan, and the arguments before and after checking."""
        passed: list = list(args)
        for position, value in enumerate(args):
            if isinstance(value, torch.Tensor):
                _, *place = self._places.get(id(given[position]), (None, None, 0))
                passed[position] = TensorAddress(*place)
                self.fits = self.fits and place[0] is not None
        self.separate |= {(passed[each.output].number, passed[each.other].number) for each in plan.separate}
        for step in plan.steps:
            if isinstance(step, Launch) and step.is_replayable:
                own = (
                    passed[each.number] if isinstance(each, TensorAddress | Scalar) else each for each in step.passed
                )
                self.steps.append(replace(step, passed=tuple(own)))
            else:
                self.fits = False
        self.launchers.append(launcher)
        self.precision = self.precision or plan.precision
        self.free_names += plan.free_names
        self.devices |= set() if plan.device is None else {plan.device}

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing of what is done inside: a launch allocates its own workspace, each time anew."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def plan(self, count: int, output: Any) -> LaunchPlan | None:
        """Make the plan of the call, with `count` arguments; None if it did anything else or used several GPUs."""
        outputs = output if type(output) is tuple else (output,)
        if not (self.fits and len(self.devices) < 2 and all(map(is_recordable, outputs))):
            return None
        pairs = [KnownPair(i, j, True) for i, j in sorted(self.separate) if i != j and max(i, j) < count]
        distances = dict(near(self._whole, pairs))
        return LaunchPlan(
            count,
            tuple(self.steps),
            (*map(Allocation.of, outputs), *self.allocations),
            len(outputs) if type(output) is tuple else 0,
            self.precision,
            next(iter(self.devices), None),
            self.free_names,
            separate=tuple(replace(pair, distance=distances.get(pair, 0)) for pair in pairs),
        )


def is_recordable(tensor: torch.Tensor) -> bool:
    """Tell whether sizes and strides suffice to allocate a tensor like this: its storage is no larger."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    size = (last + 1) * tensor.itemsize
    return type(tensor) is torch.Tensor and tensor.numel() > 0 and tensor.untyped_storage().nbytes() == size


def _start(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.itemsize


class ReplayedFunction:
    """Call `allocate(*args)` for an output and `launch(output, *args)` to fill it; record and replay both.

    Both may depend only on types, shapes, strides, devices, alignment to 16 bytes, and values other than tensors;
    `allocate` returns new tensors.
    """

    def __init__(self, allocate: Callable, launch: Callable):
        self._allocate = allocate
        self._launch = launch
        self.calls = CallCache()

    @hidden_from_dynamo
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flat, names = ((*args, *kwargs.values()), tuple(kwargs)) if kwargs else (args, ())
        known: LaunchPlan | Mark | None = Mark.UNRECORDED
        if RECORDER.get() is None:  # Inside another recording, the launches themselves must be seen.
            for fast_path in self.calls.recent:
                output = fast_path(flat, names)
                if output is not None:
                    return output
            output = self.calls.again(flat, names)
            if output is not None:
                return output
            known = self.calls.find(flat, names)
        if isinstance(known, LaunchPlan) and any(
            each not in (0, pair.distance) for pair, each in near(flat, known.separate)
        ):
            known = Mark.SEEN  # its kernels have checked another distance
        if isinstance(known, LaunchPlan):
            path = self.calls.add_fast_path(flat, names, known)
            output = None if path is None else path(flat, names)
            return run(known, flat) if output is None else output
        if known is Mark.SEEN:
            return self._record(args, names, flat)
        output = self._allocate(*args, **kwargs)
        self._launch(output, *args, **kwargs)
        if known is None:
            self.calls.keep(flat, names, Mark.SEEN if _can_be_recorded(flat) else Mark.UNRECORDED)
        return output

    def add_fast_path(self, args: tuple, constants: tuple, flat: tuple, names: tuple[str, ...]) -> None:
        """Add a fast path for a caller of other arguments, which begin with those of a call that has a plan."""
        known = self.calls.find(flat, names)
        if isinstance(known, LaunchPlan):
            self.calls.add_fast_path(args, constants, known)

    def _record(self, args: tuple, names: tuple[str, ...], flat: tuple) -> Any:
        """Run a call, and keep its plan."""
        # A tensor given twice may be two tensors the next time.
        flat = tuple(
            value.detach() if isinstance(value, torch.Tensor) and any(value is other for other in flat[:i]) else value
            for i, value in enumerate(flat)
        )
        args, kwargs = flat[: len(args)], dict(zip(names, flat[len(args) :], strict=True))
        output = self._allocate(*args, **kwargs)
        outputs = tuple(output) if isinstance(output, tuple | list) else (output,)
        tensors = {number: value for number, value in enumerate((*flat, *outputs)) if isinstance(value, torch.Tensor)}
        recorder = LaunchRecorder(tensors, len(flat) + len(outputs))
        token = RECORDER.set(recorder)
        try:
            with recorder:
                self._launch(output, *args, **kwargs)
        finally:
            RECORDER.reset(token)
        plan = recorder.plan(len(flat), output) if type(output) in (torch.Tensor, tuple) else None
        if plan is not None:
            for launcher in recorder.launchers:
                launcher.dependants.add(self.calls)
        self.calls.keep(flat, names, plan or Mark.UNRECORDED)
        return output


def _can_be_recorded(values: tuple) -> bool:
    """Tell whether a call can be recorded: all tensors are aligned, and all other arguments are plain values."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    others = [value for value in values if not isinstance(value, torch.Tensor)]
    flat = [item for value in others for item in (value if type(value) in (list, tuple) else [value])]
    lists = [item for value in others if type(value) in (list, tuple) for item in value]
    return (
        modes_see_operations
        and bool(tensors)
        and all(tensor.data_ptr() % ALIGNMENT == 0 for tensor in tensors)
        and all(type(item) in _PLAIN for item in flat)
        and all(type(item) in (int, bool) for item in lists)
    )
