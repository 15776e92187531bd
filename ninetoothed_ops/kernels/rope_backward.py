"""The gradient of `rope` for its input: the transposed rotation, by sines that are negated and change places.

input_grad[even] = grad[even] * cos[even] + grad[odd] * sin[odd], and
input_grad[odd] = grad[odd] * cos[odd] - grad[even] * sin[even]: where a pair has one angle, the opposite angle.
"""

import functools

import ninetoothed
from ninetoothed import Tensor

from .numeric import widen
from .rope import arrangement, turn


def application(grad, sin, cos, input_grad, interleaved, interleaved_output):
    sine, cosine = widen(sin[0]), widen(cos[0])

    turn(grad, (-widen(sin[-1]), -sine), (cosine, widen(cos[-1])), input_grad, interleaved, interleaved_output)


@functools.cache
def make(interleaved=True, interleaved_output=None):
    """The kernel `(grad, sin, cos, input_grad)`, of the shapes of `rope.make`; the flags tell of `grad` and its own."""
    interleaved_output = interleaved if interleaved_output is None else interleaved_output
    constant = {"constexpr": True}
    tensors = (Tensor(4, shape_options=(None, None, constant, constant)) for _ in range(4))
    flags = (Tensor(0, constexpr=True, value=value) for value in (interleaved, interleaved_output))
    arrange = functools.partial(arrangement, interleaved=interleaved, interleaved_output=interleaved_output)

    return ninetoothed.make(arrange, application, (*tensors, *flags), kernel_name="rope_backward")
