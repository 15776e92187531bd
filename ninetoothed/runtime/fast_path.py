"""Write fast paths: functions that recognise a call by guards, and launch.

The text of a fast path is the only form of a launch, and this the only file that writes any: guards, then what an
executable or a launch plan says. For a call with two tensors, and for one that allocates its output, too:

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
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import copysign
from types import CodeType
from typing import Any

import torch

from ninetoothed.runtime import private
from ninetoothed.runtime.aliasing import reach
from ninetoothed.runtime.arguments import ALIGNMENT
from ninetoothed.runtime.compilation.compile import LoadedKernel
from ninetoothed.runtime.compilation.descriptors import DescriptorTable
from ninetoothed.runtime.executable import CpuExecutable, Executable, GpuExecutable
from ninetoothed.runtime.launch_steps import CopyStep, LaunchPlan, View
from ninetoothed.runtime.workspace import Allocation, Workspace

_SINGLETONS = frozenset({bool, type(None)})

# `fast_path(args, constants)` returns what the call does, True for nothing; None for another call.
FastPath = Callable[[tuple, tuple], Any]


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


# -- guards --


def unguarded(args: tuple, found: Executable) -> FastPath:
    """Write the launch for calls of one signature, without guards."""
    source, are_tensors = FunctionBody(), [isinstance(value, torch.Tensor) for value in args]
    _unpack(source, are_tensors)
    for position in itertools.compress(range(len(args)), are_tensors):
        source.add(f"p{position} = x{position}.data_ptr()")
    return _finished(source, are_tensors, found)


def guarded(args: tuple, constants: tuple, exact: tuple[int, ...] | None, found: Executable) -> FastPath | None:
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


def _finished(source: FunctionBody, are_tensors: Sequence[bool], found: Executable) -> FastPath:
    """Write the launch itself, on the right GPU, and compile the function."""
    if found.device is not None:
        device = source.name(found.device)
        source.add(f"if {source.name(private.current_device)}() != {device}:")
        source.add(f"    with {source.name(torch.cuda.device)}({device}): return fast_path(args, constants)")
    values = [f"p{i}" if is_tensor else f"x{i}" for i, is_tensor in enumerate(are_tensors)]
    source.add(f"return {written(source, found, values)}")
    return source.function()


# -- launches --


def written(source: FunctionBody, found: Executable, values: list[str]) -> str:
    """Write a launch for these arguments, tensors by their addresses; return the expression of the result."""
    match found:
        case GpuExecutable():
            _write_launch(source, found, values)
        case CpuExecutable():
            source.add(f"{source.name(found.run)}(args)")
        case LaunchPlan() if found.outputs is not None:
            return _written_plan(source, found)
    return "True"


def _written_plan(source: FunctionBody, plan: LaunchPlan) -> str:
    """Write the steps of a plan for arguments `x0`, ... at `p0`, ...; return the expression of the output."""
    steps = FunctionBody(names=source.names)
    for step in plan.steps:
        if isinstance(step, CopyStep):
            target = _view(steps, step.target)
            steps.add(f"{target}.zero_()" if step.source is None else f"{target}.copy_({_view(steps, step.source)})")
        else:
            values = [steps.name(value) for value in step.args]
            for position, number, offset in step.places:
                values[position] = f"p{number} + {steps.name(offset)}" if offset else f"p{number}"
            written(steps, step.executable, values)
    # A kernel need not use all of its arguments.
    mentioned = frozenset(re.findall(r"\b[xp]\d+\b", "".join(steps.lines)))
    outputs = range(plan.count, plan.count + max(plan.outputs or 0, 1))
    for number, allocation in enumerate(plan.allocations, plan.count):
        if number in outputs or mentioned & {f"x{number}", f"p{number}"}:
            source.add(f"x{number} = {allocated(source, allocation, plan.device)}")
        if f"p{number}" in mentioned:
            source.add(f"p{number} = x{number}.data_ptr()")
    source.lines += steps.lines
    return f"({''.join(f'x{number}, ' for number in outputs)})" if plan.outputs else f"x{plan.count}"


def _view(source: FunctionBody, view: View) -> str:
    """Write the expression of a view."""
    base = f"x{view.number}"
    if view.is_whole:
        return base
    size, stride, start = map(source.name, (view.size, view.stride, view.start))
    return f"{base}.as_strided({size}, {stride}, {base}.storage_offset() + {start})"


def allocated(source: FunctionBody, like: Allocation, current: int | None) -> str:
    """Write the expression that allocates memory, for a function that runs while `current` is the current GPU."""
    size, stride, dtype = map(source.name, (like.size, like.stride, like.dtype))
    if like.device.index is not None and like.device.index == current and private.empty_strided_cuda is not None:
        return f"{source.name(private.empty_strided_cuda)}({size}, {stride}, {dtype})"
    return f"{source.name(torch.empty_strided)}({size}, {stride}, dtype={dtype}, device={source.name(like.device)})"


def _write_launch(source: FunctionBody, found: GpuExecutable, values: list[str]) -> None:
    """Write the launch of a kernel."""
    given = [*values, *map(source.name, found.integers)]
    for position in found.on_host:
        given[position] = f"args[{position}].item()"
    passed = [given[position] for position in found.order]
    if found.table is not None:
        passed = _described(source, found.table, passed)
    stream = f"{source.name(private.current_stream)}({source.name(found.device)})"
    if found.workspace is not None:
        source.add(f"stream = {stream}")
        passed, stream = with_workspace(source, found.workspace, passed), "stream"
    write_kernel(source, found.kernel, found.programs, passed, stream)


def _described(source: FunctionBody, table: DescriptorTable, values: list[str]) -> list[str]:
    """Write the expressions of a kernel's arguments, of which the first are given as addresses to describe."""
    count = len(table.shapes)
    addresses = f"({', '.join(values[:count])},)"
    ready = f"{source.name(table.known)}.get({addresses}) or {source.name(table.make)}({addresses})"
    return [f"*({ready})", *values[count:]]


