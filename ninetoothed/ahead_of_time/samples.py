"""Calls for which kernels are built where a build names none: sizes and strides of a few classes.

    aligned    sizes are multiples of 16, elements lie side by side, addresses are multiples of 16 bytes
    odd        as that, with odd sizes
    strided    odd sizes, two elements apart, at any address

All free sizes of a call are one number, since sizes of two tensors often have to agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ninetoothed import dtypes
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import ArgumentError
from ninetoothed.runtime.arguments import role_of
from ninetoothed.runtime.specialise_plan import SpecialisationPlan

# The free sizes of tensors, by the most dimensions that one of a kernel has.
_SIZES = {0: 1 << 20, 1: 1 << 20, 2: 4096, 3: 256, 4: 128}
# Where tiles are as long as a dimension, each power of two has code of its own.
_TILED = (256, 1024, 4096)
# The largest call that is made up.
_MOST = 2**31


def samples(definition: KernelDefinition) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments of calls. Raises `ArgumentError` where a tensor does not tell its type."""
    plan = SpecialisationPlan(definition)
    rank = max((parameter.source.ndim for parameter in definition.parameters), default=0)
    free = _SIZES.get(rank, 32)
    sizes: Sequence[int] = tuple(size for size in _TILED if size**rank < _MOST) if plan.tiled else (free,)
    for size in sizes:
        yield tuple(_argument(definition, parameter, size, 1) for parameter in definition.parameters)
        yield tuple(_argument(definition, parameter, size - 1, 1) for parameter in definition.parameters)
        yield tuple(_argument(definition, parameter, size - 1, 2) for parameter in definition.parameters)


def _argument(definition: KernelDefinition, parameter: KernelParameter, size: int, step: int) -> Any:
    source = parameter.source
    if source.value is not None:
        return source.value
    dtype = dtypes.from_torch(source.dtype) if source.dtype is not None else None
    if role_of(parameter) == "constant" or (dtype is None and source.ndim):
        lacking = "dtype=" if source.ndim else "value="
        raise ArgumentError(
            f"kernel `{definition.name}` is built ahead of time, and `{parameter.name}` does not tell what it is; make"
            f" it `Tensor({source.ndim}, {lacking}...)`, or give `calls=`, the calls to build for"
        )
    if not source.ndim:
        return 1.0 if dtype is None or dtype.is_floating else 1
    assert dtype is not None
    shape = [each if isinstance(each, int) else size for each in source.sizes]
    return blank(shape, getattr(torch, dtypes.to_torch_name(dtype)), step)


def blank(shape: Sequence[int], dtype: torch.dtype, step: int = 1) -> torch.Tensor:
    """Make a tensor whose elements are `step` apart; where that is not 1, at an odd address. It is never touched."""
    if step == 1:
        return torch.empty(tuple(shape), dtype=dtype)
    wide = torch.empty((*shape[:-1], shape[-1] * step + 1), dtype=dtype)
    return wide[..., 1::step][..., : shape[-1]]
