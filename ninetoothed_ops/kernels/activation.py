"""output = function(input), element by element, for a function of `functions`."""

import functools

import ninetoothed
from ninetoothed import Tensor

from .elementwise import arrangement
from .functions import FUNCTIONS
from .numeric import widen


@functools.cache
def make(name="gelu", ndim=1):
    """The kernel `(input, output)` of a function, for tensors of `ndim` dimensions."""
    function, _ = FUNCTIONS[name]

    def application(input, output):
        output = function(widen(input))

    return ninetoothed.make(arrangement, application, (Tensor(ndim), Tensor(ndim)), kernel_name=f"activation_{name}")
