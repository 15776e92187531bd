"""List the programs of the guard: calls of kernels that other parts of this repository generate, and mistakes.

Nothing is generated here. Where a generator calls kernels itself, its calls are caught and not run.
"""

from __future__ import annotations

import contextlib
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch


@dataclass(frozen=True)
class Call:
    """A call of a kernel. group: calls of one group are made one after another, and their variants are counted.

    is_run: whether it is run on the CPU, too: its arguments are small, and its outputs filled.
    is_told: whether its text is asked for, for each GPU; otherwise it only counts among those of its group.
    is_shipped: whether it is asked of every GPU, those too that differ from another by their sizes alone.
    """

    name: str
    kernel: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    group: str = ""
    is_run: bool = False
    is_told: bool = True
    is_shipped: bool = False


@dataclass(frozen=True)
class Attempt:
    """Something that may be a mistake: what is said of it is recorded."""

    name: str
    run: Callable[[], object]


Program = Call | Attempt

# -- kernels that are shipped --

_LESS = {
    "images": (1, 8, 4, 49),
    "rope": (1, 1, 32, 128),
    "rope_into_cache": (2, 1, 8, 4, 128, 4096),
    "conv2d": (1, 64, 56, 56, 64),
}
SIZES: dict[str, dict[str, Any]] = {
    # One token of a model of 8 billion parameters; some tokens of it.
    "decoding": {
        "vector": 14336, "rows": (1, 4096), "mm": (1, 4096, 14336), "bmm": (8, 1, 128, 1024), "sdpa": (1, 32, 16, 128),
        **_LESS,
    },
    "few rows": {
        "vector": 3 * 2**20, "rows": (48, 8192), "mm": (48, 4096, 4096), "bmm": (4, 24, 512, 4096),
        "conv2d": (2, 24, 28, 28, 96), "rope": (3, 40, 8, 80), "rope_into_cache": (5, 3, 4, 2, 64, 500),
        "sdpa": (1, 8, 300, 80), "images": (1, 32, 4, 49),
    },
    # A last wave that is not full, and long rows.
    "odd": {
        "vector": 2**20 + 1, "rows": (1000, 20001), "mm": (2304, 2304, 1999), "bmm": (3, 1000, 1000, 1000),
        "conv2d": (8, 3, 224, 224, 64), "rope": (2, 333, 6, 96), "rope_into_cache": (3, 5, 2, 3, 96, 1000),
        "sdpa": (2, 3, 1000, 96), "images": (3, 5, 7, 1023),
    },
    # Long sums of few tiles, and tiles beyond whole waves.
    "deep": {
        "vector": 2**31 + 64, "rows": (65536, 128), "mm": (512, 512, 16384), "bmm": (2, 256, 256, 8192),
        "conv2d": (1, 2048, 7, 7, 512), "rope": (8, 2048, 32, 128), "rope_into_cache": (16, 1, 8, 4, 128, 8192),
        "sdpa": (1, 16, 8192, 128), "images": (1, 4, 2, 2**20),
    },
    "uneven": {
        "vector": 12345, "rows": (300, 3000), "mm": (1536, 3072, 4096), "bmm": (5, 640, 896, 2048),
        "conv2d": (16, 256, 14, 14, 256), "rope": (1, 77, 12, 64), "rope_into_cache": (4, 2, 1, 8, 64, 77),
        "sdpa": (3, 5, 77, 40), "images": (2, 8, 40, 300),
    },
}  # fmt: skip
HALF, BRAIN, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
GRID = (("large", HALF), ("large", SINGLE), ("small", SINGLE), ("decoding", HALF), ("odd", HALF))
OF_PRODUCTS = (("few rows", HALF), ("deep", HALF), ("uneven", HALF), ("large", BRAIN), ("decoding", BRAIN))
OF_PRODUCTS += (("small", DOUBLE),)


