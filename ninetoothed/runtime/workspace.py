"""Memory that a kernel needs beside its arguments: the workspace of a launch, and semaphores, which are zeros.

The workspace belongs to the launch. It is allocated for it from PyTorch on the stream of the launch, and let go as soon
as the launch is enqueued: whatever gets that memory next is enqueued on the same stream, so it runs after the launch.
PyTorch decides which pool it is from, and nothing of the pool outlives the launch: not under `torch.cuda.graph`, where
it is the graph's, nor in the run that Inductor makes inside the graph's pool before it captures, nor in a user's pool.

Semaphores would cost a kernel that zeros them, which takes a tenth of the time of a small product. Kernels leave them
at zero, so those of a stream are kept, outside of every private pool: launches on one stream run one after another, and
each finds zeros. A captured launch cannot share them, since its graph may be replayed on any stream, while others run.
It has zeros of its own, made within the graph at each replay: right also where another graph of the same pool, replayed
before, has used that memory for something else.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ninetoothed.backends.triton import Emitted
from ninetoothed.runtime.build.compile import LoadedKernel
from ninetoothed.runtime.guard_source import FunctionSource
from ninetoothed.runtime.memory import Allocation, outliving

# Bytes of which addresses in a workspace are multiples.
ALIGNMENT = 256


def with_workspace(
    kernel: LoadedKernel, emitted: Emitted, integers: Mapping[str, int], device: torch.device
) -> LoadedKernel | KernelWithWorkspace:
    """Wrap a loaded kernel so that each launch gets its workspace; a kernel that needs none is returned unchanged.

    integers: the values of the run-time sizes.
    """
    if not emitted.buffers:
        return kernel
    places, sizes = [], {False: 0, True: 0}
    for each in emitted.buffers:
        places.append((each.is_zeroed, sizes[each.is_zeroed]))
        size = each.count.evaluate(integers) * each.dtype.bits // 8
        sizes[each.is_zeroed] += -(-size // ALIGNMENT) * ALIGNMENT
    sources = [argument.source for argument in emitted.arguments]
    after = len(sources) - 1 - max(sources.index(each.name) for each in emitted.buffers)
    semaphores = _semaphores(device)
    workspace = Allocation((sizes[False],), (1,), torch.uint8, semaphores.device)
    return KernelWithWorkspace(kernel, workspace, sizes[True], tuple(places), after, semaphores)


@dataclass(frozen=True)
class KernelWithWorkspace:
    """A kernel that is launched on less than it takes: its workspace and its semaphores are put in here.

    count: bytes of semaphores. places: for each argument put in (whether it is a semaphore, bytes from the start of the
    workspace or of the semaphores). after: how many other arguments follow them.
    """

    kernel: LoadedKernel
    workspace: Allocation
    count: int
    places: tuple[tuple[bool, int], ...]
    after: int
    semaphores: Semaphores

    def __call__(self, programs: tuple[int, int, int], arguments: tuple, stream: int) -> None:
        cut = len(arguments) - self.after
        # Both tensors are held until the launch is enqueued.
        workspace, semaphores = self.workspace.make(), self.semaphores.on(stream, self.count)
        own = [(semaphores if is_zeroed else workspace).data_ptr() + start for is_zeroed, start in self.places]
        self.kernel(programs, (*arguments[:cut], *own, *arguments[cut:]), stream)

    def write(self, text: FunctionSource, programs: tuple[int, int, int], arguments: list[str], stream: str) -> None:
        """Write the same out; see `LoadedKernel.write`."""
        cut = len(arguments) - self.after
        text.add(f"stream = {stream}")
        text.add(f"workspace = {self.workspace.write(text, self.workspace.device.index)}")
        text.add(f"semaphores = {text.name(self.semaphores.on)}(stream, {text.name(self.count)})")
        own = [
            f"{'semaphores' if is_zeroed else 'workspace'}.data_ptr()" + (f" + {start}" if start else "")
            for is_zeroed, start in self.places
        ]
        self.kernel.write(text, programs, [*arguments[:cut], *own, *arguments[cut:]], "stream")


@dataclass(frozen=True)
class Semaphores:
    """Zeros of one device, kept by stream for launches that leave them zeros. For several threads at once.

    A launch holds the tensor that it gets until it is enqueued. So one that has become too small may be dropped while
    another thread is about to launch on it.
    """

    device: torch.device
    kept: dict[int, torch.Tensor] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def on(self, stream: int, count: int) -> torch.Tensor:
        """At least so many bytes of zeros for the next launch on a stream, which must be the current one."""
        if torch.cuda.is_current_stream_capturing():
            return self._zeros(count)
        held = self.kept.get(stream)
        if held is None or held.numel() < count:
            held = self._grown(stream, count)
        return held

    def _grown(self, stream: int, count: int) -> torch.Tensor:
        with self.lock:
            held = self.kept.get(stream)
            if held is None or held.numel() < count:
                # More than asked for, so that this is rare.
                size = max(1 << (count - 1).bit_length(), 4096)
                held = self.kept[stream] = outliving(functools.partial(self._zeros, size), self.device)
            return held

    def _zeros(self, count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=torch.uint8, device=self.device)


@functools.cache
def _semaphores(device: torch.device) -> Semaphores:
    return Semaphores(device)
