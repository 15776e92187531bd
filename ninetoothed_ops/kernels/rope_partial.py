"""Partial rotary embedding: the first columns of each head are rotated as by `rope`, the others copied, in one launch.

output[:d] = rope(input[:d]) and output[d:] = input[d:]; the gradient likewise, by `rope_backward`.
"""

import functools

from . import rope, rope_backward


def rest_of_heads(tensor):
    """Give each token the columns of all its heads."""
    return tensor.tile(None, None, -1, -1)


def arrangement(input, sin, cos, rest, output_rest, output, *flags, **layouts):
    *inputs, output = rope.arrangement(input, sin, cos, output, **layouts)

    return *inputs, rest_of_heads(rest), rest_of_heads(output_rest), output, *flags


def application(input, sin, cos, rest, output_rest, output, interleaved, interleaved_output):
    rope.application(input, sin, cos, output, interleaved, interleaved_output)
    output_rest = rest


def application_backward(grad, sin, cos, rest, input_grad_rest, input_grad, interleaved, interleaved_output):
    rope_backward.application(grad, sin, cos, input_grad, interleaved, interleaved_output)
    input_grad_rest = rest


@functools.cache
def make(interleaved=True, interleaved_output=None, backward=False):
    """The kernel `(input, sin, cos, rest, output_rest, output)`: those of `rope.make` and, behind them, other columns.

    Where `backward`, the same of `rope_backward.make`.
    """
    apply, name = (application_backward, "rope_partial_backward") if backward else (application, "rope_partial")

    return rope.kernel_of(arrangement, apply, 6, interleaved, interleaved_output, name)
