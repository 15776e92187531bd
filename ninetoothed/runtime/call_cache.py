"""Remember what calls led to. Fast paths recognise recent calls; all others are looked up by their exact signature.

    fast path  a function compiled for one call, which recognises it by guards and launches: one or two microseconds
    signature  everything that decides what is launched, as the key of a dictionary: some microseconds

A call that neither recognises is prepared anew. A call that was found by its signature gets a fast path.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch

from ninetoothed.runtime.arguments import ALIGNMENT
from ninetoothed.runtime.fast_path import guarded
from ninetoothed.runtime.launch_steps import FastPath, LaunchPlan
from ninetoothed.runtime.memory import same_memory

# How many fast paths are tried one after another: each one that does not match takes time.
RECENT = 4
# How often a call must match another fast path before that one replaces the oldest of these.
PATIENCE = 16
# How many fast paths there are for calls with tensors of the same shapes.
ALIKE = 8
# How many fast paths one signature gets: guards tell more apart (parameters, inference tensors, a tensor given twice).
FAST_PATHS = 4
# How many exact signatures are remembered; the older half goes when there are more.
CAPACITY = 1024
_PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})


class Mark(Enum):
    """Notes on calls for which there is nothing to replay."""

    SEEN = "it was seen once, and is recorded when it comes again"
    UNRECORDED = "it has no plan"
    UNHASHABLE = "it has no signature"


class CallCache:
    """Remember a plan or a mark for each call, for several threads at once.

    exact: the positions of arguments whose values count; None for all. For other numbers only the type counts, and for
    integers the width.

    Three memories, each asked where the one before does not recognise the call:
    `recent`      at most RECENT fast paths, which callers try first: the inline cache
    `_by_shapes`  the last ALIKE fast paths for each list of shapes, so that few are tried of many
    `_known`      the last CAPACITY signatures, also of calls that guards cannot tell from others
    The first two hold nothing that the last does not.

    Only `keep` takes a lock. Other methods read tuples, which are replaced and never changed, and dictionaries, which
    are replaced before anything is removed. If two threads add something at once, one of it may be lost, and is added
    again later.
    """

    def __init__(self, exact: tuple[int, ...] | None = None):
        self._exact = exact
        self._known: dict[tuple, LaunchPlan | Mark] = {}
        self._by_shapes: dict[tuple, tuple[FastPath, ...]] = {}
        self._tries = 0
        self._lock = threading.Lock()
        self.recent: tuple[FastPath, ...] = ()
        caches().add(self)

    def again(self, args: tuple, constants: tuple) -> Any:
        """Run the fast path of a call that is not among the recent ones; None where there is none."""
        try:
            alike = self._by_shapes.get(_shapes(args), ())
        except (RuntimeError, TypeError):  # no shapes that are known
            return None
        for path in alike:
            output = path(args, constants)
            if output is not None:
                self._tries += 1
                if self._tries % PATIENCE == 0:
                    self.recent = (*self.recent[-RECENT + 1 :], path)
                return output
        return None

    def find(self, args: tuple, constants: tuple) -> LaunchPlan | Mark | None:
        """Look a call up by its signature: None if it is unknown, `UNHASHABLE` if it has none."""
        try:
            known = self._known.get(signature(args, constants, self._exact))
        except (RuntimeError, TypeError):  # no memory, or nothing to hash
            return Mark.UNHASHABLE
        return None if isinstance(known, LaunchPlan) and not known.is_current else known

    def add_fast_path(self, args: tuple, constants: tuple, plan: LaunchPlan) -> FastPath | None:
        """Make a fast path for a call that was found by its signature, unless that has enough of them."""
        if plan.fast_paths == FAST_PATHS:
            return None
        plan.fast_paths += 1
        path, shapes = guarded(args, constants, self._exact, plan), _shapes(args)
        if path is not None:
            self._by_shapes[shapes] = (*self._by_shapes.get(shapes, ())[-ALIKE + 1 :], path)
            if len(self.recent) < RECENT:
                self.recent = (*self.recent, path)
        return path

    def keep(self, args: tuple, constants: tuple, found: LaunchPlan | Mark) -> None:
        """Remember what a call led to."""
        key = signature(args, constants, self._exact)
        with self._lock:
            if len(self._known) >= CAPACITY:
                self._known = dict(list(self._known.items())[CAPACITY // 2 :])
                self._by_shapes = {}
                for known in self._known.values():
                    if isinstance(known, LaunchPlan):
                        known.fast_paths = 0
            self._known[key] = found

    def forget(self) -> None:
        """Forget all calls."""
        self.recent, self._known, self._by_shapes = (), {}, {}

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True, eq=False)
class CallCaches:
    """Know the caches of this process, which forget their calls where these lead elsewhere from now on."""

    known: weakref.WeakSet[CallCache] = field(default_factory=weakref.WeakSet)
    lock: Any = field(default_factory=threading.Lock)

    def add(self, cache: CallCache) -> None:
        with self.lock:
            self.known.add(cache)

    def forget(self) -> None:
        """Forget all calls of all kernels and operators; what was compiled for them stays."""
        with self.lock:
            every = list(self.known)
        for cache in every:
            cache.forget()


@functools.cache
def caches() -> CallCaches:
    """Return those of this process."""
    return CallCaches()


def signature(args: tuple, constants: tuple, exact: tuple[int, ...] | None) -> tuple:
    """Make a key of everything in a call that decides what is launched.

    Raises `TypeError` for tensors that are not plain, and `RuntimeError` for those without memory.
    """
    key: list = [constants]
    for argument in args:
        type_ = type(argument)
        if type_ in _PLAIN_TENSORS:
            is_aligned = argument.data_ptr() % ALIGNMENT == 0
            key += (argument.dtype, argument.device, argument.shape, argument.stride(), is_aligned, argument.is_neg())
        elif isinstance(argument, torch.Tensor):
            raise TypeError("no plain tensor")
        else:
            key.append(type_ if type_ is not int else int if -(2**31) <= argument < 2**31 else argument.bit_length())
    key.append(same_memory(args))
    for index in range(len(args)) if exact is None else exact:
        value, type_ = args[index], type(args[index])
        if type_ not in _PLAIN_TENSORS:
            key.append((type_, value.hex() if type_ is float else _typed(value) if type_ in (list, tuple) else value))
    return tuple(key)


def _typed(values: Sequence) -> tuple:
    """Pair items with their types, which tells apart what `==` does not, such as 1 and True.

    Raises `TypeError` where one is a tensor: those in lists are not remembered, nor kept alive.
    """
    if any(isinstance(value, torch.Tensor) for value in values):
        raise TypeError("tensors in a list")
    return tuple([(type(value), value) for value in values])


def _shapes(args: tuple) -> tuple:
    """List the shapes of a call's tensors."""
    return tuple([argument.shape for argument in args if type(argument) in _PLAIN_TENSORS])
