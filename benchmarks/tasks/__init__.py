"""The evaluated operations, one file each: what PyTorch calls it, on which arguments, and how much work that is.

A case is a function of `r`, which makes a random tensor of a shape, to `(arguments, keyword arguments)`. Every task has
the cases `paper` (the paper's own sizes), `quick` (a smoke test) and `cpu` (what a laptop should do at once).
"""

import importlib
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

NAMES = ("add", "addmm", "bmm", "conv2d", "mm", "rms_norm", "rope", "sdpa", "silu", "softmax")
# Beyond the paper, and without a twin in Triton: measured where asked for.
MORE = tuple(sorted({path.stem for path in pathlib.Path(__file__).parent.glob("[!_]*.py")} - set(NAMES)))


@dataclass(frozen=True)
class Task:
    """One operation of the evaluation; `products` counts the multiplications and additions of matrix units.

    `title` says the shapes of the case `paper`, `note` what a reader of its figures must know.
    """

    name: str
    title: str
    eager: Callable
    cases: Mapping[str, Callable]
    products: Callable[..., int] = lambda *args, **kwargs: 0
    note: str = ""


@dataclass(frozen=True)
class Work:
    """The least that an operation must do: operations on the matrix units, and bytes to and from memory."""

    operations: int
    bytes: int

    def floor(self, ceilings):
        """Seconds below which no implementation can go on a device with these ceilings."""
        return max(self.operations / ceilings.operations, self.bytes / ceilings.bytes)


def load(name):
    """The task of an operation's name."""
    return importlib.import_module(f"benchmarks.tasks.{name}").TASK


def arguments(task, case, dtype, device, seed=0):
    """Random `(arguments, keyword arguments)` of one case."""
    generator = torch.Generator(device).manual_seed(seed)
    return task.cases[case](lambda *shape: torch.randn(shape, generator=generator, dtype=dtype, device=device))


def work(task, args, kwargs, result):
    """Each input read once, each output written once, and the products that cannot be avoided."""
    tensors = [value for value in (*args, *kwargs.values(), result) if isinstance(value, torch.Tensor)]
    return Work(task.products(*args, **kwargs), sum(tensor.numel() * tensor.element_size() for tensor in tensors))


def reference(task, args, kwargs):
    """The operation in float64, as PyTorch computes it."""

    def double(value):
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return task.eager(*map(double, args), **{key: double(value) for key, value in kwargs.items()})


def relative_error(actual, expected):
    """The distance of `actual` from `expected`, in the norm, over the norm of `expected`; the largest of several."""
    if isinstance(expected, tuple):
        return max(relative_error(*pair) for pair in zip(actual, expected, strict=True))
    return ((actual.double() - expected).norm() / expected.norm()).item()
