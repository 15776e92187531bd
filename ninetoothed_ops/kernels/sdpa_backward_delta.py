"""delta = sum over the columns of grad * output, for each row: the part that all scores of a row share in gradients."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import widen

# So many rows are reduced by one program, each by a few threads.
ROWS = 32


def rows(tensor):
    return tensor.tile(None, None, ROWS, -1)


def arrangement(grad, output, delta):
    return rows(grad), rows(output), rows(delta)


def application(grad, output, delta):
    delta = ntl.sum(widen(grad) * widen(output), axis=1)[:, None]


@functools.cache
def make():
    """The kernel `(grad, output, delta)`: (batch, heads, queries, D), and (batch, heads, queries, 1) for `delta`."""
    constant = {"constexpr": True}
    tensors = (Tensor(4, shape_options=(None, None, None, constant)) for _ in range(3))

    return ninetoothed.make(arrangement, application, tuple(tensors), kernel_name="sdpa_backward_delta")
