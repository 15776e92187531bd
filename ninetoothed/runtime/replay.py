"""Functions that allocate their output and launch kernels, repeated without running them again.

`Replayed` runs such a function on a call that it sees for the first time, records it when it sees the same call (types,
shapes, strides, devices, alignment, values of all that is no tensor) again, and from then on allocates the same memory
and launches the same kernels on it. What lies between, checks and views of the arguments, costs nothing any more.

    output = allocate(x, dim)                                          Allocation((4, 8), (8, 1), float32, cuda:0)
    kernel(x.movedim(dim, -1), output.movedim(dim, -1))       ->       Launch(found, (x + 0 bytes, output + 0 bytes))

Copies from tensor to tensor are repeated, too. A recording is made only of a call of which this is all: one that
computes in PyTorch, reads a value or launches a kernel on memory from elsewhere runs as it is each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ninetoothed.runtime.recent import SEEN, Calls
from ninetoothed.runtime.specialise import ALIGNMENT

try:  # Inductor's, for the current GPU: in half the time, and no public part of PyTorch.
    from torch._C._dynamo.guards import _empty_strided_cuda
except ImportError:
    _empty_strided_cuda = None

# The recorder of the call that this thread is in. It is asked once a launch, which a mode of PyTorch's would be too.
RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)

_EMPTY = frozenset(
    {f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")}
)
_COPIES = frozenset({"aten::clone", "aten::_to_copy"})
_PLAIN = frozenset({bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})


@dataclass(frozen=True)
class Allocation:
    """Memory that a call allocates."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Allocation:
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device)

    def make(self) -> torch.Tensor:
        index = self.device.index
        if index is not None and _empty_strided_cuda is not None and index == torch._C._cuda_getDevice():
            return _empty_strided_cuda(self.size, self.stride, self.dtype)
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=self.device)


