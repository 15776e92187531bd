"""Floating-point operations of our products, for `torch.utils.flop_counter.FlopCounterMode`: importing this tells it.

Counted as PyTorch counts: two operations a multiplication, whole matrices whatever is masked, and products alone. An
operator without a formula counts as nothing there. PyTorch's counter imports Triton, and nothing else of ours does, so
that this is imported where a model is swapped, and not with the operators.
"""

from collections.abc import Sequence
from math import prod

from torch.utils.flop_counter import register_flop_formula

from .addmm import operator as addmm
from .bmm import operator as bmm
from .conv2d import operator as conv2d
from .conv2d_backward_input import operator as conv2d_backward_input
from .conv2d_backward_weight import operator as conv2d_backward_weight
from .joint_linear import operator as joint_linear
from .linear import operator as linear
from .linear_rope_into_cache import operator as linear_rope_into_cache
from .linear_swiglu import operator as linear_swiglu
from .mm import operator as mm
from .sdpa import operator as sdpa
from .sdpa_backward import operator as sdpa_backward
from .sdpa_with_lse import operator as sdpa_with_lse

Shape = Sequence[int]


def _product(left: Shape, columns: int) -> int:
    return 2 * prod(left) * columns


@register_flop_formula([mm.overloadpacket, bmm.overloadpacket])
def _matrices(left: Shape, right: Shape, **_: object) -> int:
    return _product(left, right[-1])


@register_flop_formula(addmm.overloadpacket)
def _addmm(_addend: Shape, left: Shape, right: Shape, **_: object) -> int:
    return _product(left, right[-1])


@register_flop_formula(linear.overloadpacket)
def _linear(input: Shape, weight: Shape, *_arguments: object, **_: object) -> int:
    return _product(input, weight[0])


@register_flop_formula(joint_linear.overloadpacket)
def _joint_linear(input: Shape, weights: Sequence[Shape], _biases: object, **_: object) -> int:
    return sum(_product(input, weight[0]) for weight in weights)


@register_flop_formula(linear_swiglu.overloadpacket)
def _linear_swiglu(input: Shape, gate: Shape, up: Shape, **_: object) -> int:
    return _product(input, gate[0] + up[0])


@register_flop_formula(linear_rope_into_cache.overloadpacket)
def _linear_rope_into_cache(
    input: Shape, query: Shape, key: Shape, value: Shape, *_arguments: object, **_: object
) -> int:
    return _product(input, query[0] + key[0] + value[0])


@register_flop_formula([sdpa.overloadpacket, sdpa_with_lse.overloadpacket])
def _attention(query: Shape, key: Shape, value: Shape, *_arguments: object, **_: object) -> int:
    return _product((*query[:-1], key[-2]), query[-1] + value[-1])


@register_flop_formula(sdpa_backward.overloadpacket)
def _attention_backward(query: Shape, key: Shape, value: Shape, *_arguments: object, **_: object) -> int:
    # The scores again and the gradients of query and key; the gradients of the weights and of value.
    return _product((*query[:-1], key[-2]), 3 * query[-1] + 2 * value[-1])


@register_flop_formula(conv2d.overloadpacket)
def _conv2d(_input: Shape, weight: Shape, *_arguments: object, out_shape: Shape, **_: object) -> int:
    return _convolution(out_shape, weight)


@register_flop_formula(conv2d_backward_input.overloadpacket)
def _conv2d_backward_input(grad: Shape, weight: Shape, *_arguments: object, **_: object) -> int:
    return _convolution(grad, weight)


@register_flop_formula(conv2d_backward_weight.overloadpacket)
def _conv2d_backward_weight(
    grad: Shape, _input: Shape, _size: object, *_arguments: object, out_shape: Shape, **_: object
) -> int:
    return _convolution(grad, out_shape)


def _convolution(output: Shape, weight: Shape) -> int:
    return _product(output, prod(weight[1:]))
