"""Memory that kernels need beside their arguments: kept for the next launch on the same stream, which comes after."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ninetoothed.backends.triton import Emitted
from ninetoothed.runtime.compile import Loaded
from ninetoothed.runtime.written import Text


def attached(kernel: Loaded, emitted: Emitted, integers: Mapping[str, int], device: int) -> Loaded | WithScratch:
    """The loaded kernel, which from now on brings the scratch among its arguments itself; as it is if it has none.

    integers: the values of the run-time sizes.
    """
    if not emitted.scratch:
        return kernel
    sizes = tuple((each.count.evaluate(integers) * each.dtype.bits // 8, each.is_zeroed) for each in emitted.scratch)
    sources = [argument.source for argument in emitted.arguments]
    after = len(sources) - 1 - max(sources.index(each.name) for each in emitted.scratch)
    return WithScratch(kernel, sizes, after, _pool(device))


@dataclass(frozen=True)
class WithScratch:
    """sizes: (bytes, whether they must be zeros) of each scratch argument; `after` other arguments follow them."""

    kernel: Loaded
    sizes: tuple[tuple[int, bool], ...]
    after: int
    pool: Pool

    def __call__(self, programs: tuple[int, int, int], arguments: tuple, stream: int) -> None:
        cut = len(arguments) - self.after
        own = self.pool.addresses(stream, self.sizes)
        self.kernel(programs, (*arguments[:cut], *own, *arguments[cut:]), stream)

    def write(self, text: Text, programs: tuple[int, int, int], arguments: list[str], stream: str) -> None:
        """Write the same out; see `Loaded.write`."""
        cut = len(arguments) - self.after
        own = f"*{text.name(self.pool.addresses)}({stream}, {text.name(self.sizes)})"
        self.kernel.write(text, programs, [*arguments[:cut], own, *arguments[cut:]], stream)


@dataclass(frozen=True)
class Pool:
    """The scratch of one device, by stream, place and whether it must be zeros. Whoever gets zeros leaves zeros.

    For several threads at once. What has become too small is kept as well: another thread may be about to launch on it.
    """

    device: torch.device
    kept: dict[tuple[int, int, bool], torch.Tensor] = field(default_factory=dict)
    outgrown: list[torch.Tensor] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def addresses(self, stream: int, sizes: tuple[tuple[int, bool], ...]) -> list[int]:
        """Where scratch of these sizes lies, for the next launch on a stream, which must be the current one."""
        if torch.cuda.is_current_stream_capturing():
            # Replays may run on any stream: each captured launch has memory of its graph, which whatever is captured
            # after it may use again, but no part of its own scratch: so all are made before any is let go.
            made = [self._new(count, is_zeroed) for count, is_zeroed in sizes]
            return [tensor.data_ptr() for tensor in made]
        found = []
        for place, (count, is_zeroed) in enumerate(sizes):
            held = self.kept.get((stream, place, is_zeroed))
            if held is None or held.numel() < count:
                held = self._grown((stream, place, is_zeroed), count)
            found.append(held.data_ptr())
        return found

    def _grown(self, key: tuple[int, int, bool], count: int) -> torch.Tensor:
        """At least twice as much as before, so that all that is outgrown is no more than what is kept."""
        with self.lock:
            held = self.kept.get(key)
            if held is None or held.numel() < count:
                self.outgrown.extend([] if held is None else [held])
                held = self.kept[key] = self._new(1 << (count - 1).bit_length(), key[2])
            return held

    def _new(self, count: int, is_zeroed: bool) -> torch.Tensor:
        make = torch.zeros if is_zeroed else torch.empty
        return make(count, dtype=torch.uint8, device=self.device)


@functools.cache
def _pool(device: int) -> Pool:
    return Pool(torch.device("cuda", device))
