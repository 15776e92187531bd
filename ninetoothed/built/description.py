"""The description of what was built: kernels, and of each the variants, as the manifest has them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ninetoothed.built.formula import Formula, condition, read


@dataclass(frozen=True)
class BuiltArgument:
    """The class of an argument that a variant takes.

    role: "tensor", "scalar", "constant" or "absent", as in a specialisation. dtype: of its elements, or of the number.
    aligned: whether its address has to be a multiple of 16 bytes. stored: whether it is written to.
    value: of a constant, the number. optional: whether a call may leave it out.
    """

    name: str
    role: str
    dtype: str | None = None
    rank: int = 0
    aligned: bool = False
    stored: bool = False
    value: bool | int | float | None = None
    optional: bool = False

    @property
    def touched(self) -> bool:
        return self.role != "absent"


@dataclass(frozen=True)
class Passed:
    """A parameter of the machine code, in order.

    role: "pointer" or "scalar" of a call's `argument`; "integer" with the number `value`; "workspace" or "semaphores"
    with the bytes `value` from their start; "descriptor" of an argument, with sizes, strides, block and what the
    encoder of the driver takes; "null".
    bits: the width of a number. is_float, is_unsigned: its kind.
    """

    role: str
    argument: int = 0
    value: Formula = 0
    bits: int = 64
    is_float: bool = False
    is_unsigned: bool = True
    sizes: tuple[Formula, ...] = ()
    strides: tuple[Formula, ...] = ()
    block: tuple[int, ...] = ()
    swizzle: int = 0
    element_type: int = 0
    element_size: int = 0


@dataclass(frozen=True)
class Separate:
    """Two arguments that may not share memory, of which the first is written to; in place only where that is told."""

    output: int
    other: int
    in_place: bool


@dataclass(frozen=True)
class BuiltVariant:
    """Machine code for a class of calls on one GPU, and how it is launched.

    parameters: the values of what chooses between configurations. constants: those of constexpr symbols.
    architecture: as Triton calls it, 90 for sm_90. multiprocessors: of the GPU that it was chosen for.
    function: its name in the file `cubin`. guards: what must hold of sizes and strides.
    grid: the programs along each axis; most: the most along the first for each multiprocessor, where fewer will do.
    workspace, semaphores: bytes that the caller provides, the latter zeros. separate: see `Separate`.
    precision: that of float32 products, where it matters. facts: how much is known of its calls; sample: the sizes of
    the one that it was chosen for. schedule: as `explain` shows it. identity: that of its kernel, see `identity`.
    """

    kernel: str
    parameters: Mapping[str, Any]
    constants: Mapping[str, int]
    gpu: str
    architecture: int
    multiprocessors: int
    function: str
    cubin: str
    arguments: tuple[BuiltArgument, ...]
    guards: tuple[Formula, ...]
    grid: tuple[Formula, Formula, Formula]
    passed: tuple[Passed, ...]
    threads: int
    shared: int
    most: int = 0
    workspace: Formula = 0
    semaphores: Formula = 0
    separate: tuple[Separate, ...] = ()
    precision: str | None = None
    facts: int = 0
    sample: Mapping[str, int] = dataclasses.field(default_factory=dict)
    schedule: str = ""
    identity: str = ""

    @cached_property
    def holds(self) -> Callable[[Mapping[str, int]], bool]:
        """Tell whether all guards hold, for sizes and strides by name; `KeyError` where a call lacks one."""
        return condition(self.guards)

    def most_programs(self, multiprocessors: int) -> int:
        """Return the most programs along the first axis on a GPU; 0 for any number."""
        return math.ceil(self.most * multiprocessors / self.multiprocessors) if self.most else 0

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON's values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> BuiltVariant:
        """Read a description; `ValueError`, `TypeError` or `KeyError` where it is none."""
        grid = tuple(map(read, value["grid"]))
        if len(grid) != 3:
            raise ValueError("a grid has three axes")
        return cls(
            **{
                **value,
                "arguments": tuple(BuiltArgument(**each) for each in value["arguments"]),
                "guards": tuple(map(read, value["guards"])),
                "grid": grid,
                "passed": tuple(map(_passed, value["passed"])),
                "workspace": read(value["workspace"]),
                "semaphores": read(value["semaphores"]),
                "separate": tuple(Separate(**each) for each in value["separate"]),
            }
        )


def arguments_of(variants: Iterable[BuiltVariant]) -> tuple[BuiltArgument, ...]:
    """Return the arguments of a kernel: of each that of the first variant which touches it, if any does."""
    columns = zip(*(each.arguments for each in variants), strict=True)
    return tuple(next((each for each in column if each.touched), column[0]) for column in columns)


def _passed(value: dict[str, Any]) -> Passed:
    return Passed(
        **{
            **value,
            "value": read(value["value"]),
            "sizes": tuple(map(read, value["sizes"])),
            "strides": tuple(map(read, value["strides"])),
            "block": tuple(value["block"]),
        }
    )


def as_written(value: Any) -> Any:
    """Return the value of a configuration as the manifest has it: numbers, texts and None as they are."""
    return value if isinstance(value, bool | int | float | str | None) else str(value).removeprefix("torch.")
