"""The subject of `verify`: a kernel, traced for a class of calls, with the numbers of one of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ninetoothed import frontend, ir
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import ArgumentError, SizeError
from ninetoothed.expr import Expr, as_expr, const, offset
from ninetoothed.races import Footprints, TensorMemory
from ninetoothed.races.site import Site, Space
from ninetoothed.runtime import arguments, jagged
from ninetoothed.runtime.jagged import JaggedParts
from ninetoothed.runtime.requirements import answered, check_requirements
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.runtime.variants import VariantCache
from ninetoothed.verification.entries import within_entries

# Sizes of which some are no multiples of any block, and the elements that a tensor may have.
_EXAMPLES, _ELEMENTS = (131, 67, 33, 5, 2, 1), 1 << 16


@dataclass(frozen=True)
class Subject:
    """A traced kernel.

    values: the sizes and strides of the call by name. blocks: the block sizes that it is traced with. arguments: those
    of the call, by parameter.
    """

    definition: KernelDefinition
    program: ir.Program
    values: Mapping[str, int]
    blocks: Mapping[str, int]
    arguments: Mapping[str, Any]
    known: Mapping[str, Expr]

    @functools.cached_property
    def footprints(self) -> Footprints | None:
        """All that it touches of memory, of jagged tensors by entries; None where it writes nothing."""
        found: Footprints | None = self.program.footprints
        return None if found is None else within_entries(self.definition, found, self._number)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of its tensors, by parameter; what is beside jagged ones is not the user's."""
        given = (each.name for each in self.definition.given)
        tensors = ((name, self.arguments[name]) for name in given if isinstance(self.arguments[name], torch.Tensor))
        return {name: tuple(tensor.shape) for name, tensor in tensors}

    def sites(self, name: str, are_stores: bool) -> list[Site]:
        """List the stores to a parameter, or its loads; with pointers, all places are distances from the first."""
        found = [site for site in self._all(name) if site.is_store == are_stores]
        if not self._is_flat(name):
            return found
        return [replace(self._memory(name).flat(site), is_pointed=False) for site in found]

    def sizes(self, name: str) -> tuple[Expr, ...]:
        """Return how many elements there are along each index of these places."""
        memory = self._memory(name)
        if not self._is_flat(name):
            return memory.sizes
        # All that lies between the first and the last one.
        return (offset([size - 1 for size in memory.sizes], memory.strides) + 1,)

    def is_dense(self, name: str, values: Mapping[str, int]) -> bool:
        """Tell whether all places are elements: there is no memory between these."""
        memory = self._memory(name)
        sizes, strides = ([e.subs(values) for e in each] for each in (memory.sizes, memory.strides))
        whole = [math.prod(sizes[dim + 1 :], start=const(1)) for dim in range(len(sizes))]
        return not self._is_flat(name) or strides == whole

    def _all(self, name: str) -> list[Site]:
        sites = () if self.footprints is None else self.footprints.sites
        return [site for site in sites if site.parameter == name]

    def _is_flat(self, name: str) -> bool:
        return any(site.is_pointed for site in self._all(name))

    def _memory(self, name: str) -> TensorMemory:
        assert self.footprints is not None
        return self.footprints.memories[name]

    def space(self, name: str) -> Space:
        """Return what sites count with: programs along the outermost level of a parameter, as all of a call's agree."""
        assert self.footprints is not None
        own, axes = self.parameter(name).outermost, self.footprints.space.axes
        if len(own) != len(axes):
            return self.footprints.space
        counts = {axis: self._number(size) for axis, size in zip(axes, own, strict=True)}
        return replace(self.footprints.space, axes=counts, counts=counts)

    def parameter(self, name: str) -> KernelParameter:
        """Return a parameter by its name."""
        return next(each for each in self.definition.parameters if each.name == name)

    def _number(self, size: int | Symbol) -> Expr:
        # A size may be known to be one that is known.
        return as_expr(size).subs(self.known).subs(self.known)


def subject(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], gpu: Machine) -> Subject:
    """Trace a kernel for a call, of which a tuple stands for a tensor of that shape."""
    definition = kernel.definition
    if len(args) == len(definition.given):
        # Entries of one number and length are those of one batch.
        offsets = functools.lru_cache(lambda count, length: torch.arange(count + 1) * length)
        args = tuple(
            _tensor(parameter, value, offsets) for parameter, value in zip(definition.given, args, strict=True)
        )
    plan = SpecialisationPlan(definition)
    call, device = arguments.check(definition, jagged.bind(definition, tuple(args), dict(kwargs)))
    cache = VariantCache()
    while True:
        selection = cache.select(plan, call, device, gpu)
        answer = functools.partial(answered, definition, selection.values)
        try:
            program = frontend.trace(definition, selection.specialisation, answer)
            check_requirements(definition, program.requirements, selection.values)
            break
        except SizeError as error:  # Other blocks may fit.
            selection.choices.learn(error)
    names = (parameter.name for parameter in definition.parameters)
    named = dict(zip(names, call.arguments, strict=True))
    known = {name: as_expr(value) for name, value in selection.specialisation.known}
    return Subject(definition, program, selection.values, selection.schedule.blocks, named, known)


def _tensor(parameter: KernelParameter, value: Any, offsets: Callable[[int, int], torch.Tensor]) -> Any:
    """Make a tensor of a shape, of a jagged one with entries that are all as long; anything else stays as it is."""
    is_shape = isinstance(value, tuple | torch.Size) and all(isinstance(size, int) for size in value)
    if not is_shape or not parameter.source.sizes:
        return value
    dtype = getattr(torch, str(parameter.source.dtype or "float32").rpartition(".")[2], torch.float32)
    if parameter.jagged is None:
        return torch.empty(value, dtype=dtype)
    (count, *rest), dim = value, parameter.jagged.dim
    length = rest[dim - 1]
    rest[dim - 1] = count * length
    return JaggedParts(torch.empty(rest, dtype=dtype), offsets(count, length), None, dim, longest=length)


def examples(definition: KernelDefinition) -> Iterator[tuple[Any, ...]]:
    """Yield arguments of many sizes: one size for all dimensions that only a call tells, in turns."""
    for parameter in definition.given:
        source = parameter.source
        if not source.sizes and source.value is None and source.constexpr:
            what = f"`{parameter.name}` of kernel {definition.name!r} is known when compiling"
            raise ArgumentError(f"{what}: give `verify` the arguments of a call, tensors or their shapes")
    most = max((len(parameter.source.sizes) for parameter in definition.given), default=0)
    for number in _EXAMPLES:
        if number ** max(most, 1) <= _ELEMENTS or number <= 5:
            yield tuple(_example(parameter, number) for parameter in definition.given)


def _example(parameter: KernelParameter, number: int) -> Any:
    source = parameter.source
    if not source.sizes:
        return 1.0 if source.value is None else source.value
    given = source.sizes if parameter.jagged is None else parameter.jagged.sizes
    values = {name: number for size in given if isinstance(size, Symbol) for name in size.leaves}
    return tuple(size if isinstance(size, int) else size.subs(values) for size in given)
