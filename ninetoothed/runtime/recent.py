"""The calls that a kernel saw last, recognised by the guards of `torch.compile`, faster than by a signature.

A guard compares types, devices, shapes and strides of all tensors in one call into C++. It is no public part of
PyTorch: where it is missing, or different from what is expected here, signatures alone do the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed.runtime.specialise import ALIGNMENT

try:
    from torch._C._dynamo.guards import TensorGuards
except ImportError:
    TensorGuards = None

# Each guard that fails costs time too, so they are few.
CAPACITY = 4
# Once there are that many, a call that none of them knows takes the place of the oldest every so many times.
PATIENCE = 16


@dataclass(frozen=True)
class Recent:
    """One call as guards recognise it, and the launch that it led to.

    tensors: the positions of the tensors, all of which were aligned.
    others: for each other argument its position, its type, and whether it is known when compiling, with that value.
    """

    check: Callable[..., bool]
    tensors: tuple[int, ...]
    others: tuple[tuple[int, type, bool, Any], ...]
    constants: tuple
    found: Any

    @classmethod
    def of(cls, args: tuple, constants: tuple, exact: tuple[int, ...], found) -> Recent | None:
        """Guards for a call, or None for one that they cannot tell from others."""
        tensors = tuple(position for position, value in enumerate(args) if isinstance(value, torch.Tensor))
        others = tuple(
            (position, type(value), position in exact, value)
            for position, value in enumerate(args)
            if position not in tensors
        )
        values = [args[position] for position in tensors]
        if TensorGuards is None or not values:
            return None
        shapes, strides = [list(value.shape) for value in values], [list(value.stride()) for value in values]
        try:
            check = TensorGuards(*values, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides).check
            works = check(*values) and not check(*(value.unsqueeze(0) for value in values))
        except (TypeError, RuntimeError):
            return None
        return cls(check, tensors, others, constants, found) if works else None

    def raw(self, args: tuple, constants: tuple) -> list | None:
        """What is passed on for each argument, or None where this is another call."""
        values = [args[position] for position in self.tensors] if self.others else args
        if constants != self.constants or not self.check(*values):
            return None
        raw = [value.data_ptr() for value in values]
        addresses = 0
        for address in raw:
            addresses |= address
        if addresses % ALIGNMENT:
            return None
        return self._with_others(args, raw) if self.others else raw

    def _with_others(self, args: tuple, addresses: list[int]) -> list | None:
        for position, kind, is_exact, value in self.others:
            given = args[position]
            if type(given) is not kind:
                return None
            # Zeros of either sign are equal, and not the same.
            if is_exact and (given != value or (kind is float and not given)):
                return None
            if kind is int and not -(2**31) <= given < 2**31:
                return None
        raw = list(args)
        for position, address in zip(self.tensors, addresses, strict=True):
            raw[position] = address
        return raw
