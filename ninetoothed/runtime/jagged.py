"""Give a kernel the parts of nested tensors: `ninetoothed.jagged` tells which parameters they are for.

Nothing is copied, and no number read but the length of the longest entry, once: PyTorch keeps it with the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch

from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import ArgumentError, ArgumentTypeError, SizeError
from ninetoothed.expr import as_expr
from ninetoothed.runtime import arguments, private
from ninetoothed.runtime.arguments import BoundCall, problem

_MAKE = "make one with `torch.nested.nested_tensor_from_jagged(values, offsets)`"


@dataclass(frozen=True, eq=False)
class JaggedParts:
    """A nested tensor of layout `torch.jagged` in parts: entry b is `lengths[b]` values from `offsets[b]` on.

    lengths: None where entries follow one another. dim: the jagged dimension; dimension 0 is the batch. nested: the
    tensor. longest: the length of the longest entry, of parts that stand for a tensor that was not made: kernels take
    them as they take one. family: parts of different ones do not share entries, wherever their offsets lie.
    known: what PyTorch knows of them.
    """

    values: torch.Tensor
    offsets: torch.Tensor
    lengths: torch.Tensor | None
    dim: int
    nested: torch.Tensor | None = None
    longest: int | None = None
    family: int = 0
    known: Any = None

    @classmethod
    def of(cls, nested: Any) -> JaggedParts:
        """Take a nested tensor apart; where gradients are recorded, its values require them if it does."""
        dim = private.jagged_dim_of(nested)
        known = private.known_ends(nested)
        return cls(private.values_of(nested), nested.offsets(), nested.lengths(), dim, nested, known=known)

    @property
    def is_traced(self) -> bool:
        """Tell whether these are parts of a graph that is traced: in PyTorch 2.11 only their offsets tell."""
        return torch.compiler.is_compiling() or type(self.offsets) is not torch.Tensor

    def nest(self, values: torch.Tensor) -> torch.Tensor:
        """Nest other values as these are."""
        return private.nest(values, self.offsets, self.lengths, self.dim, self.known)

    def without_values(self) -> JaggedParts:
        """Return these parts, of no values and no tensor, which would be kept alive."""
        return replace(self, values=self.offsets, nested=None)

    def shares_entries(self, other: JaggedParts) -> bool:
        """Tell whether the entries of another tensor begin and end alike, without reading a number."""
        pairs = ((self.offsets, other.offsets), (self.lengths, other.lengths))
        alike = (a is b or (a is not None and b is not None and _are_one(a, b)) for a, b in pairs)
        return self.family == other.family and (self._has_size_of(other) or all(alike))

    def _has_size_of(self, other: JaggedParts) -> bool:
        """Tell whether a graph is traced in which both jagged sizes are one: tensors have no addresses there.

        With lengths beside the offsets, these alone make the size.
        """
        if not self.is_traced or self.nested is None or other.nested is None:
            return False
        has_lengths = self.lengths is not None or other.lengths is not None
        return not has_lengths and self.nested.shape[self.dim] == other.nested.shape[other.dim]

    def find_longest(self) -> int | None:
        """Return the length of the longest entry, 0 without entries; None where a capture forbids to read it.

        It is read where PyTorch does not know it yet.
        """
        if self.nested is None or self.offsets.shape[0] < 2:
            return self.longest or 0
        known = private.known_longest(self.nested)
        if known is None and not is_captured(self.offsets):
            lengths = self.offsets.diff() if self.lengths is None else self.lengths
            known = private.read_longest(self.nested, lengths)
        return known

    def read_longest(self) -> int:
        """Read the length of the longest entry from offsets on the CPU, whatever PyTorch knows of it.

        NumPy reads them, unseen by what records PyTorch's operations.
        """
        lengths = numpy.diff(self.offsets.numpy()) if self.lengths is None else self.lengths.numpy()
        return int(lengths.max(initial=0))


def is_captured(tensor: torch.Tensor) -> bool:
    """Tell whether what reads a tensor is recorded into a CUDA graph: no number can be read meanwhile."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _are_one(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tell whether two tensors are the same memory, read alike."""
    alike = a.dtype == b.dtype and a.device == b.device and a.shape == b.shape and a.stride() == b.stride()
    are_real = not torch.compiler.is_compiling() and type(a) is type(b) is torch.Tensor
    return alike and are_real and a.data_ptr() == b.data_ptr()


def bind(definition: KernelDefinition, args: tuple, kwargs: dict[str, Any]) -> BoundCall:
    """Match a call's arguments with the parameters of a kernel, as `arguments.bind` does, nested tensors in parts."""
    call = arguments.bind(definition, args, kwargs)
    return replace(call, arguments=tuple(_spread(definition, call.arguments))) if definition.is_jagged else call


