"""Measure a call on a GPU, beside the roofline and what the formula estimates."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime.dispatch import launcher_of
from ninetoothed.runtime.estimates import Estimates, microseconds
from ninetoothed.runtime.selection import machine
from ninetoothed.runtime.selection.measuring import one_launch, preserved

_ROUNDS = 50


@dataclass(frozen=True)
class Profile:
    """The times of a call in microseconds.

    times: those measured. least: the roofline, what moving the tensors once and multiplying take at least. estimate:
    of the formula; None where it models nothing. explanation: what was chosen, as `kernel.explain` tells it.
    """

    name: str
    times: tuple[float, ...]
    least: float
    estimate: float | None
    explanation: str

    @property
    def median(self) -> float:
        """The median of the measured times."""
        return statistics.median(self.times)

    def __str__(self) -> str:
        part = f"{100 * self.least / self.median:.0f} % of the roofline, which is {microseconds(self.least)}"
        guess = "" if self.estimate is None else f", estimated {microseconds(self.estimate)}"
        time = f"{microseconds(self.median)} (median of {len(self.times)}){guess}"
        return f"{self.name}: {time}, {part}\n\n{self.explanation}"

    __repr__ = __str__

    def plot(self, path: str) -> None:
        """Draw the measured times, the estimate and the roofline by matplotlib, to a file."""
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            raise UnsupportedError(
                "plots are drawn by matplotlib: `pip install ninetoothed-torch[visualization]`"
            ) from error
        figure = Figure(figsize=(6, 3.5), layout="constrained")
        axes = figure.add_subplot(title=self.name, xlabel="round", ylabel="us")
        axes.plot(self.times, ".", label="measured")
        axes.axhline(self.least, color="grey", label="roofline")
        if self.estimate is not None:
            axes.axhline(self.estimate, color="tab:orange", linestyle="--", label="estimate")
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
    gpu = machine.current() or machine.H200
    estimates = Estimates(variant.selection, gpu)
    estimate = estimates.of(variant.selection.schedule)
    guess = None if estimate is None else estimate.time
    return Profile(kernel.definition.name, times, estimates.roofline().time, guess, str(text))
