"""Plan the launch of a built variant for calls of one signature, as `runtime.executable` plans a compiled one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ninetoothed.built.description import BuiltVariant, Passed, Separate
from ninetoothed.built.formula import evaluate
from ninetoothed.runtime import workspace
from ninetoothed.runtime.aliasing import KnownPair
from ninetoothed.runtime.arguments import is_read_by_host
from ninetoothed.runtime.launch_steps import Launch, LaunchPlan, Scalar, TensorAddress
from ninetoothed.runtime.launching import code
from ninetoothed.runtime.launching.code import CodeParameter, LoadedCode, MachineCode
from ninetoothed.runtime.launching.descriptors import DescriptorTable
from ninetoothed.runtime.launching.driver import Encoding
from ninetoothed.runtime.loading.device import Device


def code_of(variant: BuiltVariant, content: bytes, assembler: str) -> MachineCode:
    """Tell of a variant's machine code what launches it."""
    taken = tuple(_parameter(each) for each in variant.passed if each.role != "null")
    return MachineCode(variant.kernel, variant.function, taken, variant.threads, variant.shared, content, assembler)


def _parameter(each: Passed) -> CodeParameter:
    if each.role == "descriptor":
        encoding = Encoding(each.swizzle, each.element_type, each.element_size, each.block)
        return CodeParameter("128s", encoding=encoding)
    return code.number(each.bits, each.is_float, each.is_unsigned)


def plan_of(
    variant: BuiltVariant,
    load: Callable[[], LoadedCode],
    arguments: tuple,
    values: Mapping[str, int],
    device: Device,
    place: torch.device,
) -> LaunchPlan:
    """Plan the launch of calls like one that a variant serves. `load` it, unless there is nothing to launch."""
    x, y, z = (evaluate(axis, values) for axis in variant.grid)
    separate = tuple(_pair(each, arguments) for each in variant.separate)
    if not x * y * z:
        return LaunchPlan(len(arguments), precision=variant.precision, device=device.index)
    most = variant.most_programs(device.multiprocessors)
    kernel = load()
    number = functools.partial(evaluate, values=values)
    described = [each for each in variant.passed if each.role == "descriptor"]
    table = None
    if described:
        shapes = (([*map(number, each.sizes)], [*map(number, each.strides)]) for each in described)
        table = DescriptorTable(kernel.encode, tuple(shapes))
    launch = Launch(
        kernel,
        (min(x, most) if most else x, y, z),
        tuple(_passed(variant, arguments, values, place)),
        table,
        _workspace(variant, values, place),
    )
    return LaunchPlan(len(arguments), (launch,), precision=variant.precision, device=device.index, separate=separate)


def _pair(each: Separate, arguments: Sequence[Any]) -> KnownPair:
    output, other = arguments[each.output], arguments[each.other]
    is_alike = output.shape == other.shape and output.stride() == other.stride()
    return KnownPair(each.output, each.other, each.in_place and is_alike)


def _passed(
    variant: BuiltVariant, arguments: Sequence[Any], values: Mapping[str, int], place: torch.device
) -> Iterator[Any]:
    """Yield what is passed, less what workspaces and descriptors add, as `Launch` has it."""
    rest = list(variant.passed)
    while rest:
        each = rest.pop(0)
        match each.role:
            case "pointer" | "descriptor":
                yield TensorAddress(each.argument)
                if each.role == "descriptor":
                    del rest[: 2 * len(each.block)]
            case "scalar":
                yield Scalar(each.argument, is_read_by_host(arguments[each.argument], place))
            case "integer":
                yield evaluate(each.value, values)


def _workspace(variant: BuiltVariant, values: Mapping[str, int], place: torch.device) -> workspace.Workspace | None:
    """Return the workspace of a variant's launches."""
    own = [i for i, each in enumerate(variant.passed) if each.role in ("workspace", "semaphores")]
    if not own:
        return None
    places = tuple((variant.passed[i].role == "semaphores", evaluate(variant.passed[i].value, values)) for i in own)
    after = sum(each.role != "null" for each in variant.passed[own[-1] + 1 :])
    sizes = evaluate(variant.workspace, values), evaluate(variant.semaphores, values)
    return workspace.in_places(sizes, places, after, place)