def _spread(definition: KernelDefinition, given: tuple[Any, ...]) -> Iterator[Any]:
    """Yield an argument for each parameter; all but the last ones are what callers give."""
    parts: dict[str, Any] = {}
    first: dict[str, JaggedParts] = {}
    for parameter, value in zip(definition.given, given, strict=True):
        jagged = parameter.jagged
        if jagged is None or not parameter.touched:
            yield value
            continue
        own = _parts(definition, parameter, value)
        leader = next((name for name, other in first.items() if other.shares_entries(own)), parameter.name)
        first.setdefault(leader, own)
        yield own.values.unsqueeze(0)
        entries = (own.offsets.shape[0] - 1, _longest(definition, parameter, first[leader]))
        parts |= {
            jagged.offsets: own.offsets,
            jagged.lengths: own.offsets if own.lengths is None else own.lengths,
            jagged.entries: own.offsets.as_strided(entries, (0, 0)),
            jagged.sharing: (own.lengths is not None, leader),
        }
    _check_grid(definition, {name: sharing[1] for name, sharing in _sharing(definition, parts)})
    for parameter in definition.parameters[len(given) :]:
        yield parts.get(parameter.name)


def _sharing(definition: KernelDefinition, parts: Mapping[str, Any]) -> Iterator[tuple[str, tuple[bool, str]]]:
    for parameter in definition.given:
        if parameter.jagged is not None and parameter.jagged.sharing in parts:
            yield parameter.name, parts[parameter.jagged.sharing]


def _parts(definition: KernelDefinition, parameter: KernelParameter, value: Any) -> JaggedParts:
    """Take a nested tensor apart; raise for an argument that is none, or has another dimension jagged."""
    source = parameter.source
    if not isinstance(value, JaggedParts) and not private.is_jagged(value):
        told = type(value).__name__
        if isinstance(value, torch.Tensor):
            told = f"nested tensor of layout {value.layout}" if value.is_nested else f"tensor of {tuple(value.shape)}"
        what, remedy = f"is jagged (jagged_dim={source.jagged_dim}), and the call gives a {told}", _MAKE
        if isinstance(value, torch.Tensor) and value.is_nested:
            remedy = "make it with layout=torch.jagged"
        raise problem(definition, parameter, what, remedy, ArgumentTypeError)
    found = value if isinstance(value, JaggedParts) else JaggedParts.of(value)
    if found.values.ndim + 1 != source.ndim:
        what = f"has {source.ndim} dimensions, and the call gives a nested tensor of {found.values.ndim + 1}"
        raise problem(definition, parameter, what, "make the kernel with another rank")
    if found.dim != source.jagged_dim:
        what = f"has jagged_dim={source.jagged_dim}, and dimension {found.dim} of the call's tensor is jagged"
        remedy = f"transpose the argument, or make the kernel with `Tensor({source.ndim}, jagged_dim={found.dim})`"
        raise problem(definition, parameter, what, remedy)
    arguments.check_memory_of(definition, parameter, found.values)
    return found


def _longest(definition: KernelDefinition, parameter: KernelParameter, parts: JaggedParts) -> int:
    """Return the length of the longest entry; raise where it cannot be read, or what is given for it is too little.

    Of the GPU's offsets that is taken on trust, as PyTorch takes it: to read them would wait for the GPU. Rows past it
    are in no program.
    """
    longest = parts.find_longest()
    if longest is None:
        what = "is given a nested tensor of which the longest entry is not known, and a CUDA graph is being captured"
        remedy = (
            "call the kernel once before, or give `max_seqlen` to `torch.nested.nested_tensor_from_jagged`: reading it"
            " from the GPU would spoil the capture"
        )
        raise problem(definition, parameter, what, remedy, ArgumentError)
    most = parts.read_longest() if parts.offsets.device.type == "cpu" else longest
    if most > longest:
        what = f"is given a nested tensor with an entry of {most}, whose `max_seqlen` says {longest}"
        raise problem(definition, parameter, what, "give the length of the longest entry, or leave it out", SizeError)
    return longest


def _check_grid(definition: KernelDefinition, leaders: Mapping[str, str]) -> None:
    """Raise `SizeError` where programs work on entries of tensors that do not share their offsets."""
    if len(set(leaders.values())) < 2:
        return
    over = [each for each in definition.given if each.name in leaders and _is_over_entries(each)]
    for parameter in over[1:]:
        if leaders[parameter.name] != leaders[over[0].name]:
            raise unshared(definition.name, over[0].name, parameter.name, "each program works on one tile of either")


def _is_over_entries(parameter: KernelParameter) -> bool:
    """Tell whether the grid runs along the jagged dimension."""
    assert parameter.jagged is not None
    longest = str(parameter.jagged.longest)
    return any(longest in as_expr(size).variables for size in parameter.outermost)


def unshared(kernel: str, first: str, second: str, why: str) -> SizeError:
    """Make the error for two jagged parameters that have to share their offsets."""
    return SizeError(
        f"kernel `{kernel}`: parameters `{first}` and `{second}` are jagged, and their entries do not begin at the same"
        f" offsets; {why}: make one of the other's offsets, as `torch.nested.nested_tensor_from_jagged(values,"
        " x.offsets())` does, and as results of PyTorch's functions have them",
        (first, second),
    )


def apart(definition: KernelDefinition, given: tuple[Any, ...]) -> frozenset[str]:
    """Return the sizes that are not to be taken for others, if equal in a call: longest entries of several lengths."""
    jagged = [each for each in definition.given if each.jagged is not None]
    leaders = {given[definition.positions[each.jagged.sharing]] for each in jagged if each.jagged is not None}
    return frozenset(str(each.jagged.longest) for each in jagged if each.jagged) if len(leaders) > 1 else frozenset()
