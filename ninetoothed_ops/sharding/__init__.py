"""Share out calls of operators with DTensors over a mesh: importing this registers the ways for each operator.

They follow from its signature (`signatures.py`). PyTorch chooses among these ways what moves least, and moves it;
nothing here communicates. An operator without a signature raises PyTorch's NotImplementedError.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import Partial, Replicate, Shard

from ninetoothed.runtime import missing, private_dtensor
from ninetoothed.runtime.private import OpOverload

from .signatures import SIGNATURES, SIZES


@dataclass(frozen=True)
class NamedTensor:
    """A tensor of a signature: the names of its dimensions and, of one that is given, their sizes."""

    dims: tuple[str, ...]
    sizes: Sequence[int] | None = None
    is_added: bool = False

    @staticmethod
    def read(text: str, rank: int, sizes: Sequence[int] | None = None) -> "NamedTensor":
        """Read a tensor of a signature; `rank` dimensions stand in the place of an ellipsis."""
        dims = _spell(text, rank)
        first = 0 if sizes is None else len(dims) - len(sizes)
        return NamedTensor(tuple(dims[first:]), sizes, text.startswith("+"))

    def shard(self, dim: str) -> Any:
        """Shard along a dimension; None where the tensor has it not, or is broadcast along it."""
        place = self.dims.index(dim) if dim in self.dims else None
        return None if place is None or self.sizes is not None and self.sizes[place] == 1 else Shard(place)


def spelled(operator: OpOverload, *args: Any, **kwargs: Any) -> tuple[list[NamedTensor | None], ...]:
    """Return the tensors among the arguments of a call, and its outputs; None for what is not given, or not needed."""
    signature = SIGNATURES[operator.name().partition("::")[2]]
    text = signature if isinstance(signature, str) else signature(*args, **kwargs)
    tensors, results = (list(map(str.strip, side.split(","))) for side in text.split("->"))
    values = private_dtensor.tensors_of(operator, args)
    ranks = [len(value.shape) - len(_spell(text, 0)) for text, value in zip(tensors, values)
             if value is not None and "..." in text]  # fmt: skip
    rank = max(ranks, default=0)
    given = [
        None if value is None else NamedTensor.read(text, rank, value.shape) for text, value in zip(tensors, values)
    ]
    outputs = [given[int(text[1:])] if text[:1] == "@" else NamedTensor.read(text, rank) for text in results]
    for place in _not_needed(args, len(outputs)):
        outputs[place] = None
    return given, outputs


def ways(operator: OpOverload, *args: Any, **kwargs: Any) -> tuple[list[private_dtensor.Way], private_dtensor.Fits]:
    """Return the ways to share out a call over one dimension of a mesh, and what tells whether placements fit.

    A way has the placements of outputs, and then those of tensors among the arguments.
    """
    given, outputs = spelled(operator, *args, **kwargs)
    held = [each for each in given if each is not None]
    found: list[private_dtensor.Way] = [[Replicate()] * (len(outputs) + len(held))]
    for dim in dict.fromkeys(dim for each in held for dim in each.dims if not dim[0].isupper()):
        if not any(each.shard(dim) for each in held):
            continue  # Of one element everywhere: each process would have the whole, and give it as a part.
        of_outputs = [Replicate() if each is None else each.shard(dim) or Partial() for each in outputs]
        is_summed = Shard not in map(type, of_outputs)
        found.append(of_outputs + [_place(each, dim, is_summed) for each in held])
    if all(each.is_added for each in held):
        found.append([Partial()] * (len(outputs) + len(held)))
    return found, functools.partial(_fit, held)


def _place(tensor: NamedTensor, dim: str, is_summed: bool) -> Any:
    return Partial() if is_summed and tensor.is_added else tensor.shard(dim) or Replicate()


def _spell(text: str, rank: int) -> list[str]:
    return text.replace("...", " ".join(map(str, range(rank)))).strip("+ ").split()


def _not_needed(args: Sequence[Any], count: int) -> list[int]:
    """Return the places of outputs that a list of bools among the arguments says not to compute: of the last ones."""
    masks = [each for each in args if isinstance(each, list | tuple) and each and all(type(x) is bool for x in each)]
    return [count - len(mask) + i for mask in masks for i, is_needed in enumerate(mask) if not is_needed]


def _fit(tensors: Sequence[NamedTensor], placements: Sequence[Sequence[Any]], mesh: Any) -> bool:
    """Tell whether tensors are cut at the same places: of other sizes, as heads of keys, only in equal parts."""
    sizes, parts = defaultdict(set), defaultdict(set)
    for tensor, own in zip(tensors, placements):
        for place, (dim, size) in enumerate(zip(tensor.dims, tensor.sizes or ())):
            cuts = [mesh.size(i) for i, each in enumerate(own) if each.is_shard(place)]
            if cuts:
                sizes[dim].add(size)
                parts[dim].add(math.prod(cuts))
    return all(len(found) == 1 or all(size % part == 0 for size in found for part in parts[dim])
               for dim, found in sizes.items())  # fmt: skip


def register() -> None:
    """Register the ways of each operator; of none where PyTorch lacks what is needed to."""
    missing.tell_of_dtensors()
    if not private_dtensor.IS_THERE:
        return
    for name in SIGNATURES:
        operator = getattr(torch.ops.ninetoothed, name).default
        private_dtensor.share_out(operator, functools.partial(ways, operator), SIZES.get(name))


register()
