"""output = gate * sigmoid(gate) * up, element by element, the first product rounded as `silu` rounds it."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .elementwise import arrangement
from .numeric import widen


def application(gate, up, output):
    activated = ntl.cast(gate * ntl.sigmoid(widen(gate)), gate.dtype)

    output = activated * widen(up)


@functools.cache
def make(ndim=1):
    """The kernel `(gate, up, output)` for tensors of `ndim` dimensions."""
    return ninetoothed.make(arrangement, application, tuple(Tensor(ndim) for _ in range(3)), kernel_name="swiglu")
