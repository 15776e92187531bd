"""Allocate memory for a call: outputs, and the workspace that a kernel needs beside its arguments.

The workspace of a kernel belongs to the launch. It is allocated for it from PyTorch on the stream of the launch, and
let go as soon as the launch is enqueued: whatever gets that memory next is enqueued on the same stream, so it runs
after the launch. PyTorch decides which pool it is from, and nothing of the pool outlives the launch. A private pool,
which is that of a CUDA graph (in the run that Inductor makes before its capture too) or one that a user has made, must
get back all that is no output of what runs in it, or it is never free again. What is kept for later calls comes from
`outliving`.

Semaphores are zeros. They would cost a kernel that zeros them, which takes a tenth of the time of a small product.
Kernels leave them at zero, so those of a stream are kept, outside of every private pool: launches on one stream run one
after another, and each finds zeros. A captured launch cannot share them, since its graph may be replayed on any stream,
while others run. It gets zeros that no other launch ever gets, out of a reserve that is made before: a graph is
replayed one time after another, and leaves zeros for the next. One that runs low is followed by another at the next
launch that is not captured. Where it is used up, or nothing was launched before the capture, zeros are made within the
graph at each replay, which costs that kernel. Who makes one graph after another lends each the same zeros.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch

from ninetoothed.backends.triton import Emitted

# Addresses in a workspace are multiples of this many bytes.
ALIGNMENT = 256
# Bytes of zeros for captured launches, which take some hundreds each.
RESERVE = 1 << 20


@dataclass(frozen=True)
class Allocation:
    """Memory that a call allocates, of a layout."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Allocation:
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device)


def outliving(make: Callable[[], torch.Tensor], device: torch.device) -> torch.Tensor:
    """Call `make` for a tensor that is kept: its memory is in no private pool, whichever this thread allocates from.

    Pools are those of threads, so another thread calls it, on this one's current stream. Not while a graph is captured
    there: its kernels would not run before the graph does.
    """
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None

    def on_stream() -> torch.Tensor:
        with torch.cuda.stream(stream):
            return make()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(on_stream).result()


def zeros_to_lend(device: torch.device) -> torch.Tensor:
    """Make zeros for the captured launches of one graph at a time; see `lending`."""
    return outliving(functools.partial(torch.zeros, RESERVE, dtype=torch.uint8, device=device), device)


def lending(zeros: torch.Tensor) -> contextlib.AbstractContextManager[None]:
    """Let launches that this thread captures meanwhile take their zeros of these, as far as they go.

    Launches leave zeros: these may be lent anew once the graph runs no more.
    """
    return _semaphores(zeros.device).lending(zeros)


@dataclass(frozen=True)
class Workspace:
    """The memory that a launch takes beside its arguments, and where it goes among those of the kernel.

    count: bytes of semaphores. places: for each argument put in (whether it is a semaphore, bytes from the start of the
    allocation or of the semaphores). after: how many other arguments follow them.
    """

    allocation: Allocation
    count: int
    places: tuple[tuple[bool, int], ...]
    after: int
    semaphores: Semaphores


def workspace_of(emitted: Emitted, integers: Mapping[str, int], device: torch.device) -> Workspace | None:
    """Return the workspace of a kernel's launches; None where they need none.

    integers: the values of the run-time sizes.
    """
    if not emitted.buffers:
        return None
    places, sizes = [], {False: 0, True: 0}
    for each in emitted.buffers:
        places.append((each.is_zeroed, sizes[each.is_zeroed]))
        size = each.count.evaluate(integers) * each.dtype.bits // 8
        sizes[each.is_zeroed] += -(-size // ALIGNMENT) * ALIGNMENT
    sources = [argument.source for argument in emitted.arguments]
    after = len(sources) - 1 - max(sources.index(each.name) for each in emitted.buffers)
    return in_places((sizes[False], sizes[True]), tuple(places), after, device)


def in_places(
    sizes: tuple[int, int], places: tuple[tuple[bool, int], ...], after: int, device: torch.device
) -> Workspace:
    """Make the workspace of launches that take so many bytes, and so many of semaphores; see `Workspace`."""
    semaphores = _semaphores(device)
    allocation = Allocation((sizes[0],), (1,), torch.uint8, semaphores.device)
    return Workspace(allocation, sizes[1], places, after, semaphores)


@dataclass(frozen=True)
class Semaphores:
    """Keep zeros of one device by stream, for launches that leave them zeros. For several threads at once.

    PyTorch has few streams, 32 of each priority, so few are kept.

    reserve: what is left of the zeros for captured launches, the newest last; graphs write into what was taken of each.

    A launch holds the tensor that it gets until it is enqueued. So one that has become too small may be dropped while
    another thread is about to launch on it.
    """

    device: torch.device
    kept: dict[int, torch.Tensor] = field(default_factory=dict)
    reserve: list[torch.Tensor] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)
    lent: Any = field(default_factory=threading.local)

    @contextlib.contextmanager
    def lending(self, zeros: torch.Tensor) -> Iterator[None]:
        self.lent.zeros = zeros
        try:
            yield
        finally:
            del self.lent.zeros

    def on(self, stream: int, count: int) -> torch.Tensor:
        """Return at least so many bytes of zeros for the next launch on a stream, which must be the current one."""
        if torch.cuda.is_current_stream_capturing():
            return self._taken(count)
        held = self.kept.get(stream)
        if held is None or held.numel() < count:
            held = self._grown(stream, count)
        return held

    def _taken(self, count: int) -> torch.Tensor:
        """Take zeros that only the launch that is being captured will have."""
        size = -(-count // ALIGNMENT) * ALIGNMENT
        lent = getattr(self.lent, "zeros", None)
        if lent is not None and lent.numel() >= size:
            taken, self.lent.zeros = lent[:size], lent[size:]
            return taken
        with self.lock:
            if self.reserve and self.reserve[-1].numel() >= size:
                taken, self.reserve[-1] = self.reserve[-1][:size], self.reserve[-1][size:]
                if self._is_low:
                    self.kept.clear()  # Who launches next will look after the reserve, too.
                return taken
        return self._zeros(count)

    @property
    def _is_low(self) -> bool:
        return not self.reserve or self.reserve[-1].numel() < RESERVE // 2

    def _grown(self, stream: int, count: int) -> torch.Tensor:
        with self.lock:
            held = self.kept.get(stream)
            if held is None or held.numel() < count:
                # More than asked for, so that this is rare.
                size = max(1 << (count - 1).bit_length(), 4096)
                held = self.kept[stream] = outliving(functools.partial(self._zeros, size), self.device)
            if self._is_low:
                self.reserve.append(outliving(functools.partial(self._zeros, RESERVE), self.device))
                if self.device.type == "cuda":  # A graph may be replayed on a stream that waits for nothing.
                    torch.cuda.current_stream(self.device).synchronize()
            return held

    def _zeros(self, count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=torch.uint8, device=self.device)


@functools.cache
def _semaphores(device: torch.device) -> Semaphores:
    return Semaphores(device)
