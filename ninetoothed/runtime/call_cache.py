"""Remember what calls led to: the call cache. Fast paths find the last calls, an exact signature all others.

    fast path  a function compiled for one call, which recognises it by guards and does it: a microsecond or two
    signature  all that decides what is launched, as a key of a dictionary: some microseconds

A call that neither finds is prepared anew. One that was found by its signature gets a fast path, and is found by that
from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import torch

from ninetoothed.runtime import fast_path, private
from ninetoothed.runtime.fast_path import ALIGNMENT, FastPath, Launchable

# How many fast paths are tried one after another; each that is for another call takes time.
RECENT = 4
# A call that is none of these takes the place of the oldest every so many times.
PATIENCE = 16
# How many calls with tensors of the same shapes have fast paths.
ALIKE = 8
# How many fast paths one signature gets: guards tell more calls apart, by parameters, inference tensors, one tensor
# given twice.
FAST_PATHS = 4
# How many exact signatures are remembered; the older half goes when there are more.
CAPACITY = 1024
_PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})


@dataclass(frozen=True)
class Mark:
    """A note on a call that is nothing to do again."""

    meaning: str


# The call is to be looked at more closely once it comes again.
SEEN = Mark("seen")
# The call has no signature.
UNHASHABLE = Mark("unhashable")


class Entry:
    """The executable or launch plan that calls of one signature led to; counts the fast paths made for them."""

    def __init__(self, found: Launchable):
        self.found = found
        self.fast_paths = 0
        self._run: FastPath | None = None

    def run(self, args: tuple) -> Any:
        """Do it for a call of this signature."""
        if self._run is None:
            self._run = fast_path.unguarded(args, self.found)
        return self._run(args, ())


class CallCache:
    """Remember an entry or a mark for each call, for several threads at once.

    exact: the positions of arguments that count by their value, None for all; of other numbers only the type and, for
    integers, the width counts.

    Three memories, each asked where the one before does not know the call:
    `recent`      fast paths of at most RECENT calls, which whoever calls tries first: the inline cache
    `_by_shapes`  the last ALIKE fast paths for each list of shapes, so that few are tried of many
    `_known`      the last CAPACITY signatures: also those of calls that guards cannot tell from others
    The first two hold nothing that the last does not.

    Only `keep` needs a lock. Others read tuples, which are replaced and never changed, and dictionaries, which are
    replaced before something goes. Of what two threads add at once one part may be lost: it is then added again.
    """

    def __init__(self, exact: tuple[int, ...] | None = None):
        self._exact = exact
        self._known: dict[tuple, Entry | Mark] = {}
        self._by_shapes: dict[tuple, tuple[FastPath, ...]] = {}
        self._tries = 0
        self.recent: tuple[FastPath, ...] = ()

    def again(self, args: tuple, constants: tuple) -> Any:
        """Do a call that has a fast path and is none of the recent ones; None for another call."""
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

    def find(self, args: tuple, constants: tuple) -> Entry | Mark | None:
        """Look a call up by its signature: None if that is not known, UNHASHABLE if it never can be."""
        try:
            known = self._known.get(signature(args, constants, self._exact))
        except (RuntimeError, TypeError):  # no memory, or nothing to hash
            return UNHASHABLE
        return None if isinstance(known, Entry) and _is_outdated(known.found) else known

    def add_fast_path(self, args: tuple, constants: tuple, known: Entry) -> FastPath | None:
        """Make a fast path for a call that was found by its signature, unless that has enough of them."""
        if known.fast_paths == FAST_PATHS:
            return None
        known.fast_paths += 1
        path, shapes = fast_path.guarded(args, constants, self._exact, known.found), _shapes(args)
        if path is not None:
            self._by_shapes[shapes] = (*self._by_shapes.get(shapes, ())[-ALIKE + 1 :], path)
            if len(self.recent) < RECENT:
                self.recent = (*self.recent, path)
        return path

    @overload
    def keep(self, args: tuple, constants: tuple, found: Launchable) -> Entry: ...

    @overload
    def keep(self, args: tuple, constants: tuple, found: Mark) -> Mark: ...

    def keep(self, args: tuple, constants: tuple, found: Launchable | Mark) -> Entry | Mark:
        """Remember what a call led to. Not for several threads at once: its user holds a lock."""
        if len(self._known) >= CAPACITY:
            kept = list(self._known.items())[CAPACITY // 2 :]
            # New ones: other threads may be reading the old ones.
            self._known = {key: known if isinstance(known, Mark) else Entry(known.found) for key, known in kept}
            self._by_shapes = {}
        known = found if isinstance(found, Mark) else Entry(found)
        self._known[signature(args, constants, self._exact)] = known
        return known

    def forget(self) -> None:
        """Forget all calls."""
        self.recent, self._known, self._by_shapes = (), {}, {}

    def __len__(self) -> int:
        return len(self._known)


def _is_outdated(found: Launchable) -> bool:
    """Tell whether something was made under another precision of float32 products, where that matters."""
    return found.precision is not None and found.precision != private.matmul_precision()


def signature(args: tuple, constants: tuple, exact: tuple[int, ...] | None) -> tuple:
    """Make a key of all of a call that decides what is launched.

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
