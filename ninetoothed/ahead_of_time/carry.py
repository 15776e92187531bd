"""Describe a compiled variant so that it can be launched without the compiler, or refuse it by name.

What the machine code takes is read off its PTX: what Triton adds to the arguments differs between its versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeGuard

from ninetoothed.ahead_of_time.guards import CallNames, guards_of
from ninetoothed.backends.triton import KernelArgument
from ninetoothed.built.description import BuiltArgument, BuiltVariant, Passed, Separate
from ninetoothed.built.formula import Formula, written
from ninetoothed.dtypes import DType
from ninetoothed.errors import CompilationError, UnsupportedError
from ninetoothed.runtime.aliasing import Pair, pairs
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.compilation import parameters
from ninetoothed.runtime.compilation.compile import CompiledKernel
from ninetoothed.runtime.selection.choices import Selection
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.runtime.variants import Variant
from ninetoothed.runtime.workspace import ALIGNMENT
from ninetoothed.specialisation import ArgumentClass

_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([busf])(\d+)[^\[\],)]*(?:\[(\d+)\])?")


@dataclass(frozen=True)
class CarriedVariant:
    """A variant, described, with its machine code."""

    variant: BuiltVariant
    code: bytes


def carried(
    plan: SpecialisationPlan, call: BoundCall, selection: Selection, variant: Variant, parameters: Mapping[str, Any]
) -> CarriedVariant:
    """Describe a variant that was compiled for a call. Raises `UnsupportedError` for what cannot be carried."""
    return _Carrier(plan, call, selection, variant, parameters).carried()


@dataclass(frozen=True, eq=False)
class _Carrier:
    plan: SpecialisationPlan
    call: BoundCall
    selection: Selection
    variant: Variant
    parameters: Mapping[str, Any]

    @property
    def compiled(self) -> CompiledKernel:
        return self.variant.compiled

    @cached_property
    def places(self) -> CallNames:
        positions = self.plan.definition.positions
        described = frozenset(positions[each.source] for each in self.compiled.emitted.descriptors)
        return CallNames(self.plan, self.call, self.selection, described)

    def carried(self) -> CarriedVariant:
        metadata, emitted, gpu = self.compiled.kernel.metadata, self.compiled.emitted, self.compiled.gpu
        if (reason := parameters.why_through_triton(metadata)) is not None:
            raise self._refused(reason)
        schedule, known = self.selection.schedule, self.selection.specialisation
        code: bytes = self.compiled.asm["cubin"]
        assert isinstance(gpu.architecture, int)
        names = self.places.names.items()
        sample = {name: self.selection.values[key] for key, name in names if _is_size(name)}
        axes = [written("*", 1, *(self._extent(extent) for extent in axis)) for axis in emitted.grid]
        x, y, z = (*axes, 1, 1)[:3]
        built = BuiltVariant(
            kernel=self.plan.definition.name,
            parameters=dict(self.parameters),
            constants=dict(self.call.constants),
            gpu=gpu.name,
            architecture=gpu.architecture,
            multiprocessors=gpu.multiprocessors,
            function=metadata.name,
            cubin="",
            arguments=tuple(map(self._argument, range(len(self.call.arguments)))),
            # A class knows of no stride along dimensions of one element, behind descriptors neither.
            guards=guards_of(replace(self.places, described=frozenset()), self.variant),
            grid=(x, y, z),
            passed=tuple(self._passed()),
            threads=metadata.num_warps * 32,
            shared=metadata.shared,
            most=(schedule.programs or 0) if emitted.persistent else 0,
            workspace=self._bytes(False),
            semaphores=self._bytes(True),
            separate=tuple(map(self._separate, pairs(self.plan.definition, self.variant, self.selection.values))),
            precision=self.variant.precision,
            facts=len(known.known) + len(known.divisors) + sum(each.aligned for each in known.arguments),
            sample=sample,
            schedule=str(schedule),
        )
        return CarriedVariant(built, code)

    def _refused(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"kernel `{self.plan.definition.name}` cannot be built ahead of time: {what}")

    def _extent(self, extent: Any) -> Formula:
        return written("max", self.places.of(extent), 0)

    def _argument(self, position: int) -> BuiltArgument:
        parameter = self.plan.definition.parameters[position]
        known: ArgumentClass = self.selection.specialisation.arguments[position]
        if known.role == "constant" and not isinstance(known.value, bool | int | float):
            raise self._refused(f"`{parameter.name}` is {known.value!r}, which is no number; close over it instead")
        return BuiltArgument(
            parameter.name,
            known.role,
            None if known.dtype is None else known.dtype.name,
            getattr(self.call.arguments[position], "ndim", 0) if known.role == "tensor" else 0,
            known.role == "tensor" and known.aligned and parameter.name in self.variant.touched,
            parameter.name in self.variant.stored,
            known.value if known.role == "constant" else None,
            parameter.source.value is not None,
        )

    # -- what the machine code takes --

    def _passed(self) -> Iterator[Passed]:
        """Yield what is passed, and compare it with what the machine code takes."""
        text = self.compiled.asm.get("ptx")
        if text is None:
            raise self._refused("Triton was told to keep no PTX, off which its parameters are read")
        taken = _taken(text, self.compiled.kernel.metadata.name)
        wanted = [each for argument in self._declared() for each in argument]
        given = [(1024 if each.role == "descriptor" else each.bits) for each in wanted]
        # Numbers of a descriptor may have other widths in other versions.
        widths = [
            bits if each.role == "integer" and not each.bits else own
            for each, own, bits in zip(wanted, given, taken, strict=False)
        ]
        if len(taken) < len(wanted) or taken[: len(wanted)] != widths or set(taken[len(wanted) :]) - {64}:
            raise self._refused(f"its machine code takes parameters of {taken} bits, where {given} were expected")
        yield from (replace(each, bits=bits) if not each.bits else each for each, bits in zip(wanted, taken))
        yield from (Passed("null") for _ in taken[len(wanted) :])

    def _declared(self) -> Iterator[tuple[Passed, ...]]:
        """Yield, for each argument of the text, what stands for it."""
        own = {each.name: each for each in self.compiled.emitted.buffers}
        offsets = {True: 0, False: 0}
        starts: dict[str, Formula] = {}
        sums: dict[bool, Formula] = dict(offsets)
        for buffer in self.compiled.emitted.buffers:
            starts[buffer.name] = sums[buffer.is_zeroed]
            sums[buffer.is_zeroed] = written("+", sums[buffer.is_zeroed], self._size(buffer))
        descriptors = iter(getattr(self.compiled.kernel.metadata, "tensordesc_meta", None) or ())
        for argument in self.compiled.emitted.arguments:
            if argument.source in own and argument.role == "pointer":
                role = "semaphores" if own[argument.source].is_zeroed else "workspace"
                yield (Passed(role, value=starts[argument.source]),)
            elif argument.source in own:
                raise self._refused("its workspace is behind a descriptor")
            elif argument.role == "descriptor":
                yield self._descriptor(argument, next(descriptors, None))
            else:
                yield (self._plain(argument),)

    def _plain(self, argument: KernelArgument) -> Passed:
        if argument.role == "integer":
            return Passed("integer", value=self.places.names[argument.source], **_kind(argument.dtype))
        position = self.plan.definition.positions[argument.source]
        if argument.role == "pointer":
            return Passed("pointer", position)
        if argument.dtype.is_floating and argument.dtype.bits < 32:
            raise self._refused(f"`{argument.source}` is a number of {argument.dtype}; pass one of float32")
        return Passed("scalar", position, **_kind(argument.dtype))

    def _descriptor(self, argument: KernelArgument, metadata: Any) -> tuple[Passed, ...]:
        try:
            encoding = parameters.encoding(argument, metadata)
        except CompilationError as error:
            raise self._refused(str(error)) from error
        sizes = tuple(self.places.of(size) for size in argument.sizes)
        strides = tuple(self.places.of(stride) for stride in argument.strides)
        described = Passed(
            "descriptor",
            self.plan.definition.positions[argument.source],
            bits=1024,
            sizes=sizes,
            strides=strides,
            **vars(encoding),
        )
        return described, *(Passed("integer", value=each, bits=0, is_unsigned=False) for each in (*sizes, *strides))

    # -- memory --

    def _size(self, buffer: Any) -> Formula:
        """Count the bytes of a buffer, rounded up so that the next one is aligned."""
        size = written("*", self.places.of(buffer.count), buffer.dtype.bits // 8)
        return written("*", written("//", written("+", size, ALIGNMENT - 1), ALIGNMENT), ALIGNMENT)

    def _bytes(self, is_zeroed: bool) -> Formula:
        sizes = (self._size(each) for each in self.compiled.emitted.buffers if each.is_zeroed == is_zeroed)
        return written("+", 0, *sizes)

    def _separate(self, pair: Pair) -> Separate:
        """Tell whether two arguments of one layout may be the same memory."""
        first, second = (self.plan.definition.parameters[i].source for i in (pair.output, pair.other))
        if first.ndim != second.ndim:
            return Separate(pair.output, pair.other, False)
        values = dict(pair.values)
        for of_first, of_second in ((first.sizes, second.sizes), (first.strides, second.strides)):
            names = zip(map(str, of_first), map(str, of_second), strict=True)
            values |= {other: values[own] for own, other in names if own in values}
        is_in_place = not self.compiled.emitted.relies_on_apart and replace(pair, values=values).may_be_in_place
        return Separate(pair.output, pair.other, is_in_place)


def _is_size(formula: Formula) -> TypeGuard[str]:
    return isinstance(formula, str) and formula.startswith("size_")


def _kind(dtype: DType) -> dict[str, Any]:
    return {"bits": dtype.bits, "is_float": dtype.is_floating, "is_unsigned": dtype.category == "uint"}


def _taken(ptx: str, name: str) -> list[int]:
    """List the bits of each parameter of a kernel."""
    found = re.search(rf"\.entry\s+{re.escape(name)}\s*\((.*?)\)", ptx, re.DOTALL)
    if found is None:
        return []
    return [int(bits) * int(count or 1) for _, bits, count in _PARAMETER.findall(found[1])]
