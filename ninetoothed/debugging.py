"""Look at arrangements: which elements each program sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy

from ninetoothed.arrangement.boundary import tells_mistakes
from ninetoothed.arrangement.numbers import elements
from ninetoothed.arrangement.operands import several, shape_text
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.wording import brief

if TYPE_CHECKING:
    import torch


@tells_mistakes
def simulate_arrangement(
    arrangement: Callable[..., Any], tensors: Iterable[Tensor], device: Any = None
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Return `(sources, targets)`: the elements of each parameter by number, and those that each program sees.

    arrangement: takes `tensors`, returns the arranged tensor or a tuple of them: the parameters, in order.
    tensors: symbolic tensors whose sizes are numbers, such as `Tensor(shape=(4, 8))`.
    device: where to make both; by default where PyTorch makes tensors.

    A source has the shape of its parameter, and holds 0, 1, ..., row-major. A target has one dimension for the
    programs, row-major, then those of each further level; it is -1 out of bounds. Of a scalar, both are 0. No kernel is
    launched.

    Raises `ArrangementError` where a size is no number, and what the arrangement raises.

    >>> sources, targets = simulate_arrangement(lambda x: x.tile((2,)), (Tensor(shape=(5,)),))
    >>> sources[0].tolist(), targets[0].tolist()
    ([0, 1, 2, 3, 4], [[0, 1], [2, 3], [4, -1]])
    """
    import torch

    arranged = several(arrangement(*tensors))
    for tensor in arranged:
        _check(tensor)
    sources = (numpy.arange(tensor.source.numel()).reshape(tensor.source.shape) for tensor in arranged)
    targets = map(_seen, arranged)
    return tuple(torch.tensor(each, device=device) for each in sources), tuple(
        torch.tensor(each, device=device) for each in targets
    )


def _check(tensor: Any) -> None:
    """Check what an arrangement returns: a tensor whose sizes are numbers."""
    if not isinstance(tensor, Tensor):
        raise _error(f"the arrangement returns {brief(tensor)}", "let it return the arranged tensors")
    unknown = sorted(tensor.arrangement.symbols)
    if unknown:
        what = f"`{tensor.name}` of shape {shape_text(tensor.shape)} has no numbers for {', '.join(unknown)}"
        remedy = "give `Tensor(shape=(4, 8))` and the like, and blocks as by `functools.partial(arrangement, BLOCK=2)`"
        raise _error(what, remedy)


def _seen(tensor: Tensor) -> numpy.ndarray:
    """List the elements that each program sees, the programs along one dimension."""
    found = elements(tensor.arrangement)
    levels = tensor.arrangement.levels
    if not tensor.source.ndim and len(levels) == 1 and not levels[0]:
        return found
    programs = len(levels[0])
    return found.reshape((math.prod(found.shape[:programs]), *found.shape[programs:]))
