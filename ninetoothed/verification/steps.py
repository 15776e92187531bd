"""Name the meta-operations that may leave elements out, or give them to several programs.

Most keep every element once: `permute`, `squeeze`, `unsqueeze`, `flatten`, `ravel`, and `tile` where a tile begins
where the one before ends. The others are named where a claim is refuted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ninetoothed.arrangement.value import Arrangement, Step
from ninetoothed.expr import as_expr, cdiv


def suspects(arrangement: Arrangement) -> Iterator[Step]:
    """Yield the steps after which not every element is held once, the first before the others."""
    return (step for step in arrangement.steps if not partitions(step))


def partitions(step: Step) -> bool:
    """Tell whether each element before a step is one element after it, and no more.

    >>> from ninetoothed import Tensor
    >>> tiled = Tensor(1).tile((64,)), Tensor(1).tile((64,), strides=(32,))
    >>> [partitions(tensor.arrangement.steps[0]) for tensor in tiled]
    [True, False]
    """
    match step.operation:
        case "tile":
            strides, dilation = step.arguments
            counts, tiles = step.after
            rows = zip(step.shape, tiles, strides, dilation, counts, strict=True)
            return all(map(_is_cut, *zip(*rows, strict=True))) if counts else True
        case "expand":
            dims, wanted = step.arguments
            return all(wanted[dim] == 1 for dim in dims)
        case "pad":
            return all(before == 0 for before in step.arguments[0]) and step.after[0] == step.shape
        case "index":
            starts, strides, kept = step.arguments
            whole = all(start == 0 for start in starts) and all(strides[dim] == 1 for dim in kept)
            return whole and step.after[0] == step.shape
    return True


def _is_cut(size: object, tile: object, stride: object, dilation: object, count: object) -> bool:
    """Tell whether tiles of a dimension follow each other, and reach its end; one tile has it all at stride 0."""
    if stride == 0:
        return True
    expressions = [as_expr(each) for each in (size, tile, stride, dilation, count)]  # type: ignore[arg-type]
    length, width, step, factor, number = expressions
    return step == width and factor == 1 and number == cdiv(length, width)
