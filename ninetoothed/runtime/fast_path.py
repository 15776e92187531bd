"""Write fast paths: functions for one call, which recognise it and do it again.

What a launch does is written once, as the lines of such a function. Each part of the runtime adds its own: the guards
here, then an executable or a launch plan, then the loaded kernel. Of a call with two tensors, and of one that also
allocates its output:

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

    args, constants     what the function is called with
    x0, x1, ...         the arguments, each by itself, and after them what the call allocates
    p0, p1, ...         the addresses of those that are tensors
    c0, c1, ...         values that are no part of the text: functions, numbers, shapes (see `FunctionBody.name`)
    enter, leave        Triton's hooks, within a launch
    stream, workspace, semaphores     those of a launch with memory of its own, held until the next such launch

Closures that do the same for any call take half a microsecond more (a microsecond and a half for a call with many
arguments): they build lists and loop over them. `c1`, a guard of `torch.compile`, compares types, devices, shapes and
strides of all tensors in one call into C++. Where it is missing, signatures alone tell calls apart.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import copysign
from types import CodeType
from typing import Any, Protocol

import torch

from ninetoothed.runtime import private

# Bytes of which the addresses of tensors are multiples, or are not.
ALIGNMENT = 16
_SINGLETONS = frozenset({bool, type(None)})

# `fast_path(args, constants)` returns what the call does, True for nothing; None for another call.
FastPath = Callable[[tuple, tuple], Any]


class Launchable(Protocol):
    """An executable or a launch plan: it writes what its call does.

    precision: that of float32 products, where it matters. device: the GPU that has to be the current one.
    """

    @property
    def precision(self) -> str | None: ...

    @property
    def device(self) -> int | None: ...

    def write(self, source: FunctionBody, values: list[str]) -> str:
        """Write what is to be done for these arguments, tensors by their addresses; return the result's expression."""


@dataclass
class FunctionBody:
    """The body of a function as it is written, and the names of the values in it that are no part of its text."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)

    def add(self, line: str) -> None:
        """Add a line."""
        self.lines.append(f"    {line}\n")

    def name(self, value: Any) -> str:
        """Name a value that is no part of the text."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def function(self) -> FastPath:
        """Compile the function."""
        exec(_code("".join(("def fast_path(args, constants):\n", *self.lines))), self.names)
        return self.names["fast_path"]


@functools.lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    """Compile a text: that of most calls of one function differs in the values of its names alone."""
    return compile(text, "<fast path>", "exec")


def unguarded(args: tuple, found: Launchable) -> FastPath:
    """Write the function that does what calls of one signature led to, without looking whether a call is one."""
    source, are_tensors = FunctionBody(), [isinstance(value, torch.Tensor) for value in args]
    _unpack(source, are_tensors)
    for position in itertools.compress(range(len(args)), are_tensors):
        source.add(f"p{position} = x{position}.data_ptr()")
    return _finished(source, are_tensors, found)


def guarded(args: tuple, constants: tuple, exact: tuple[int, ...] | None, found: Launchable) -> FastPath | None:
    """Write the function that recognises a call like this and does it; None where guards cannot tell it from others.

    They can where all tensors are aligned, and there is one.
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
    for i in itertools.compress(range(len(are_tensors)), are_tensors):
        source.add(f"if (p{i} := x{i}.data_ptr()) % {ALIGNMENT}: return None")
    return _finished(source, are_tensors, found)


def _differs(source: FunctionBody, name: str, value: Any, is_exact: bool) -> str:
    """Write the condition that an argument differs: in its value, or where that may be any, in its type or width."""
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
    """Write the end, which is done on the GPU that has to be the current one."""
    if found.device is not None:
        device = source.name(found.device)
        source.add(f"if {source.name(private.current_device)}() != {device}:")
        source.add(f"    with {source.name(torch.cuda.device)}({device}): return fast_path(args, constants)")
    values = [f"p{i}" if is_tensor else f"x{i}" for i, is_tensor in enumerate(are_tensors)]
    source.add(f"return {found.write(source, values)}")
    return source.function()