def kernels(quick: bool) -> Iterator[Program]:
    """Every kernel of `ninetoothed_ops`, over sizes and types."""
    from tests.ninetoothed_ops.kernels import calls

    names = (*calls.NAMES, *calls.OPTIONS, *calls.GRADIENTS)
    sizes = {"large": calls.LARGE, "small": calls.SMALL, **SIZES}
    for name in names:
        is_product = any(part in name for part in ("mm", "conv2d", "linear", "sdpa"))
        for size, dtype in GRID[:1] if quick else GRID + OF_PRODUCTS if is_product else GRID:
            yield from _kernel(calls, name, sizes[size], size, dtype)


def _kernel(calls: Any, name: str, sizes: dict[str, Any], size: str, dtype: torch.dtype) -> Iterator[Program]:
    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype)

    def make() -> tuple[Any, tuple[Any, ...]]:
        return calls.call(name, empty, sizes)

    kind = str(dtype).removeprefix("torch.")
    try:
        kernel, args = make()
    except Exception:
        yield Attempt(f"kernels: {name} {size} {kind}, made", make)
    else:
        yield Call(f"kernels: {name} {size} {kind}", kernel, args, group=f"kernels: {name} {kind}", is_shipped=True)


# -- calls that are caught --


@contextlib.contextmanager
def catching() -> Iterator[list[tuple[Any, tuple[Any, ...], dict[str, Any]]]]:
    """Let calls of kernels do nothing but be noted."""
    caught: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def note(kernel: Any, *args: Any, **kwargs: Any) -> None:
        caught.append((kernel, args, kwargs))

    with mock.patch.object(sys.modules["ninetoothed.make"].Kernel, "__call__", note):
        yield caught


def caught_in(run: Callable[[], object]) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """The calls that something makes; what it says of results that nobody computed is of no interest."""
    torch.manual_seed(0)
    with catching() as calls, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(Exception):
            run()
    return calls


def shown(value: Any) -> str:
    """Name an argument in a word."""
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        offset = value.storage_offset() if value.layout is torch.strided else 0
        strides = value.stride() if value.layout is torch.strided and not value.is_contiguous() else ""
        return (
            f"{kind}{list(value.shape)}" + (f"/{list(strides)}" if strides else "") + (f"+{offset}" if offset else "")
        )
    return repr(value) if isinstance(value, int | float | str | bool | None) else type(value).__name__


def distinct(part: str, calls: list[Any], **options: Any) -> Iterator[Program]:
    """The calls of shipped kernels, each signature once."""
    for kernel, args, kwargs in calls:
        signature = ", ".join([*map(shown, args), *(f"{name}={shown(value)}" for name, value in kwargs.items())])
        name = f"{part}: {kernel.definition.name}({signature})"
        yield Call(name, kernel, args, kwargs, **options)


def operators(quick: bool) -> Iterator[Program]:
    """Random calls of operators, of odd sizes, strides and offsets."""
    from benchmarks.trust import operators

    for seed in range(1 if quick else 10):
        yield from distinct("operators", caught_in(lambda seed=seed: list(operators.cases(seed))))


def gradients(quick: bool) -> Iterator[Program]:
    """A call of every operator, and all that its gradients lead to."""
    from tests.ninetoothed_ops import every

    if not quick:
        yield from distinct("gradients", caught_in(lambda: every.samples.__wrapped__(SINGLE)))


def examples(quick: bool) -> Iterator[Program]:
    """The kernels of the examples, by the first call of each check."""
    from benchmarks.gallery import files
    from tests.examples import test_linear_cross_entropy

    runs = [lambda check=each.module.check: next(check("cpu")) for each in files.examples()]
    sizes = (35,) if quick else (35, 333)
    runs += [lambda size=size: test_linear_cross_entropy.test_linear_cross_entropy(size) for size in sizes]
    for run in runs:
        yield from distinct("examples", caught_in(run), is_shipped=True)


