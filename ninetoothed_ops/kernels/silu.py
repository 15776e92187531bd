"""output = input * sigmoid(input)."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .elementwise import arrangement
from .numeric import widen


def application(input, output):
    output = input * ntl.sigmoid(widen(input))


@functools.cache
def make(ndim=1):
    """The kernel `(input, output)` for tensors of `ndim` dimensions."""
    return ninetoothed.make(arrangement, application, (Tensor(ndim), Tensor(ndim)), kernel_name="silu")
