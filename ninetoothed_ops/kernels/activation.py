"""output = function(input), element by element, for a function of `functions`."""

import functools

import ninetoothed
from ninetoothed import Tensor

from .elementwise import arrangement
from .functions import FUNCTIONS, kernel_name, read


@functools.cache
def make(name="gelu", ndim=1):
    """The kernel `(input, output)` of a function, for tensors of `ndim` dimensions."""
    function, _ = FUNCTIONS[name]

    def application(input, output):
        output = function(read(input, name))

    tensors = (Tensor(ndim), Tensor(ndim))

    return ninetoothed.make(arrangement, application, tensors, kernel_name=kernel_name("activation", name))
