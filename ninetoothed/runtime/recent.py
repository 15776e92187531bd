"""Calls that were seen before, and what they led to: the last ones recognised by guards, all others by a signature.

A guard, one of those of `torch.compile`, compares types, devices, shapes and strides of all tensors in one call into
C++. It is no public part of PyTorch: where it is missing, or different from what is expected here, signatures alone do
the work.
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
GUARDED = 4
# Once there are that many, a call that none of them knows takes the place of the oldest every so many times.
PATIENCE = 16
# How many exact signatures are remembered; the older half goes when there are more.
CAPACITY = 1024
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})


@dataclass(frozen=True)
class Seen:
    """Stands for what a call is to lead to once it comes again."""

    precision: None = None


SEEN = Seen()


class Calls:
    """What calls led to, for several threads at once: anything with a `precision` (see `is_outdated`).

    exact: the positions of arguments that count by their value, None for all; of other numbers only the type and, for
    integers, the width counts.
    """

    def __init__(self, exact: tuple[int, ...] | None = None):
        self._exact = exact
        self._guarded: tuple[Recent, ...] = ()
        self._known: dict[tuple, Any] = {}
        self._misses = 0

    def find(self, args: tuple, constants: tuple) -> tuple[Any, list | None]:
        """What this call led to (None if that is not known), and what a kernel is passed for each argument."""
        for recent in self._guarded:
            raw = recent.raw(args, constants)
            if raw is not None and (recent.found.precision is None or not is_outdated(recent.found)):
                return recent.found, raw
        try:
            key, raw = signature(args, constants, self._exact)
            found = self._known.get(key)
        except (RuntimeError, TypeError):  # no memory, or nothing to hash
            return None, None
        if found is None or found is SEEN or is_outdated(found):
            return (SEEN if found is SEEN else None), raw
        self._misses += 1
        if len(self._guarded) < GUARDED or self._misses % PATIENCE == 0:
            new = Recent.of(args, constants, self._exact, found)
            if new is not None:
                self._guarded = (*self._guarded[-GUARDED + 1 :], new)
        return found, raw

    def keep(self, args: tuple, constants: tuple, found) -> None:
        """Remember what a call led to. Not for several threads at once: its user holds a lock."""
        if len(self._known) >= CAPACITY:
            # A new dictionary: other threads may be reading the old one.
            self._known = dict(list(self._known.items())[CAPACITY // 2 :])
        self._known[signature(args, constants, self._exact)[0]] = found

    def forget(self) -> None:
        self._guarded, self._known = (), {}

    def __len__(self) -> int:
        return len(self._known)


def is_outdated(found) -> bool:
    """Whether something was made under another precision of float32 products, where that matters."""
    return found.precision is not None and found.precision != torch._C._get_float32_matmul_precision()


def signature(args: tuple, constants: tuple, exact: tuple[int, ...] | None) -> tuple[tuple, list]:
    """All of a call that decides what is launched, and what is passed on for each argument: of a tensor its address.

    What is neither a plain tensor nor a number is in no signature that is ever remembered.
    """
    key: list = [constants]
    raw: list = []
    for argument in args:
        kind = type(argument)
        if kind in _TENSORS:
            pointer = argument.data_ptr()
            key += (argument.dtype, argument.device, argument.shape, argument.stride(), pointer % ALIGNMENT == 0)
            key.append(argument.is_neg())
            raw.append(pointer)
        else:
            key.append(kind if kind is not int else int if -(2**31) <= argument < 2**31 else argument.bit_length())
            raw.append(argument)
    for index in range(len(args)) if exact is None else exact:
        value, kind = args[index], type(args[index])
        if kind not in _TENSORS:
            key.append((kind, value.hex() if kind is float else tuple(value) if kind is list else value))
    return tuple(key), raw


@dataclass(frozen=True)
class Recent:
    """One call as guards recognise it, and the launch that it led to.

    tensors: the positions of the tensors, all of which were aligned; repeated: (position, earlier position) for those
    that are given once more, which guards do not take.
    others: for each other argument its position, its type, and whether it counts by its value, with that value.
    """

    check: Callable[..., bool]
    count: int
    tensors: tuple[int, ...]
    repeated: tuple[tuple[int, int], ...]
    others: tuple[tuple[int, type, bool, Any], ...]
    constants: tuple
    found: Any
    are_all_tensors: bool

    @classmethod
    def of(cls, args: tuple, constants: tuple, exact: tuple[int, ...] | None, found) -> Recent | None:
        """Guards for a call, or None for one that they cannot tell from others."""
        first: dict[int, int] = {}
        every = tuple(position for position, value in enumerate(args) if isinstance(value, torch.Tensor))
        repeated = tuple((i, first[id(args[i])]) for i in every if first.setdefault(id(args[i]), i) != i)
        others = tuple(
            (position, type(value), exact is None or position in exact, list(value) if type(value) is list else value)
            for position, value in enumerate(args)
            if position not in every
        )
        tensors = tuple(first.values())
        values = [args[position] for position in tensors]
        if TensorGuards is None or not values or any(value.data_ptr() % ALIGNMENT for value in values):
            return None
        shapes, strides = [list(value.shape) for value in values], [list(value.stride()) for value in values]
        try:
            check = TensorGuards(*values, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides).check
            works = check(*values) and not check(*(value.unsqueeze(0) for value in values))
        except (TypeError, RuntimeError):
            return None
        are_all_tensors = not others and not repeated
        known = cls(check, len(args), tensors, repeated, others, constants, found, are_all_tensors)
        return known if works else None

    def raw(self, args: tuple, constants: tuple) -> list | None:
        """What is passed on for each argument, or None where this is another call."""
        if len(args) != self.count or constants != self.constants:
            return None
        values = args if self.are_all_tensors else [args[position] for position in self.tensors]
        if not self.check(*values):
            return None
        raw = [value.data_ptr() for value in values]
        addresses = 0
        for address in raw:
            addresses |= address
        if addresses % ALIGNMENT:
            return None
        return raw if self.are_all_tensors else self._with_others(args, raw)

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
        for position, address in zip(self.tensors, addresses):
            raw[position] = address
        for position, earlier in self.repeated:
            if args[position] is not args[earlier]:
                return None
            raw[position] = raw[earlier]
        return raw
