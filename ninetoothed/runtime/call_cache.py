"""Remember what calls led to. Fast paths recognise recent calls; all others are looked up by their exact signature.

    fast path  a function compiled for one call, which recognises it by guards and launches: one or two microseconds
    signature  everything that decides what is launched, as the key of a dictionary: some microseconds

A call that neither recognises is prepared anew. A call that was found by its signature gets a fast path.

The text of a fast path is the only form of a launch. Each part of the runtime writes its own lines: the guards here,
then an executable or a launch plan, then the loaded kernel. For a call with two tensors, and for one that allocates its
output, too:

    def fast_path(args, constants):                    def fast_path(args, constants):
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
                return fast_path(args, constants)
                                                           x2 = c5(c6, c7, c8)
                                                           p2 = x2.data_ptr()
        c5(c6, (p0, p1, c7), c8(c3))                       c9(c10, (p0, p1, p2, c11), c12(c3))
        return True                                        return x2

The names in it:

    x0, x1, ...         the arguments, each by itself, and after them what the call allocates
    p0, p1, ...         the addresses of those that are tensors
    c0, c1, ...         values that are no part of the text: functions, numbers, shapes (see `FunctionBody.name`)
    enter, leave        Triton's hooks, within a launch
    stream, workspace, semaphores     those of a launch with memory of its own, held until the next such launch

Closures that do the same take some .8 microseconds more (`python -m benchmarks.host`): they build lists and loop over
them. `c1`, a guard of `torch.compile`, compares types, devices, shapes and strides of all tensors in one call into C++.
Where it is missing, signatures alone tell calls apart.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import copysign
from types import CodeType
from typing import Any, Protocol, overload

import torch

from ninetoothed.free_names import FreeName
from ninetoothed.runtime import private
from ninetoothed.runtime.aliasing import Pair, reach

# Bytes by which addresses of tensors are divisible, or not: the variants differ.
ALIGNMENT = 16
_SINGLETONS = frozenset({bool, type(None)})
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

# `fast_path(args, constants)` returns what the call does, True for nothing; None for another call.
FastPath = Callable[[tuple, tuple], Any]


# -- fast paths --


class Launchable(Protocol):
    """An executable or a launch plan: it writes the text of a launch.

    precision: that of float32 products, where it matters. device: the GPU that has to be the current one. separate: the
    pairs of arguments that may not share a part of their memory; plans have none: those of their launches are checked
    only while they are recorded. free_names: the names outside an application that it was traced with.
    """

    @property
    def precision(self) -> str | None: ...

    @property
    def device(self) -> int | None: ...

    @property
    def separate(self) -> tuple[Pair, ...]: ...

    @property
    def free_names(self) -> tuple[FreeName, ...]: ...

    def write(self, source: FunctionBody, values: list[str]) -> str:
        """Write the launch for these arguments, tensors by their addresses; return the expression of the result."""


@dataclass
class FunctionBody:
    """The body of a function that is being written, and the values that its text refers to by name."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)

    def add(self, line: str) -> None:
        """Add a line."""
        self.lines.append(f"    {line}\n")

    def name(self, value: Any) -> str:
        """Name a value, to refer to it in the text."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def function(self) -> FastPath:
        """Compile the function."""
        exec(_code("".join(("def fast_path(args, constants):\n", *self.lines))), self.names)
        return self.names["fast_path"]


@functools.lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    """Compile a text. Most calls of one function have the same text, and differ in the values of its names."""
    return compile(text, "<fast path>", "exec")


def unguarded(args: tuple, found: Launchable) -> FastPath:
    """Write the launch for calls of one signature, without guards."""
    source, are_tensors = FunctionBody(), [isinstance(value, torch.Tensor) for value in args]
    _unpack(source, are_tensors)
    for position in itertools.compress(range(len(args)), are_tensors):
        source.add(f"p{position} = x{position}.data_ptr()")
    return _finished(source, are_tensors, found)


def guarded(args: tuple, constants: tuple, exact: tuple[int, ...] | None, found: Launchable) -> FastPath | None:
    """Write the guarded launch for calls like this; None where guards cannot tell them from others.

    Guards need at least one tensor, and tensors that are all aligned.
    """
    are_tensors = [isinstance(value, torch.Tensor) for value in args]
    first: dict[int, int] = {}  # Guards take each tensor once.
    for i in itertools.compress(range(len(args)), are_tensors):
        first.setdefault(id(args[i]), i)
    tensors = [args[i] for i in first.values()]
    is_like = private.tensor_guard(tensors)
    if is_like is None or any(tensor.data_ptr() % ALIGNMENT for tensor in tensors):
        return None

    source = FunctionBody()
    source.add(f"if len(args) != {len(args)} or constants != {source.name(constants)}: return None")
    _unpack(source, are_tensors)
    source.add(f"if not {source.name(is_like)}({', '.join(f'x{i}' for i in first.values())}): return None")
    for i, value in enumerate(args):
        if not are_tensors[i]:
            source.add(f"if {_differs(source, f'x{i}', value, exact is None or i in exact)}: return None")
        elif first[id(value)] != i:
            source.add(f"if x{i} is not x{first[id(value)]}: return None")
    if found.precision is not None:
        precision = source.name(private.matmul_precision)
        source.add(f"if {precision}() != {source.name(found.precision)}: return None")
    if found.free_names:
        source.add("try:")
        for name in found.free_names:
            source.add(f"    if {name.differs(source.name)}: return None")
        source.add("except Exception: return None")
    for i in itertools.compress(range(len(are_tensors)), are_tensors):
        source.add(f"if (p{i} := x{i}.data_ptr()) % {ALIGNMENT}: return None")
    for pair in found.separate:
        i, j = pair.output, pair.other
        if args[i] is not args[j] and (reached := reach(args[i], args[j])):
            # The distance of this call is known to be right.
            distance = args[i].data_ptr() - args[j].data_ptr()
            known = f" and p{i} - p{j} != {distance}" if reached[0] < distance < reached[1] else ""
            source.add(f"if {reached[0]} < p{i} - p{j} < {reached[1]}{known}: return None")
    return _finished(source, are_tensors, found)


def _differs(source: FunctionBody, name: str, value: Any, is_exact: bool) -> str:
    """Write the condition that an argument differs: in its value if that counts (`is_exact`), else in type or width."""
    type_ = type(value)
    if is_exact and type_ in _SINGLETONS:
        return f"{name} is not {value}"
    is_other = f"type({name}) is not {source.name(type_)}"
    if not is_exact:
        return is_other + (f" or not {-(2**31)} <= {name} < {2**31}" if type_ is int else "")
    is_other += f" or {name} != {source.name(list(value) if type_ is list else value)}"
    if type_ is tuple:
        is_other += f" or [*map(type, {name})] != {source.name([*map(type, value)])}"
    # Zeros of either sign are equal, and not the same.
    is_zero = type_ is float and not value
    return is_other + (f" or {source.name(copysign)}(1, {name}) != {copysign(1, value)}" if is_zero else "")


def _unpack(source: FunctionBody, are_tensors: Sequence[bool]) -> None:
    """Write the line that names the arguments."""
    source.add(f"{''.join(f'x{i}, ' for i in range(len(are_tensors)))}= args")


def _finished(source: FunctionBody, are_tensors: Sequence[bool], found: Launchable) -> FastPath:
    """Write the launch itself, on the right GPU, and compile the function."""
    if found.device is not None:
        device = source.name(found.device)
        source.add(f"if {source.name(private.current_device)}() != {device}:")
        source.add(f"    with {source.name(torch.cuda.device)}({device}): return fast_path(args, constants)")
    values = [f"p{i}" if is_tensor else f"x{i}" for i, is_tensor in enumerate(are_tensors)]
    source.add(f"return {found.write(source, values)}")
    return source.function()


# -- the memory of calls --


@dataclass(frozen=True)
class Mark:
    """A note on a call for which there is nothing to replay."""

    meaning: str


# The call was seen once, and is recorded when it comes again.
SEEN = Mark("seen")
# The call has no signature.
UNHASHABLE = Mark("unhashable")


class Entry:
    """The executable or launch plan for calls of one signature, and how many fast paths were made for them."""

    def __init__(self, found: Launchable):
        self.found = found
        self.fast_paths = 0
        self._run: FastPath | None = None

    @property
    def has_all_fast_paths(self) -> bool:
        """Tell whether calls of this signature get no more fast paths."""
        return self.fast_paths == FAST_PATHS

    def run(self, args: tuple) -> Any:
        """Launch for a call of this signature."""
        if self._run is None:
            self._run = unguarded(args, self.found)
        return self._run(args, ())


class CallCache:
    """Remember an entry or a mark for each call, for several threads at once.

    exact: the positions of arguments whose values count; None for all. For other numbers only the type counts, and for
    integers the width.

    Three memories, each asked where the one before does not recognise the call:
    `recent`      at most RECENT fast paths, which callers try first: the inline cache
    `_by_shapes`  the last ALIKE fast paths for each list of shapes, so that few are tried of many
    `_known`      the last CAPACITY signatures, also of calls that guards cannot tell from others
    The first two hold nothing that the last does not.

    Only `keep` needs a lock. Other methods read tuples, which are replaced and never changed, and dictionaries, which
    are replaced before anything is removed. If two threads add something at once, one of it may be lost, and is added
    again later.
    """

    def __init__(self, exact: tuple[int, ...] | None = None):
        self._exact = exact
        self._known: dict[tuple, Entry | Mark] = {}
        self._by_shapes: dict[tuple, tuple[FastPath, ...]] = {}
        self._tries = 0
        self.recent: tuple[FastPath, ...] = ()

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

    def find(self, args: tuple, constants: tuple) -> Entry | Mark | None:
        """Look a call up by its signature: None if it is unknown, UNHASHABLE if it has none."""
        try:
            known = self._known.get(signature(args, constants, self._exact))
        except (RuntimeError, TypeError):  # no memory, or nothing to hash
            return UNHASHABLE
        return None if isinstance(known, Entry) and _is_outdated(known.found) else known

    def add_fast_path(self, args: tuple, constants: tuple, known: Entry) -> FastPath | None:
        """Make a fast path for a call that was found by its signature, unless that has enough of them."""
        if known.has_all_fast_paths:
            return None
        known.fast_paths += 1
        path, shapes = guarded(args, constants, self._exact, known.found), _shapes(args)
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
        """Remember what a call led to. Callers hold a lock."""
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
    """Tell whether an entry was made with other free names, or under another precision of float32 products."""
    is_other = found.precision is not None and found.precision != private.matmul_precision()
    return is_other or not all(name.is_current for name in found.free_names)


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
