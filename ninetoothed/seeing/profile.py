"""Measure a call on a GPU, beside the least time that memory allows."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime.dispatch import launcher_of
from ninetoothed.runtime.selection import machine
from ninetoothed.runtime.selection.measuring import one_launch, preserved
from ninetoothed.runtime.summary import least_time

_ROUNDS = 50


@dataclass(frozen=True)
class Profile:
    """The times of a call in microseconds: measured (the median), and the least that memory allows.

    explanation: what was chosen, with its estimate, as `kernel.explain` tells it.
    """

    name: str
    times: tuple[float, ...]
    least: float
    explanation: str

    @property
    def median(self) -> float:
        """The median of the measured times."""
        return statistics.median(self.times)

    def __str__(self) -> str:
        part = f"{100 * self.least / self.median:.0f} % of what memory allows, which is {self.least:.3g} us"
        return f"{self.name}: {self.median:.3g} us (median of {len(self.times)}), {part}\n\n{self.explanation}"

    __repr__ = __str__

    def plot(self, path: str) -> None:
        """Draw the measured times and the bound of memory by matplotlib, to a file."""
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            raise UnsupportedError(
                "plots are drawn by matplotlib: `pip install ninetoothed-torch[visualization]`"
            ) from error
        figure = Figure(figsize=(6, 3.5), layout="constrained")
        axes = figure.add_subplot(title=self.name, xlabel="round", ylabel="us")
        axes.plot(self.times, ".", label="measured")
        axes.axhline(self.least, color="grey", label="memory allows")
        axes.set_ylim(bottom=0)
        axes.legend()
        figure.savefig(path)


def profile(
    kernel: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], clock: Callable[..., float] | None = None
) -> Profile:
    """Measure a call; see `Kernel.profile`. clock: gives the microseconds of a function; CUDA's events by default."""
    tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    if clock is None and not any(each.is_cuda for each in tensors):
        raise UnsupportedError("`profile` measures on a GPU; pass CUDA tensors (`explain` estimates without one)")
    print(f"{kernel.definition.name}: compiling and measuring {_ROUNDS} rounds", file=sys.stderr)
    with preserved(tensors):
        kernel(*args, **kwargs)
        times = tuple((clock or one_launch)(lambda: kernel(*args, **kwargs)) for _ in range(_ROUNDS))
    text = kernel.explain(*args, **kwargs)
    variant = launcher_of(kernel).trace(args, dict(kwargs))
    least = least_time(variant.program, variant.selection, machine.current() or machine.H200)
    return Profile(kernel.definition.name, times, least, str(text))
