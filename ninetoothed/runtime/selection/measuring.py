"""Measure candidates: compile them in threads, time a few launches of each, and many of the two best."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from ninetoothed.errors import CompilationError
from ninetoothed.runtime.selection.machine import Machine

# Launches of each candidate, and of each of the two best.
FEW, MANY = 5, 20

Candidate = TypeVar("Candidate")
# It puts back the tensors that a launch has changed.
Restore = Callable[[], None]


def compile_all(candidates: Sequence[Any], compile: Callable[[Any], Any]) -> list[Any]:
    """Return the candidates as `compile` compiles them, in threads, less those that fail and those that spill.

    Where all spill, those that spill least are left.
    """

    def attempt(candidate: Any) -> tuple[Any, int] | None:
        try:
            made = compile(candidate)
            return made, made.compiled.spills
        except CompilationError:
            return None

    with ThreadPoolExecutor(min(len(candidates), os.cpu_count() or 1)) as pool:
        made = [result for result in pool.map(attempt, candidates) if result is not None]
    least = min((spills for _, spills in made), default=0)
    return [variant for variant, spills in made if spills == least]


def fastest(
    runs: Mapping[Candidate, Callable[[], None]], clock: Callable[[Callable[[], None], int], float]
) -> dict[Candidate, float]:
    """Return the seconds of each candidate, the best first; the two best are measured again.

    clock: `clock(run, repetitions)` measures.
    """
    rough = {candidate: clock(run, FEW) for candidate, run in runs.items()}
    best = sorted(rough, key=rough.__getitem__)[:2]
    again = {candidate: clock(runs[candidate], MANY) for candidate in best} if len(best) > 1 else {}
    seconds = {**rough, **again}
    return {candidate: seconds[candidate] for candidate in sorted(seconds, key=lambda c: (c not in best, seconds[c]))}


@contextmanager
def preserved(tensors: Sequence[torch.Tensor]) -> Iterator[Restore]:
    """Give a function that puts tensors back as they were; they are put back at the end, too.

    Autograd sees none of it: what was saved for a backward pass is as it was.
    """
    with torch.inference_mode():
        kept = [(tensor.data, tensor.clone()) for tensor in tensors]

    def restore() -> None:
        with torch.inference_mode():
            for tensor, value in kept:
                tensor.copy_(value)

    try:
        yield restore
    finally:
        restore()


class Clock:
    """Measures launches on the current stream of the current GPU, the L2 cache emptied before each."""

    def __init__(self, gpu: Machine, before: Restore):
        self._before = before
        self._flushed = torch.empty(2 * gpu.l2, dtype=torch.int8, device="cuda")

    def __call__(self, run: Callable[[], None], repetitions: int) -> float:
        """Return the median of the seconds that a launch takes."""
        self._before()
        run()  # loads the kernel
        spans = []
        for _ in range(repetitions):
            self._before()
            self._flushed.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            spans.append((start, end))
        spans[-1][1].synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in spans) / 1000


def one_launch(run: Callable[[], None]) -> float:
    """Measure the microseconds of what is launched, once, by events on the stream."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return 1e3 * start.elapsed_time(end)
