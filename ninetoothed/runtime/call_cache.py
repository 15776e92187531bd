"""Calls that were seen before, and what they led to: the last ones recognised by guards, all others by a signature.

What the last ones led to is written out as functions in Python. Each recognises its call and does it again, or returns
None for another call; of a call with two tensors, and of one that also allocates its output:

    def repeat(args, constants):                       def repeat(args, constants):
        if len(args) != 2 or constants != c0:              ...
            return None
        x0, x1 = args
        if not c1(x0, x1):
            return None
        if (p0 := x0.data_ptr()) % 16:
            return None
        if (p1 := x1.data_ptr()) % 16:
            return None
        if c2() != c3:
            with c4(c3):
                return repeat(args, constants)
                                                           x2 = c5(c6, c7, c8)
                                                           p2 = x2.data_ptr()
        c5(c6, (p0, p1, c7), c8(c3))                       c9(c10, (p0, p1, p2, c11), c12(c3))
        return True                                        return x2

That takes half the time of functions that do the same for any call. `c1`, one of the guards of `torch.compile`,
compares types, devices, shapes and strides of all tensors in one call into C++. It is no public part of PyTorch: where
it is missing, or different from what is expected here, signatures alone do the work.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import copysign
from typing import Any

import torch

from ninetoothed.runtime.guard_source import FunctionSource, Repeat, Written
from ninetoothed.runtime.specialise import ALIGNMENT

try:
    from torch._C._dynamo.guards import TensorGuards
except ImportError:
    TensorGuards = None

# How many calls are tried one after another; each that is another call takes time.
RECENT = 4
# A call that is none of these takes the place of the oldest every so many times.
PATIENCE = 16
# How many calls with tensors of the same shapes are written out.
ALIKE = 8
# How often one signature is: guards tell more calls apart, by parameters, inference tensors, one tensor given twice.
KINDS = 4
# How many exact signatures are remembered; the older half goes when there are more.
CAPACITY = 1024
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_SINGLE = frozenset({bool, type(None)})


@dataclass(frozen=True)
class Mark:
    """Stands for what a call led to where that is nothing to do again."""

    meaning: str


# The call is to be looked at more closely once it comes again.
SEEN = Mark("seen")


class CallCache:
    """What calls led to, for several threads at once: a mark, or what can be written out (see `Written`).

    exact: the positions of arguments that count by their value, None for all; of other numbers only the type and, for
    integers, the width counts.
    recent: the last calls that are written out, to be tried first.

    `_known` holds what each signature led to, for the last `CAPACITY` of them at most. All else follows from it, and is
    there so that it need not be asked. `_by_shapes`: what was written, the last `ALIKE` for tensors of the same shapes;
    each recognises its call by itself. `recent`: at most `RECENT` that are or were among them. `_written`: how often
    that was done for something known, by its `id`; another object may get that later, so `keep` drops it in time.

    Only `keep` needs a lock. Others read tuples, which are replaced and never changed, and dictionaries, which are
    replaced before something goes. Of what two threads write at once one part may be lost: it is then written again.
    """

    def __init__(self, exact: tuple[int, ...] | None = None):
        self._exact = exact
        self._known: dict[tuple, Any] = {}
        # How often what a call led to was written out, by its identity; what was written, by the shapes of tensors.
        self._written: dict[int, int] = {}
        self._by_shapes: dict[tuple, tuple[Repeat, ...]] = {}
        self._tries = 0
        self.recent: tuple[Repeat, ...] = ()

    def again(self, args: tuple, constants: tuple) -> Any:
        """Do again what a call led to that is not one of the recent ones, and is written out; None for another call."""
        try:
            alike = self._by_shapes.get(_shapes(args), ())
        except (RuntimeError, TypeError):  # no shapes that are known
            return None
        for repeat in alike:
            output = repeat(args, constants)
            if output is not None:
                self._tries += 1
                if self._tries % PATIENCE == 0:
                    self.recent = (*self.recent[-RECENT + 1 :], repeat)
                return output
        return None

    def find(self, args: tuple, constants: tuple) -> tuple[Written | Mark | None, list[int] | None]:
        """What this call led to (None if that is not known), and the addresses of its tensors, in their order."""
        try:
            key, addresses = signature(args, constants, self._exact)
            found = self._known.get(key)
        except (RuntimeError, TypeError):  # no memory, or nothing to hash
            return None, None
        if found is None or type(found) is Mark:
            return found, addresses
        return (None if is_outdated(found) else found), addresses

    def write(self, args: tuple, constants: tuple, found: Written) -> Repeat | None:
        """Write out what this call led to, unless that was done for enough calls that led to the same."""
        count = self._written.get(id(found), 0)
        if count == KINDS:
            return None
        self._written[id(found)] = count + 1
        new, shapes = guarded(args, constants, self._exact, found), _shapes(args)
        if new is not None:
            self._by_shapes[shapes] = (*self._by_shapes.get(shapes, ())[-ALIKE + 1 :], new)
            if len(self.recent) < RECENT:
                self.recent = (*self.recent, new)
        return new

    def keep(self, args: tuple, constants: tuple, found: Written | Mark) -> None:
        """Remember what a call led to. Not for several threads at once: its user holds a lock."""
        if len(self._known) >= CAPACITY:
            # New ones: other threads may be reading the old ones.
            self._known = dict(list(self._known.items())[CAPACITY // 2 :])
            self._written, self._by_shapes = {}, {}
        key = signature(args, constants, self._exact)[0]
        self._written.pop(id(self._known.get(key)), None)
        self._known[key] = found

    def forget(self) -> None:
        self.recent, self._known, self._written, self._by_shapes = (), {}, {}, {}

    def __len__(self) -> int:
        return len(self._known)


def is_outdated(found: Written) -> bool:
    """Whether something was made under another precision of float32 products, where that matters."""
    return found.precision is not None and found.precision != torch._C._get_float32_matmul_precision()


def signature(args: tuple, constants: tuple, exact: tuple[int, ...] | None) -> tuple[tuple, list[int]]:
    """All of a call that decides what is launched, and the addresses of its tensors.

    Raises `TypeError` for tensors that are not plain, and `RuntimeError` for those without memory.
    """
    key: list = [constants]
    addresses: list[int] = []
    for argument in args:
        kind = type(argument)
        if kind in _TENSORS:
            address = argument.data_ptr()
            key += (argument.dtype, argument.device, argument.shape, argument.stride(), address % ALIGNMENT == 0)
            key.append(argument.is_neg())
            addresses.append(address)
        elif isinstance(argument, torch.Tensor):
            raise TypeError("no plain tensor")
        else:
            key.append(kind if kind is not int else int if -(2**31) <= argument < 2**31 else argument.bit_length())
    for index in range(len(args)) if exact is None else exact:
        value, kind = args[index], type(args[index])
        if kind not in _TENSORS:
            key.append((kind, value.hex() if kind is float else _items(value) if kind in (list, tuple) else value))
    return tuple(key), addresses


def _items(values: Sequence) -> tuple:
    """Values that tell apart what `==` does not, such as 1 from True. Raises `TypeError` where one is a tensor."""
    if any(isinstance(value, torch.Tensor) for value in values):
        raise TypeError("tensors in a list are not remembered, nor kept alive")
    return tuple([(type(value), value) for value in values])


def _shapes(args: tuple) -> tuple:
    return tuple([argument.shape for argument in args if type(argument) in _TENSORS])


# -- calls that are written out --


def unguarded(are_tensors: Sequence[bool], found: Written) -> Repeat:
    """What does again what a call led to, for calls of the same signature."""
    text = FunctionSource()
    _unpack(text, are_tensors)
    return _done(text, are_tensors, found)


def guarded(args: tuple, constants: tuple, exact: tuple[int, ...] | None, found: Written) -> Repeat | None:
    """What recognises a call and does it again, or None for one that guards cannot tell from others."""
    are_tensors = [isinstance(value, torch.Tensor) for value in args]
    first: dict[int, int] = {}  # Guards take each tensor once.
    for i in itertools.compress(range(len(args)), are_tensors):
        first.setdefault(id(args[i]), i)
    check = _check([args[i] for i in first.values()])
    if check is None:
        return None

    text = FunctionSource()
    text.add(f"if len(args) != {len(args)} or constants != {text.name(constants)}: return None")
    _unpack(text, are_tensors)
    text.add(f"if not {text.name(check)}({', '.join(f'x{i}' for i in first.values())}): return None")
    for i, value in enumerate(args):
        if not are_tensors[i]:
            text.add(f"if {_differs(text, f'x{i}', value, exact is None or i in exact)}: return None")
        elif first[id(value)] != i:
            text.add(f"if x{i} is not x{first[id(value)]}: return None")
    if found.precision is not None:
        precision = text.name(torch._C._get_float32_matmul_precision)
        text.add(f"if {precision}() != {text.name(found.precision)}: return None")
    return _done(text, are_tensors, found)


def _check(tensors: Sequence[torch.Tensor]) -> Callable[..., bool] | None:
    """Whether tensors are like these, all of which are aligned; None where that cannot be told."""
    if TensorGuards is None or not tensors or any(tensor.data_ptr() % ALIGNMENT for tensor in tensors):
        return None
    shapes, strides = [list(tensor.shape) for tensor in tensors], [list(tensor.stride()) for tensor in tensors]
    try:
        check = TensorGuards(*tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides).check
        works = check(*tensors) and not check(*(tensor.unsqueeze(0) for tensor in tensors))
    except (TypeError, RuntimeError):
        return None
    return check if works else None


def _differs(text: FunctionSource, name: str, value: Any, is_exact: bool) -> str:
    """The condition that what has this name is another value; where that may be, one of another type or width."""
    kind = type(value)
    if is_exact and kind in _SINGLE:
        return f"{name} is not {value}"
    is_other = f"type({name}) is not {text.name(kind)}"
    if not is_exact:
        return is_other + (f" or not {-(2**31)} <= {name} < {2**31}" if kind is int else "")
    is_other += f" or {name} != {text.name(list(value) if kind is list else value)}"
    if kind is tuple:
        is_other += f" or [*map(type, {name})] != {text.name([*map(type, value)])}"
    # Zeros of either sign are equal, and not the same.
    is_zero = kind is float and not value
    return is_other + (f" or {text.name(copysign)}(1, {name}) != {copysign(1, value)}" if is_zero else "")


def _unpack(text: FunctionSource, are_tensors: Sequence[bool]) -> None:
    text.add(f"{''.join(f'x{i}, ' for i in range(len(are_tensors)))}= args")


def _done(text: FunctionSource, are_tensors: Sequence[bool], found: Written) -> Repeat:
    """The function of a text, with the end written: what a call led to, on the GPU that has to be the current one."""
    for i in itertools.compress(range(len(are_tensors)), are_tensors):
        text.add(f"if (p{i} := x{i}.data_ptr()) % {ALIGNMENT}: return None")
    if found.device is not None:
        device = text.name(found.device)
        text.add(f"if {text.name(torch._C._cuda_getDevice)}() != {device}:")
        text.add(f"    with {text.name(torch.cuda.device)}({device}): return repeat(args, constants)")
    values = [f"p{i}" if is_tensor else f"x{i}" for i, is_tensor in enumerate(are_tensors)]
    text.add(f"return {found.write(text, values)}")
    return text.function()
