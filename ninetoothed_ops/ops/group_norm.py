"""`group_norm(Tensor input, SymInt num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor`.

As `torch.nn.functional.group_norm`. `group_norm_with_statistics` returns mean and variance of each group too, and
`group_norm_backward` takes them. Gradients of gradients are written out in PyTorch's own operations.
"""

import functools

import torch
from torch.nn import functional

from ..registration import of_file
from . import readers
from .channels import GROUPS_SHARE, allocate_gradients, compute, fit, gradients, in_groups, like, needed_of, written_out
from .checks import refuse
from .layout import surely
from .rows import pull_back, wide


def allocate(input, num_groups, weight=None, bias=None, eps=1e-5):
    is_cut = num_groups > 0 and input.ndim > 1 and not surely(input.shape[1] % max(num_groups, 1) != 0)
    # Of one element in all of a group and the batch, PyTorch has no norm.
    is_one = is_cut and surely(input.shape.numel() // max(num_groups, 1) == 1)
    if is_one or not (is_cut and fit(input, weight, bias)):
        refuse("group_norm", functional.group_norm, input, num_groups, weight, bias, eps)

    return like(input)


def launch(output, input, num_groups, weight=None, bias=None, eps=1e-5):
    found = allocate_with_statistics(input, num_groups, weight, bias, eps)[1:]
    launch_with_statistics((output, *found), input, num_groups, weight, bias, eps)


def recorded(input, num_groups, weight=None, bias=None, eps=1e-5):
    return with_statistics(input, num_groups, weight, bias, eps)[0]


def allocate_with_statistics(input, num_groups, weight, bias, eps):
    output = allocate(input, num_groups, weight, bias, eps)

    return output, *(input.new_empty((input.shape[0], num_groups), dtype=wide(input)) for _ in range(2))


def launch_with_statistics(outputs, input, num_groups, weight, bias, eps):
    output, *statistics = outputs
    views = in_groups(input, num_groups), in_groups(output, num_groups)
    compute(GROUPS_SHARE, *views, statistics, weight, bias, eps)


def setup_context_with_statistics(ctx, inputs, output):
    input, ctx.groups, weight, bias, ctx.eps = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(input, weight, bias, *output[1:])


def backward_with_statistics(ctx, grad, *_):
    if grad is None:
        return (None,) * 5
    input, weight, bias, *statistics = ctx.saved_tensors
    to_input, _, *to_vectors, _ = ctx.needs_input_grad
    mask = to_input, *to_vectors
    found = gradient(grad, input, ctx.groups, weight, bias, *statistics, ctx.eps, mask)
    input_grad, *vectors = (each if is_needed else None for each, is_needed in zip(found, mask))

    return input_grad, None, *vectors, None


def allocate_gradient(grad, input, num_groups, weight, bias, mean, variance, eps, output_mask):
    return allocate_gradients("group_norm_backward", grad, input, weight, bias, output_mask)


def launch_gradient(outputs, grad, input, num_groups, weight, bias, mean, variance, eps, output_mask):
    input_grad, *vectors = needed_of(outputs, output_mask)
    own = None if input_grad is None else in_groups(input_grad, num_groups)
    views = in_groups(grad, num_groups), in_groups(input, num_groups)
    gradients(GROUPS_SHARE, *views, (mean, variance), weight, eps, False, own, vectors)


def setup_context_gradient(ctx, inputs, output):
    grad, input, ctx.groups, weight, bias, _, _, ctx.eps, ctx.output_mask = inputs
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(grad, input, weight)


def backward_gradient(ctx, *grads):
    formula = functools.partial(written_out, (2, 3), ctx.groups, None)
    to_grad, to_input, to_weight = pull_back(formula, ctx, grads)

    return to_grad, to_input, None, to_weight, *(None,) * 5


operator = of_file(
    "group_norm(Tensor input, SymInt num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    globals(),
    autocast={"cuda": torch.float32}.get,
)
with_statistics = of_file(
    "group_norm_with_statistics(Tensor input, SymInt num_groups, Tensor? weight, Tensor? bias, float eps) "
    "-> (Tensor, Tensor, Tensor)",
    globals(),
    "_with_statistics",
    recorded=None,
)
gradient = of_file(
    "group_norm_backward(Tensor grad, Tensor input, SymInt num_groups, Tensor? weight, Tensor? bias, Tensor mean, "
    "Tensor variance, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    globals(),
    "_gradient",
    recorded=None,
)


@readers.by_annotations()
def group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """`(input - mean) / sqrt(variance + eps) * weight + bias`, mean and variance of each group of channels of an image.

    The arguments and errors are those of `torch.nn.functional.group_norm`; a weight or a bias may have another floating
    type than the input, which the result has.
    """
    are_plain = type(weight) in readers.PLAIN_OR_NONE and type(bias) in readers.PLAIN_OR_NONE
    if not (type(input) in readers.PLAIN and are_plain and type(num_groups) is int and type(eps) is float):
        return readers.call(
            operator, "group_norm", functional.group_norm, input, num_groups, weight, bias, eps
        )  # fmt: skip

    return operator(input, num_groups, weight, bias, eps)
