"""Memory that a call allocates, and memory that outlives it.

PyTorch may allocate from a private pool of this thread: that of a CUDA graph, in the run before its capture too, or one
that a user has made. Such a pool must get back all that is no output of what runs in it, or it is never free again, and
Inductor refuses it. So a call lets go of what it allocates, and what it keeps for later calls comes from `outliving`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from ninetoothed.runtime.guard_source import FunctionSource

try:  # Inductor's, for the current GPU: in half the time, and no public part of PyTorch.
    from torch._C._dynamo.guards import _empty_strided_cuda
except ImportError:
    _empty_strided_cuda = None


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
        """Allocate it."""
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=self.device)

    def write(self, text: FunctionSource, current: int | None) -> str:
        """Write the expression that allocates it, for a function that runs while `current` is the current GPU."""
        size, stride, dtype = map(text.name, (self.size, self.stride, self.dtype))
        if self.device.index is not None and self.device.index == current and _empty_strided_cuda is not None:
            return f"{text.name(_empty_strided_cuda)}({size}, {stride}, {dtype})"
        return f"{text.name(torch.empty_strided)}({size}, {stride}, dtype={dtype}, device={text.name(self.device)})"


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
