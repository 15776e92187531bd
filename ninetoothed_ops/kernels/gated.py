"""output = function(gate) * up, element by element, for a function of `functions`."""

import functools

import ninetoothed
from ninetoothed import Tensor

from .elementwise import arrangement
from .functions import FUNCTIONS
from .numeric import widen


@functools.cache
def make(name="gelu", ndim=1):
    """The kernel `(gate, up, output)` of a function, for tensors of `ndim` dimensions."""
    function, _ = FUNCTIONS[name]

    def application(gate, up, output):
        output = function(widen(gate)) * up

    tensors = tuple(Tensor(ndim) for _ in range(3))

    return ninetoothed.make(arrangement, application, tensors, kernel_name=f"gated_{name}")