def with_workspace(source: FunctionBody, own: Workspace, values: list[str]) -> list[str]:
    """Write the workspace of a launch on `stream`; return all arguments. It is held until the launch is enqueued."""
    source.add(f"workspace = {allocated(source, own.allocation, own.allocation.device.index)}")
    source.add(f"semaphores = {source.name(own.semaphores.on)}(stream, {source.name(own.count)})")
    addresses = [
        f"{'semaphores' if is_zeroed else 'workspace'}.data_ptr()" + (f" + {start}" if start else "")
        for is_zeroed, start in own.places
    ]
    cut = len(values) - own.after
    return [*values[:cut], *addresses, *values[cut:]]


def write_kernel(
    source: FunctionBody, kernel: LoadedKernel, programs: tuple[int, int, int], arguments: Sequence[str], stream: str
) -> None:
    """Write a launch of so many programs on the current device, which is the kernel's.

    arguments, stream: the expressions of those of `emitted.arguments`, in their order, and of the stream's address.
    """
    passed = "".join(f"{each}, " for each in arguments)
    axes = ", ".join(map(source.name, programs))
    watched = f"{source.name(kernel.watched)}(({axes}), ({passed}), {stream})"
    if kernel.launch is None:
        source.add(watched)
        return
    settings, fixed = source.name(kernel.runtime), source.name(kernel.fixed)
    # A hook is a function or None, or a chain of functions, which may be empty.
    source.add(f"enter, leave = {settings}.launch_enter_hook, {settings}.launch_exit_hook")
    source.add(f"if getattr(enter, 'calls', enter) or getattr(leave, 'calls', leave): {watched}")
    passed = passed if kernel.singly else f"({passed})"
    source.add(f"else: {source.name(kernel.launch)}({axes}, {stream}, *{fixed}, {passed})")
