"""Launches that lack nothing but this call's pointers and scalars: what an exact signature leads to.

`run(args, raw)` gets the arguments of a call and, for each, what a kernel is passed: the address of a tensor, or the
number itself. Where `is_replayable`, it looks at `raw` alone, so that a recording can do without the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import torch

from ninetoothed.backends import torch as evaluator, triton
from ninetoothed.definition import KernelDefinition
from ninetoothed.runtime import descriptors
from ninetoothed.runtime.arguments import Call, is_read_by_host
from ninetoothed.runtime.compile import Compiled, Loaded, compile_kernel
from ninetoothed.runtime.task import PACKED_WARPS
from ninetoothed.runtime.variants import Variant


@dataclass(frozen=True)
class Nothing:
    """A launch of no programs."""

    precision: None = None
    is_replayable: ClassVar[bool] = True

    def run(self, args: tuple, raw: list) -> None:
        pass


@dataclass(frozen=True)
class Evaluation:
    """A run of the PyTorch backend."""

    prepared: evaluator.Prepared
    names: tuple[str, ...]
    integers: Mapping[str, int]
    precision: str | None
    is_replayable: ClassVar[bool] = False

    @staticmethod
    def compile(definition: KernelDefinition, variant: Variant) -> evaluator.Prepared:
        return evaluator.prepare(variant.program)

    @classmethod
    def of(cls, definition: KernelDefinition, variant: Variant, call: Call, integers: Mapping[str, int], place):
        names = tuple(parameter.name for parameter in definition.parameters)
        return cls(variant.compiled, names, integers, variant.precision)

    def run(self, args: tuple, raw: list) -> None:
        # As for a kernel on a GPU, autograd neither sees what is written nor forbids it.
        with torch.inference_mode():
            values = (value.detach() if isinstance(value, torch.Tensor) else value for value in args)
            self.prepared(dict(zip(self.names, values, strict=True)), self.integers)


@dataclass(frozen=True)
class Launch:
    """A launch on a GPU.

    `pick` takes the kernel's arguments, in its order, out of the call's raw values followed by `integers`. `on_host`
    are the positions of 0-d CPU tensors, whose values are read here.
    """

    kernel: Loaded
    programs: int
    pick: Callable[[list], tuple]
    integers: list[int]
    on_host: tuple[int, ...]
    device: int
    precision: str | None
    table: descriptors.Table | None = None

    @property
    def is_replayable(self) -> bool:
        return not self.on_host

    @staticmethod
    def compile(definition: KernelDefinition, variant: Variant) -> Compiled:
        chosen = variant.selection.configuration
        emitted = triton.emit(variant.program, options_of(definition, variant))
        warps = PACKED_WARPS if emitted.packed else chosen.num_warps
        return compile_kernel(emitted, variant.selection.gpu, warps, chosen.num_stages, _aligned(definition, variant))

    @classmethod
    def of(cls, definition: KernelDefinition, variant: Variant, call: Call, integers: Mapping[str, int], place):
        emitted = variant.compiled.emitted
        positions = {parameter.name: position for position, parameter in enumerate(definition.parameters)}
        numbers = [argument.source for argument in emitted.arguments if argument.kind == "integer"]
        positions |= {name: len(definition.parameters) + position for position, name in enumerate(numbers)}
        with torch.cuda.device(place):
            kernel = variant.compiled.on(place.index)
        return cls(
            kernel,
            emitted.programs(integers, variant.selection.configuration.programs),
            _picker([positions[argument.source] for argument in emitted.arguments]),
            [integers[name] for name in numbers],
            tuple(position for position, value in enumerate(call.arguments) if is_read_by_host(value, place)),
            place.index,
            variant.precision,
            descriptors.Table.of(emitted, kernel.ready, integers) if emitted.descriptors else None,
        )

    def run(self, args: tuple, raw: list) -> None:
        for position in self.on_host:
            raw[position] = args[position].item()
        values = self.pick(raw + self.integers)
        if self.table is not None:
            values = self.table.expand(values)
        if torch._C._cuda_getDevice() == self.device:
            self.kernel(self.programs, values, torch._C._cuda_getCurrentRawStream(self.device))
        else:
            with torch.cuda.device(self.device):
                self.kernel(self.programs, values, torch._C._cuda_getCurrentRawStream(self.device))


def _aligned(definition: KernelDefinition, variant: Variant) -> frozenset[str]:
    """The tensors whose addresses are multiples of 16."""
    arguments = zip(definition.parameters, variant.selection.specialisation.arguments, strict=True)
    return frozenset(
        parameter.name for parameter, argument in arguments if argument.kind == "tensor" and argument.aligned
    )


def options_of(definition: KernelDefinition, variant: Variant) -> triton.Options:
    """How a variant's text may access memory and share out its tiles."""
    chosen = variant.selection.configuration
    if not chosen.described or not descriptors.are_supported():
        return triton.Options(packed=chosen.packed)
    return triton.Options(described=_aligned(definition, variant), persistent=chosen.programs > 0)


def _picker(order: list[int]) -> Callable[[list], Any]:
    """Takes the items at some positions, as a tuple also where they are fewer than two."""
    if len(order) > 1:
        return itemgetter(*order)
    return lambda values: tuple(values[position] for position in order)
