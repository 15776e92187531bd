"""The gradient of `rope` for its input: the transposed rotation, by sines that are negated and change places.

input_grad[even] = grad[even] * cos[even] + grad[odd] * sin[odd], and
input_grad[odd] = grad[odd] * cos[odd] - grad[even] * sin[even]: where a pair has one angle, the opposite angle.
"""

import functools

from .numeric import widen
from .rope import arrangement, kernel_of, turn


def application(grad, sin, cos, input_grad, interleaved, interleaved_output):
    sine, cosine = widen(sin[0]), widen(cos[0])

    turn(grad, (-widen(sin[-1]), -sine), (cosine, widen(cos[-1])), input_grad, interleaved, interleaved_output)


@functools.cache
def make(interleaved=True, interleaved_output=None):
    """The kernel `(grad, sin, cos, input_grad)`, of the shapes of `rope.make`; the flags tell of `grad` and its own."""
    return kernel_of(arrangement, application, 4, interleaved, interleaved_output, "rope_backward")
