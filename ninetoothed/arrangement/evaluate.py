"""`eval` and `subs` as functions: a symbolic tensor with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from ninetoothed.arrangement.boundary import tells_mistakes
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.wording import brief


@tells_mistakes
def subs(tensor: Tensor, subs: Mapping[Any, Any]) -> Tensor:
    """Return `tensor` with numbers in the place of symbols.

    Keys of `subs` are symbols or names (values: ints or symbols), and tensors (values: `{"shape": (...)}` or
    anything with a `shape`), which stand for the sizes of the tensors of that name. Raises `ArrangementError` where a
    size does not fit what is known of it.

    >>> x = Tensor(1, name="x")
    >>> subs(x.tile((4,)), {x: {"shape": (10,)}}).shape
    (3,)
    """
    if not isinstance(tensor, Tensor):
        raise _error(f"`subs` is given {brief(tensor)}", "give a symbolic tensor, such as `Tensor(shape=(4, 8))`")
    return tensor.subs(subs)


@tells_mistakes
def eval(tensor: Tensor, subs: Mapping[Any, Any] | None = None) -> numpy.ndarray:
    """Return the row-major index into the source of every element of every level, outermost first; -1 out of bounds.

    `subs` is as for the function of that name. Raises `ArrangementError` where a symbol is left.

    >>> eval(Tensor(shape=(5,), name="x").tile((2,)))
    array([[ 0,  1],
           [ 2,  3],
           [ 4, -1]])
    """
    if not isinstance(tensor, Tensor):
        raise _error(f"`eval` is given {brief(tensor)}", "give a symbolic tensor, such as `Tensor(shape=(4, 8))`")
    return tensor.eval(subs)