@dataclass(frozen=True)
class Launch:
    """A kernel that a call launches.

    values: what the kernel is passed, but for `places`: (position, number, bytes), where a tensor's address is that of
    the argument or allocation of this number, plus so many bytes.
    """

    found: Any
    values: list
    places: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class View:
    """A view of the argument or allocation of this number, whose elements start `start` elements after its own."""

    number: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    start: int

    def of(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        base = tensors[self.number]
        if self.start == 0 and base.shape == self.size and base.stride() == self.stride:
            return base
        return base.as_strided(self.size, self.stride, base.storage_offset() + self.start)


@dataclass(frozen=True)
class Copy:
    """A copy of elements that a call makes, converted where types differ."""

    source: View
    target: View

    def run(self, tensors: list[torch.Tensor]) -> None:
        self.target.of(tensors).copy_(self.source.of(tensors))


@dataclass(frozen=True)
class Recording:
    """All that a call does. Numbers of allocations follow those of the arguments; the first `outputs` are returned."""

    allocations: tuple[Allocation, ...]
    steps: tuple[Launch | Copy, ...]
    outputs: int | None
    precision: str | None

    def run(self, args: tuple, raw: list):
        """Do it for arguments, which lie at these addresses, and return what the call returns."""
        made = []
        for each in self.allocations:
            tensor = each.make()
            made.append(tensor)
            raw.append(tensor.data_ptr())
        for step in self.steps:
            if type(step) is Copy:
                step.run([*args, *made])
                continue
            passed = step.values.copy()
            for position, number, offset in step.places:
                passed[position] = raw[number] + offset
            step.found.run((), passed)
        return made[0] if self.outputs is None else tuple(made[: self.outputs])


@dataclass(frozen=True)
class Unrecorded:
    """Stands for the recording of a call of which there is none."""

    precision: None = None


class Recorder(TorchDispatchMode):
    """Watches one call: where its views lie, what it allocates and launches, and whether it does anything else."""

    def __init__(self, tensors: dict[int, torch.Tensor], first: int):
        super().__init__()
        # By identity, since several arguments may lie in one storage; the tensors are kept so that they keep it.
        self._places = {id(tensor): (tensor, number, 0) for number, tensor in tensors.items()}
        self._types = {number: tensor.dtype for number, tensor in tensors.items()}
        self._next = first
        self.allocations: list[Allocation] = []
        self.steps: list[Launch | Copy] = []
        self.launchers: list[Any] = []
        self.precision: str | None = None
        self.fits = True

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        with self:  # Inference mode leaves operations composite, which may be views or copies.
            result = function.decompose(*args, **(kwargs or {}))
        if result is NotImplemented:
            result = function(*args, **(kwargs or {}))
            name = function.name().partition(".")[0]
            if name in _EMPTY:
                self._allocated(result)
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
        self.fits = self.fits and is_recordable(tensor)
        self._places[id(tensor)] = tensor, self._next, 0
        self._types[self._next] = tensor.dtype
        self._next += 1
        self.allocations.append(Allocation.of(tensor))

    def _viewed(self, base: torch.Tensor, view: torch.Tensor) -> None:
        _, number, offset = self._places[id(base)]
        if view.untyped_storage().data_ptr() != base.untyped_storage().data_ptr():
            self.fits = False
        self._places.setdefault(id(view), (view, number, offset + _start(view) - _start(base)))

    def _copied(self, source: torch.Tensor, target: torch.Tensor) -> None:
        views = [self._view(tensor) for tensor in (source, target)]
        self.fits = self.fits and None not in views and source.device == target.device
        self.steps.append(Copy(*views))

    def _view(self, tensor: Any) -> View | None:
        _, number, offset = self._places.get(id(tensor), (None, None, 0))
        if number is None or tensor.dtype != self._types[number]:
            return None
        return View(number, tuple(tensor.shape), tensor.stride(), offset // tensor.itemsize)

    def launched(self, launcher, found, args: tuple, raw: list) -> None:
        """Note a launch: what was called, what that led to, and what the kernel is passed."""
        places = []
        for position, value in enumerate(args):
            if isinstance(value, torch.Tensor):
                _, number, offset = self._places.get(id(value), (None, None, 0))
                places.append((position, number, offset))
        values = [None if isinstance(value, torch.Tensor) else raw[i] for i, value in enumerate(args)]
        self.fits = self.fits and found.is_replayable and all(number is not None for _, number, _ in places)
        self.steps.append(Launch(found, values, tuple(places)))
        self.launchers.append(launcher)
        self.precision = self.precision or found.precision


def is_recordable(tensor: torch.Tensor) -> bool:
    """Whether memory like a tensor's can be allocated by its sizes and strides alone: it has no room to spare."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    size = (last + 1) * tensor.itemsize
    return type(tensor) is torch.Tensor and tensor.numel() > 0 and tensor.untyped_storage().nbytes() == size


def _start(tensor: torch.Tensor) -> int:
    return tensor.storage_offset() * tensor.itemsize


class Replayed:
    """A function of tensors and plain values: the output of `allocate(*args)`, on which `launch(output, *args)` worked.

    Both may depend on nothing but types, shapes, strides, devices, alignment to 16 bytes, and the values of what is no
    tensor; `allocate` returns new tensors. `kept(*args)`, where given, is asked each time for a tensor that is computed
    from the arguments and kept elsewhere; `launch` gets it as the keyword `kept`.
    """

    def __init__(self, allocate: Callable, launch: Callable, kept: Callable | None = None):
        self._allocate = allocate if kept is None else lambda *args, kept, **kwargs: allocate(*args, **kwargs)
        self._launch = launch
        self._kept = kept
        self._calls = Calls()
        self._lock = threading.Lock()

    def __call__(self, *args, **kwargs):
        if self._kept is not None:
            kwargs["kept"] = self._kept(*args, **kwargs)
        flat, names = ((*args, *kwargs.values()), tuple(kwargs)) if kwargs else (args, ())
        found, raw = self._calls.find(flat, names)
        if RECORDER.get() is not None:  # What another recording is about to hold must happen as it is.
            found, raw = None, None
        if type(found) is Recording:
            return found.run(flat, raw)
        if found is SEEN:
            return self._record(args, names, flat)
        output = self._allocate(*args, **kwargs)
        self._launch(output, *args, **kwargs)
        if found is None and raw is not None:
            self._keep(flat, names, SEEN if _can_be_recorded(flat) else Unrecorded())
        return output

    def _record(self, args: tuple, names: tuple[str, ...], flat: tuple):
        # A tensor given twice may be two tensors the next time.
        flat = tuple(
            value.detach() if isinstance(value, torch.Tensor) and any(value is other for other in flat[:i]) else value
            for i, value in enumerate(flat)
        )
        args, kwargs = flat[: len(args)], dict(zip(names, flat[len(args) :], strict=True))
        output = self._allocate(*args, **kwargs)
        outputs = tuple(output) if isinstance(output, tuple | list) else (output,)
        tensors = {number: value for number, value in enumerate((*flat, *outputs)) if isinstance(value, torch.Tensor)}
        recorder = Recorder(tensors, len(flat) + len(outputs))
        token = RECORDER.set(recorder)
        try:
            with recorder:
                self._launch(output, *args, **kwargs)
        finally:
            RECORDER.reset(token)
        recording: Any = Unrecorded()
        if recorder.fits and type(output) in (torch.Tensor, tuple) and all(map(is_recordable, outputs)):
            recording = Recording(
                (*map(Allocation.of, outputs), *recorder.allocations),
                tuple(recorder.steps),
                None if isinstance(output, torch.Tensor) else len(outputs),
                recorder.precision,
            )
            for launcher in recorder.launchers:
                launcher.dependants.add(self._calls)
        self._keep(flat, names, recording)
        return output

    def _keep(self, flat: tuple, names: tuple[str, ...], found: Any) -> None:
        with self._lock:
            self._calls.keep(flat, names, found)


def _can_be_recorded(values: tuple) -> bool:
    """Whether all tensors are aligned, so that equal offsets into them are, and all else is told apart by its value."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    others = [value for value in values if not isinstance(value, torch.Tensor)]
    flat = [item for value in others for item in (value if type(value) in (list, tuple) else [value])]
    lists = [item for value in others if type(value) in (list, tuple) for item in value]
    return (
        bool(tensors)
        and all(tensor.data_ptr() % ALIGNMENT == 0 for tensor in tensors)
        and all(type(item) in _PLAIN for item in flat)
        and all(type(item) in (int, bool) for item in lists)
    )
