"""Write fast paths: functions that recognise a call by guards, and launch.

The text of a fast path is the only form of a launch, and this the only file that writes any: guards, then what a
launch plan says. For a call with two tensors, and for one that allocates its output, too:

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
        status = None
        if ...:  # no hook watches
            try:
                memory, at, call = slot = c5()
                c6(memory, at, c7(c3), p0, p1)                     c6(memory, at, c7(c3), p0, p1, p2)
                status = call()
                c8(slot)
            except (IndexError, OverflowError): pass
        if status != 0: c9(c7(c3), p0, p1)                 ...
        return True                                        return x2

The names in it:

    x0, x1, ...         the arguments, each by itself, and after them what the call allocates
    p0, p1, ...         the addresses of those that are tensors
    c0, c1, ...         values that are no part of the text: functions, numbers, shapes (see `FunctionBody.name`)
    e0, e1, ...         descriptors, encoded
    stream, workspace, semaphores     those of a launch with memory of its own, held until the next such launch

Closures that do the same take some .8 microseconds more (`python -m benchmarks.host`): they build lists and loop over
them. `c1`, a guard of `torch.compile`, compares types, devices, shapes and strides of all tensors in one call into C++.
Where it is missing, signatures alone tell calls apart.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import copysign
from types import CodeType
from typing import Any

import torch

from ninetoothed.runtime import private
from ninetoothed.runtime.arguments import ALIGNMENT
from ninetoothed.runtime.launch_steps import Copy, FastPath, Launch, LaunchPlan, Scalar, TensorAddress, View
from ninetoothed.runtime.launching.code import Launchable
from ninetoothed.runtime.launching.descriptors import DescriptorTable
from ninetoothed.runtime.memory import reach
from ninetoothed.runtime.workspace import Allocation, Workspace

_SINGLETONS = frozenset({bool, type(None)})


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


def run(plan: LaunchPlan, args: tuple) -> Any:
    """Run a plan for a call of its signature."""
    if plan.unguarded is None:
        plan.unguarded = unguarded(plan)
    return plan.unguarded(args, ())


def unguarded(plan: LaunchPlan) -> FastPath:
    """Write a plan for calls of its signature, without guards."""
    source = FunctionBody()
    _unpack(source, [f"x{i}" for i in range(plan.count)])
    return _finished(source, plan, range(plan.count))


def guarded(args: tuple, constants: tuple, exact: tuple[int, ...] | None, plan: LaunchPlan) -> FastPath | None:
    """Write a plan for calls like this, with guards; None where these cannot tell them from others.

    Guards need at least one tensor, and tensors that are all aligned. There may be more arguments than the plan has.
    """
    places = [i for i, value in enumerate(args) if isinstance(value, torch.Tensor)]
    first: dict[int, int] = {}  # Guards take each tensor once.
    for i in places:
        first.setdefault(id(args[i]), i)
    tensors = [args[i] for i in first.values()]
    is_like = private.tensor_guard(tensors)
    if is_like is None or any(tensor.data_ptr() % ALIGNMENT for tensor in tensors):
        return None

    source = FunctionBody()
    source.add(f"if len(args) != {len(args)} or constants != {source.name(constants)}: return None")
    # What the plan does not have is no tensor, and comes last.
    names = [f"{'x' if i < plan.count else 'd'}{i}" for i in range(len(args))]
    _unpack(source, names)
    source.add(f"if not {source.name(is_like)}({', '.join(f'x{i}' for i in first.values())}): return None")
    for i, value in enumerate(args):
        if i not in places:
            source.add(f"if {_differs(source, names[i], value, exact is None or i in exact)}: return None")
        elif first[id(value)] != i:
            source.add(f"if x{i} is not x{first[id(value)]}: return None")
    if plan.precision is not None:
        precision = source.name(private.matmul_precision)
        source.add(f"if {precision}() != {source.name(plan.precision)}: return None")
    if plan.free_names:
        source.add("try:")
        for name in plan.free_names:
            source.add(f"    if {name.differs(source.name)}: return None")
        source.add("except Exception: return None")
    for i in places:
        source.add(f"if (p{i} := x{i}.data_ptr()) % {ALIGNMENT}: return None")
    for pair in plan.separate:
        i, j = pair.output, pair.other
        if args[i] is not args[j] and (reached := reach(args[i], args[j])):
            # The distance of this call is known to be right.
            distance = args[i].data_ptr() - args[j].data_ptr()
            known = f" and p{i} - p{j} != {distance}" if reached[0] < distance < reached[1] else ""
            source.add(f"if {reached[0]} < p{i} - p{j} < {reached[1]}{known}: return None")
    return _finished(source, plan)


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


def _unpack(source: FunctionBody, names: Sequence[str]) -> None:
    """Write the line that names the arguments."""
    source.add(f"{''.join(f'{name}, ' for name in names)}= args" if names else "pass")


# -- launches --


def _finished(source: FunctionBody, plan: LaunchPlan, unknown: Iterable[int] = ()) -> FastPath:
    """Write the plan itself, on the right GPU, and compile the function.

    unknown: the numbers of arguments whose addresses have no names yet.
    """
    # Where there is one GPU, it is the current one.
    if plan.device is not None and torch.cuda.device_count() != 1:
        device = source.name(plan.device)
        source.add(f"if {source.name(private.current_device)}() != {device}:")
        source.add(f"    with {source.name(torch.cuda.device)}({device}): return fast_path(args, constants)")
    source.add(f"return {written(source, plan, unknown)}")
    return source.function()


def written(source: FunctionBody, plan: LaunchPlan, unknown: Iterable[int] = ()) -> str:
    """Write the steps of a plan for arguments `x0`, ... at `p0`, ...; return the expression of the result."""
    steps = FunctionBody(names=source.names)
    for step in plan.steps:
        write_step(steps, step, plan.device)
    # A kernel need not use all of its arguments.
    mentioned = frozenset(re.findall(r"\b[xp]\d+\b", "".join(steps.lines)))
    outputs = range(plan.count, plan.count + (0 if plan.outputs is None else max(plan.outputs, 1)))
    for number, allocation in enumerate(plan.allocations, plan.count):
        if number in outputs or mentioned & {f"x{number}", f"p{number}"}:
            source.add(f"x{number} = {allocated(source, allocation, plan.device)}")
    for number in (*unknown, *range(plan.count, plan.count + len(plan.allocations))):
        if f"p{number}" in mentioned:
            source.add(f"p{number} = x{number}.data_ptr()")
    source.lines += steps.lines
    made = [f"x{number}" for number in outputs]
    return f"({', '.join(made)},)" if plan.outputs else made[0] if made else "True"


def write_step(source: FunctionBody, step: Any, device: int | None) -> None:
    """Write a step of a plan for this GPU."""
    match step:
        case Launch():
            _write_launch(source, step, device)
        case Copy():
            target = _view(source, step.target)
            source.add(f"{target}.zero_()" if step.source is None else f"{target}.copy_({_view(source, step.source)})")
        case _:
            source.add(f"{source.name(step)}(args)")


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


def _write_launch(source: FunctionBody, step: Launch, device: int | None) -> None:
    """Write the launch of a kernel."""
    passed = [written_value(source, each) for each in step.passed]
    if step.table is not None:
        passed = _described(source, step.table, passed)
    stream = f"{source.name(private.current_stream)}({source.name(device)})"
    if step.workspace is not None:
        source.add(f"stream = {stream}")
        passed, stream = with_workspace(source, step.workspace, passed), "stream"
    write_kernel(source, step.kernel, step.programs, passed, stream)


def written_value(source: FunctionBody, passed: TensorAddress | Scalar | float) -> str | float:
    """Write the expression of an argument of a kernel; a number is one for all launches."""
    match passed:
        case TensorAddress(number, offset):
            return f"p{number} + {source.name(offset)}" if offset else f"p{number}"
        case Scalar(number, on_host):
            return f"x{number}.item()" if on_host else f"x{number}"
    return passed


def _described(source: FunctionBody, table: DescriptorTable, values: list[str | float]) -> list[str | float]:
    """Write the descriptors of a launch; return all arguments, of which the first are the addresses to describe."""
    count = len(table.shapes)
    addresses = f"({', '.join(map(str, values[:count]))},)"
    names = [f"e{i}" for i in range(count)]
    known, make = source.name(table.known), source.name(table.make)
    source.add(f"{', '.join(names)}, = {known}.get({addresses}) or {make}({addresses})")
    described: list[str | float] = []
    for name, (sizes, strides) in zip(names, table.shapes, strict=True):
        described += [name, *sizes, *strides]
    return [*described, *values[count:]]


def with_workspace(source: FunctionBody, own: Workspace, values: list[str | float]) -> list[str | float]:
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
    source: FunctionBody,
    kernel: Launchable,
    programs: tuple[int, int, int],
    arguments: Sequence[str | float],
    stream: str,
) -> None:
    """Write a launch of so many programs on the current device, which is the kernel's.

    arguments: those of `emitted.arguments`, in their order: expressions, and numbers that are the same at all launches.
    stream: the expression of the stream's address.
    """
    prepared = kernel.prepare(programs, tuple(None if isinstance(each, str) else each for each in arguments))
    given = ", ".join([stream, *(each for each in arguments if isinstance(each, str))])
    if prepared.spare is None:
        source.add(f"{source.name(prepared.launch)}({given})")
        return
    source.add("status = None")
    source.add(f"if {_is_unwatched(source, kernel.hooks)}:")
    source.add("    try:")
    source.add(f"        memory, at, call = slot = {source.name(prepared.spare.pop)}()")
    source.add(f"        {source.name(prepared.pack)}(memory, at, {given})")
    source.add("        status = call()")
    source.add(f"        {source.name(prepared.spare.append)}(slot)")
    # There is no slot, or a float that float32 takes for infinite.
    source.add("    except (IndexError, OverflowError): pass")
    source.add(f"if status != 0: {source.name(prepared.launch)}({given})")


def _is_unwatched(source: FunctionBody, settings: Any) -> str:
    """Write the condition that no hook watches launches: a function or None, or a chain of functions, as they are now.

    To look into those of now costs little.
    """
    if settings is None:
        return "True"
    hooks = settings.launch_enter_hook, settings.launch_exit_hook
    enter, leave, *watching = map(source.name, (*hooks, *(getattr(hook, "calls", hook) for hook in hooks)))
    name = source.name(settings)
    is_same = f"{name}.launch_enter_hook is {enter} and {name}.launch_exit_hook is {leave}"
    return f"{is_same} and not ({' or '.join(watching)})"
