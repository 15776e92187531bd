"""`batch_norm(Tensor input, Tensor mean, Tensor variance, Tensor? weight, Tensor? bias, float eps) -> Tensor`.

`batch_norm_training` is the norm with mean and variance of the input, and returns them too; `batch_norm_backward` has
the gradients of both. The function puts them together as `torch.nn.functional.batch_norm` does.
Gradients of gradients are written out in PyTorch's own operations.
"""

import functools
from typing import Any

import torch
from torch.nn import functional

from ..registration import of_file
from . import readers
from .channels import (
    IMAGES_SHARE,
    allocate_gradients,
    compute,
    fit,
    gradients,
    in_batch,
    like,
    needed_of,
    normalise,
    written_out,
)
from .checks import refuse
from .layout import surely
from .rows import pull_back, wide


def _check(input, weight, bias, eps, mean=None, variance=None) -> None:
    is_training = mean is None
    # Of one element a channel, PyTorch has no norm.
    is_one = is_training and input.ndim > 1 and surely(input.shape.numel() == input.shape[1])
    if is_one or not fit(input, weight, bias, mean, variance):
        refuse("batch_norm", functional.batch_norm, input, mean, variance, weight, bias, is_training, 0.1, eps)


def allocate_training(input, weight, bias, eps):
    _check(input, weight, bias, eps)

    return like(input), *(input.new_empty(input.shape[1], dtype=wide(input)) for _ in range(2))


def launch_training(outputs, input, weight, bias, eps):
    output, *statistics = outputs
    view, view_of_output = in_batch(input, output)
    compute(IMAGES_SHARE, view, view_of_output, [each[None] for each in statistics], weight, bias, eps)


def setup_context_training(ctx, inputs, output):
    input, weight, bias, ctx.eps = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(input, weight, bias, *output[1:])


def backward_training(ctx, grad, *_):
    if grad is None:
        return (None,) * 4
    *mask, _ = ctx.needs_input_grad

    return *_backward(ctx, grad, mask, True), None


def _backward(ctx, grad, mask, is_training) -> list:
    found = gradient(grad, *ctx.saved_tensors, ctx.eps, is_training, mask)

    return [each if is_needed else None for each, is_needed in zip(found, mask)]


def allocate(input, mean, variance, weight, bias, eps):
    _check(input, weight, bias, eps, mean, variance)

    return like(input)


def launch(output, input, mean, variance, weight, bias, eps):
    view, view_of_output = in_batch(input, output)
    centre, spread = (IMAGES_SHARE.of_channels(each[None], view) for each in (mean, variance))
    normalise(view, view_of_output, centre, spread, weight, bias, eps)


def setup_context(ctx, inputs, output):
    input, mean, variance, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(input, weight, bias, mean, variance)


def backward(ctx, grad):
    to_input, _, _, *to_vectors, _ = ctx.needs_input_grad
    of_input, *of_vectors = _backward(ctx, grad, [to_input, *to_vectors], False)

    return of_input, None, None, *of_vectors, None


def allocate_gradient(grad, input, weight, bias, mean, variance, eps, training, output_mask):
    return allocate_gradients("batch_norm_backward", grad, input, weight, bias, output_mask)


def launch_gradient(outputs, grad, input, weight, bias, mean, variance, eps, training, output_mask):
    input_grad, *vectors = needed_of(outputs, output_mask)
    slopes, view, *views = in_batch(grad, input, *([] if input_grad is None else [input_grad]))
    own = views[0] if views else None
    gradients(IMAGES_SHARE, slopes, view, (mean[None], variance[None]), weight, eps, not training, own, vectors)


def setup_context_gradient(ctx, inputs, output):
    grad, input, weight, bias, mean, variance, ctx.eps, ctx.training, ctx.output_mask = inputs
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(grad, input, weight, mean, variance)


def backward_gradient(ctx, *grads):
    *tensors, mean, variance = ctx.saved_tensors
    formula = functools.partial(written_out, (0, 3), 1, None if ctx.training else (mean, variance))

    return *pull_back(formula, ctx, grads, tensors), *(None,) * 6


_VECTORS = "Tensor? weight, Tensor? bias"
training_operator = of_file(
    f"batch_norm_training(Tensor input, {_VECTORS}, float eps) -> (Tensor, Tensor, Tensor)", globals(), "_training"
)
operator = of_file(
    f"batch_norm(Tensor input, Tensor mean, Tensor variance, {_VECTORS}, float eps) -> Tensor",
    globals(),
)
gradient = of_file(
    f"batch_norm_backward(Tensor grad, Tensor input, {_VECTORS}, Tensor mean, Tensor variance, float eps, "
    "bool training, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    globals(),
    "_gradient",
)


@readers.by_annotations()
def batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """`(input - mean) / sqrt(variance + eps) * weight + bias`, with one mean and variance for each channel.

    They are those of the input while `training`, and move the running ones by `momentum`; else the running ones. The
    arguments and errors are those of `torch.nn.functional.batch_norm`; the vectors may have other floating types than
    the input, which the result has.
    """
    given: tuple[Any, ...] = input, running_mean, running_var, weight, bias, training, momentum, eps
    is_read = type(input) in readers.PLAIN and type(training) is bool and type(momentum) is type(eps) is float
    if not (is_read and all(type(each) in readers.PLAIN_OR_NONE for each in given[1:5])):
        if readers.are_overridden(*given[:5]):
            return functional.batch_norm(*given)
        given = tuple(readers.read("batch_norm", functional.batch_norm, *given))
        input, running_mean, running_var, weight, bias, training, momentum, eps = given
    are_given = [each is not None for each in (running_mean, running_var)]
    if not (all(are_given) or training and not any(are_given)):
        return functional.batch_norm(*given)  # which raises, or moves one of them
    if not training:
        return operator(input, running_mean, running_var, weight, bias, eps)
    if not fit(input, running_mean, running_var):
        return functional.batch_norm(*given)  # which raises
    output, mean, variance = training_operator(input, weight, bias, eps)
    if running_mean is not None and running_var is not None and input.numel() > 0:
        count = input.numel() // max(input.shape[1], 1)
        # Not under `no_grad`, of which `torch.export` makes a graph without results, and refuses that.
        mean, variance = mean.detach(), variance.detach() * (count / max(count - 1, 1))
        running_mean.detach().lerp_(mean.to(running_mean.dtype), momentum)
        running_var.detach().lerp_(variance.to(running_var.dtype), momentum)

    return output
