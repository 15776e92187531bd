"""Find which elements of a tensor each program owns by its arrangement: no other program touches them.

x.tile((64, 64)), y.tile((64, 64))                    alike: y may be x
x.tile((64, 64)), y.permute((1, 0)).tile((64, 64))    alike where y is x.T
x.tile((64,), strides=(32,))                          not owned: elements are in several tiles
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ninetoothed.arrangement import Arrangement, Size, SourceTensor, Step
from ninetoothed.definition import KernelDefinition
from ninetoothed.expr import as_expr
from ninetoothed.expr.sizes import evaluate

# A dimension: its size, and its stride where that counts.
Dim = tuple[int, int]


def is_of_one_program(definition: KernelDefinition, values: Mapping[str, int]) -> bool:
    """Tell whether a call of these sizes runs one program."""
    shapes = (parameter.outermost for parameter in definition.parameters)
    return all(math.prod(_number(size, values) for size in shape) == 1 for shape in shapes)


def owned(arrangement: Arrangement, values: Mapping[str, int]) -> tuple | None:
    """Describe which elements each program owns, alike for two tensors only if these are; None where some are shared.

    Steps before the first `tile` are applied to the tensor. Those on inner levels stay within a program's tile.
    """
    numbers = arrangement.map_sizes(lambda size: _number(size, values))
    dims = _dims(arrangement.source, values)
    steps = list(numbers.steps)
    while steps and (moved := _moved(steps[0], dims)) is not None:
        dims = moved
        del steps[0]
    if not any(step.operation == "ravel" for step in steps):
        steps = [step for step in steps if step.level == 0]
    is_repeated = any(size != 1 and stride == 0 for size, stride in dims)
    is_shared = is_repeated or not numbers.levels[0] or any(map(_shares, steps))
    return None if is_shared else (dims, tuple(steps))


def _number(size: Size, values: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else evaluate(as_expr(size), values)


def _dims(source: SourceTensor, values: Mapping[str, int]) -> tuple[Dim, ...]:
    """Return the dimensions of a tensor; of one element, the stride does not count."""
    sizes, strides = ([_number(each, values) for each in given] for given in (source.sizes, source.strides))
    return tuple((size, stride if size != 1 else 0) for size, stride in zip(sizes, strides, strict=True))


def _moved(step: Step, dims: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """Apply a step to the dimensions of a tensor; None where the result is no view of it."""
    if step.operation == "permute":
        return tuple(dims[d] for d in step.arguments[0])
    if step.operation == "flatten":
        start, end = step.arguments
        joined = [dim for dim in dims[start:end] if dim[0] != 1]
        if all(a[1] == b[0] * b[1] for a, b in zip(joined, joined[1:], strict=False)):
            whole = (math.prod(size for size, _ in joined), joined[-1][1] if joined else 0)
            return (*dims[:start], whole, *dims[end:])
    return None


def _shares(step: Step) -> bool:
    """Tell whether a step lets elements be in several tiles."""
    if step.operation == "expand":
        return step.shape != step.after[0]
    if step.operation != "tile":
        return False
    (strides, dilations), (outer, inner) = step.arguments, step.after
    return any(
        stride * (count - 1) >= dilation and dilation * (size - 1) >= stride
        for stride, dilation, count, size in zip(strides, dilations, outer, inner, strict=True)
    )
