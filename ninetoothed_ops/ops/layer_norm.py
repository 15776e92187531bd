"""`layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05)`.

As `torch.nn.functional.layer_norm`.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from ..kernels import layer_norm as kernels, long_rows
from ..registration import register
from . import layer_norm_backward, readers
from .checks import FLOATS, refuse
from .layout import coalesce
from .rms_norm_backward import unread_weight


def allocate(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = tuple(normalized_shape)
    fits = 0 < len(shape) <= input.ndim and input.shape[-len(shape) :] == shape
    for vector in (weight, bias):
        if fits and vector is not None:
            fits = vector.shape == shape and vector.dtype in FLOATS and vector.device == input.device
    if not fits or input.dtype not in FLOATS:
        refuse("layer_norm", functional.layer_norm, input, shape, weight, bias, eps)

    return torch.empty_like(input, memory_format=torch.contiguous_format)


def launch(output, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    if len(normalized_shape) > 1:
        input, output = (tensor.flatten(-len(normalized_shape)) for tensor in (input, output))
        weight, bias = (None if vector is None else vector.flatten() for vector in (weight, bias))

    input, output = coalesce((input, output), kept=1)
    weighted, biased = weight is not None, bias is not None
    weight, bias = (unread_weight(output) if vector is None else vector for vector in (weight, bias))
    make = kernels.make if output.shape[-1] <= long_rows.LONGEST else long_rows.make_layer_norm
    make(output.ndim)(input, weight, bias, eps, output, weighted, biased)


def setup_context(ctx, inputs, output):
    input, ctx.normalized_shape, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(input, weight, bias)


def backward(ctx, grad):
    to_input, _, *to_vectors, _ = ctx.needs_input_grad
    mask = (to_input, *to_vectors)
    input, weight, bias = ctx.saved_tensors
    grads = layer_norm_backward.operator(grad, input, ctx.normalized_shape, weight, bias, ctx.eps, mask)
    input_grad, *vector_grads = (each if is_needed else None for each, is_needed in zip(grads, mask))

    return input_grad, None, *vector_grads, None


operator = register(
    "ninetoothed::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1e-05) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
    autocast={"cuda": torch.float32}.get,
)

_READERS = {
    "input": readers.tensor,
    "normalized_shape": readers.integers,
    **dict.fromkeys(("weight", "bias"), readers.optional(readers.tensor)),
    "eps": readers.real,
}


def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """`(input - mean) / sqrt(variance + eps) * weight + bias` over the last dimensions, of shape `normalized_shape`.

    The arguments and errors are those of `torch.nn.functional.layer_norm`; a weight or a bias may have another floating
    type than the input, which the result has.
    """
    are_tensors = type(weight) in readers.PLAIN_OR_NONE and type(bias) in readers.PLAIN_OR_NONE
    is_plain = type(input) in readers.PLAIN and are_tensors and type(eps) is float
    if not (is_plain and readers.are_integers(normalized_shape)):
        args = input, normalized_shape, weight, bias, eps
        if readers.are_overridden(input, weight, bias):
            return functional.layer_norm(*args)
        input, normalized_shape, weight, bias, eps = readers.read("layer_norm", functional.layer_norm, _READERS, *args)

    return operator(input, normalized_shape, weight, bias, eps)
