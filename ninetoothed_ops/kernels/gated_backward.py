"""gate_grad = grad * up * function'(gate), and up_grad = grad * function(gate), for a function of `functions`."""

import functools

import ninetoothed
from ninetoothed import Tensor

from .elementwise import arrangement
from .functions import FUNCTIONS
from .numeric import widen


@functools.cache
def make(name="gelu", ndim=1):
    """The kernel `(grad, gate, up, gate_grad, up_grad)` of a function, for tensors of `ndim` dimensions."""
    function, gradient = FUNCTIONS[name]

    def application(grad, gate, up, gate_grad, up_grad):
        wide = widen(gate)

        gate_grad = gradient(widen(grad) * up, wide)
        up_grad = grad * function(wide)

    tensors = tuple(Tensor(ndim) for _ in range(5))

    return ninetoothed.make(arrangement, application, tensors, kernel_name=f"gated_backward_{name}")