def _numbered(part: str, seed: int, calls: list[Any], told: int) -> Iterator[Program]:
    """The calls of one seed: the first of each kernel are told, all are run and counted."""
    seen: dict[int, int] = {}
    for kernel, args, kwargs in calls:
        place = list(seen).index(id(kernel)) if id(kernel) in seen else len(seen)
        number = seen[id(kernel)] = seen.get(id(kernel), 0) + 1
        group = f"{part}: seed {seed}" + (f" kernel {place}" if place else "")
        yield Call(f"{group} call {number - 1}", kernel, args, kwargs, group, True, number <= told)


def applications(quick: bool) -> Iterator[Program]:
    """Random applications over random arrangements."""
    from benchmarks.trust import applications

    for seed in range(12 if quick else 112):
        calls = caught_in(lambda seed=seed: list(applications.cases(seed)))
        yield from _numbered("applications", seed, calls[: 6 if seed % 4 == 0 else 1], 1)


def races(quick: bool) -> Iterator[Program]:
    """Random stores of programs that may meet."""
    from benchmarks.trust import races

    for seed in range(3 if quick else 60):
        yield from _numbered("races", seed, caught_in(lambda seed=seed: list(races.cases(seed))), 1)


def fusions(quick: bool) -> Iterator[Program]:
    """Random pairs of kernels, and one kernel of both."""
    from benchmarks.trust import fusions

    for seed in range(2 if quick else 50):
        yield from _numbered("fusions", seed, caught_in(lambda seed=seed: fusions.check(seed))[2:], 1)


def programs(quick: bool) -> Iterator[Program]:
    """Random loops, branches and helpers over integers."""
    from benchmarks.trust import programs

    for seed in range(3 if quick else 30):
        _, application = programs.write(seed)
        x = programs.inputs()
        args = (x, random.Random(seed).randint(-3, 9), torch.full_like(x, 77))
        yield Call(f"programs: seed {seed}", programs.make(application), args, is_run=True)


def functions(quick: bool) -> Iterator[Program]:
    """Every function of the language, with one of its types each."""
    from benchmarks.types import cases

    listed: dict[str, list[Any]] = {}
    for case in cases.cases():
        listed.setdefault(case.row.name, []).append(case)
    for number, of_row in enumerate(listed.values()):
        if number % (40 if quick else 1) == 0:
            case = of_row[number * 7 % len(of_row)]
            yield Attempt(f"functions: {case}, made", case.kernel)
            with warnings.catch_warnings(), contextlib.suppress(Exception):
                warnings.simplefilter("ignore")
                kernel, args = case.kernel()
                yield Call(f"functions: {case}", kernel, tuple(args))


# -- mistakes --


def mistakes(quick: bool) -> Iterator[Program]:
    """Applications, arrangements and calls that are refused."""
    from benchmarks.trust import errors

    attempts = [*errors.of_applications(), *errors.of_arrangements(), *errors.of_calls()]
    for name, attempt, _ in attempts[:: 8 if quick else 1]:
        yield Attempt(f"mistakes: {name}", attempt)


def misuse(quick: bool) -> Iterator[Program]:
    """Random mistakes of all kinds."""
    from benchmarks.trust import misuse

    attempts: list[Callable[[], object]] = []

    def told(attempt: Callable[[], object], *_: Any, **__: Any) -> str:
        attempts.append(attempt)
        return ""

    for seed in range(1 if quick else 6):
        attempts.clear()
        with mock.patch.object(misuse, "told", told):
            cases = list(misuse.cases(seed))
        for number, (case, attempt) in enumerate(zip(cases, attempts, strict=True)):
            yield Attempt(f"misuse: seed {seed}, {number}: {case.description}", attempt)


PARTS: tuple[Callable[[bool], Iterator[Program]], ...] = (
    kernels, operators, gradients, examples, applications, races, fusions, programs, functions, mistakes, misuse,
)  # fmt: skip
