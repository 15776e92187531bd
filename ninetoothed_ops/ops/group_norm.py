"""`group_norm(Tensor input, SymInt num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor`.

As `torch.nn.functional.group_norm`. `group_norm_with_statistics` returns mean and 1 / sqrt(variance + eps) of each
group too, and `group_norm_backward` takes them. Gradients of gradients are written out in PyTorch's own operations.
"""

import torch
from torch.nn import functional

from ..registration import of_file
from . import readers
from .channels import fit, gradients, in_groups, like, moments, normalise
from .checks import refuse
from .layout import same_shape, surely
from .rows import pull_back, wide

# Statistics are of the channels of a group.
_OF_GROUPS = (2,)


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
    view = in_groups(input, num_groups)
    mean, variance = moments(view, _OF_GROUPS)
    rstd = torch.rsqrt(variance + eps)
    normalise(view, in_groups(output, num_groups), mean, rstd, weight, bias)
    for each, found in zip(statistics, (mean, rstd)):
        each.copy_(found[..., 0])


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


def allocate_gradient(grad, input, num_groups, weight, bias, mean, rstd, eps, output_mask):
    if not (same_shape(grad.shape, input.shape) and grad.dtype is input.dtype and fit(input, weight, bias)):
        raise RuntimeError(
            f"ninetoothed::group_norm_backward expects a grad like the input, {list(input.shape)} {input.dtype}, but "
            f"got {list(grad.shape)} {grad.dtype}"
        )
    to_input, *to_vectors = output_mask
    vectors = (
        input.new_empty(1) if each is None or not is_needed else torch.empty_like(each)
        for each, is_needed in zip((weight, bias), to_vectors)
    )

    return like(input) if to_input else input.new_empty(1), *vectors


def launch_gradient(outputs, grad, input, num_groups, weight, bias, mean, rstd, eps, output_mask):
    (input_grad, *vectors), (to_input, *to_vectors) = outputs, output_mask
    own = in_groups(input_grad, num_groups) if to_input else None
    statistics = mean[..., None], rstd[..., None]
    views = in_groups(grad, num_groups), in_groups(input, num_groups)
    found = gradients(*views, *statistics, weight, _OF_GROUPS, own)
    for each, total, is_needed in zip(vectors, found, to_vectors):
        if is_needed:
            each.copy_(total)


def setup_context_gradient(ctx, inputs, output):
    grad, input, ctx.groups, weight, bias, _, _, ctx.eps, ctx.output_mask = inputs
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(grad, input, weight)


def backward_gradient(ctx, *grads):
    to_grad, to_input, to_weight = pull_back(_written_out, ctx, grads)

    return to_grad, to_input, None, to_weight, *(None,) * 5


def _written_out(ctx, grad, input, weight=None):
    slopes, view = (in_groups(each.to(wide(each)), ctx.groups).flatten(2) for each in (grad, input))
    factor = 1 if weight is None else weight.to(view.dtype).view(ctx.groups, -1, 1)
    each_of = in_groups(input, ctx.groups).shape
    centred = view - view.mean(2, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(2, keepdim=True) + ctx.eps)
    normalized = centred * scale
    slope = (slopes.view(each_of) * factor).flatten(2)
    along = normalized * (slope * normalized).mean(2, keepdim=True)
    to_input, to_weight, to_bias = ctx.output_mask
    found = []
    if to_input:
        of_input = scale * (slope - slope.mean(2, keepdim=True) - along)
        found.append(of_input.view(input.shape).to(input.dtype))
    if to_weight:
        found.append((slopes * normalized).view(each_of).sum((0, 3)).flatten().to(weight.dtype))
    if to_bias:
        found.append(slopes.view(each_of).sum((0, 3)).flatten().to(ctx.bias_dtype))

    return found


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
    "Tensor rstd, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
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
