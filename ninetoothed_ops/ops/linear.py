"""`linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor`, as `torch.nn.functional.linear`.

It runs the kernels of `mm` and `addmm`. What makes matrices of its arguments is part of the launch, so that a replayed
call does without.
"""

import math

import torch
from torch.nn import functional

from ..nested import by_values
from ..registration import of_file
from . import readers
from .addmm import launch as add_product
from .checks import alike, check_product, refuse
from .layout import is_contiguous
from .mm import launch as launch_product, operator as mm
from .product_gradients import multiply


def check(input, weight, bias=None) -> None:
    """Raise what PyTorch raises for arguments that do not fit together."""
    fits = weight.ndim == 2 and input.ndim > 0 and input.shape[-1] == weight.shape[1]
    if not (fits and alike(input, weight) and (bias is None or bias.ndim < 2 and alike(input, bias))):
        refuse("linear", functional.linear, input, weight, bias)
    check_product("linear", input)
    if bias is not None and bias.shape != weight.shape[:1]:
        bias.expand(weight.shape[0])  # Raises where it cannot.


def allocate(input, weight, bias=None):
    check(input, weight, bias)

    return input.new_empty((*input.shape[:-1], weight.shape[0]))


def launch(output, input, weight, bias=None):
    rows, output = rows_of(input), rows_of(output)
    if bias is None:
        launch_product(output, rows, weight.t())
    else:
        add_product(output, bias, rows, weight.t())


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """(..., columns) as a matrix, a vector too."""
    return tensor if tensor.ndim == 2 else tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])


def setup_context(ctx, inputs, output):
    input, weight, bias = inputs
    needs_input, needs_weight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(input if needs_weight else None, weight if needs_input else None)
    ctx.bias_shape = None if bias is None else bias.shape
    # As in PyTorch, the gradient of a weight whose rows are not dense has dense columns.
    ctx.is_turned = needs_weight and not is_contiguous(weight)


def backward(ctx, grad):
    input, weight = ctx.saved_tensors
    of_input = None if weight is None else operator(grad, weight.t())
    of_weight = None if input is None else multiply(mm, rows_of(grad).t(), rows_of(input), ctx.is_turned)
    of_bias = grad.sum_to_size(ctx.bias_shape) if any(ctx.needs_input_grad[2:3]) else None

    return of_input, of_weight, of_bias


operator = of_file(
    "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    globals(),
    autocast=torch.get_autocast_dtype,
    nested=by_values("linear", functional.linear, whole=1),
)


@readers.by_annotations()
def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`input @ weight.T + bias`: (..., in_features), (out_features, in_features) and (out_features,).

    The arguments and errors are those of `torch.nn.functional.linear`; a weight of one dimension raises RuntimeError.
    """
    plain = readers.PLAIN
    if not (type(input) in plain and type(weight) in plain and type(bias) in readers.PLAIN_OR_NONE):
        return readers.call(operator, "linear", functional.linear, input, weight, bias)

    return operator(input, weight, bias)
