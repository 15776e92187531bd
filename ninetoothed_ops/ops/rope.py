"""`rope(Tensor input, Tensor sin, Tensor cos, bool interleaved=True) -> Tensor`: rotary position embedding.

And `rope_backward(Tensor grad, Tensor sin, Tensor cos, bool interleaved=True) -> Tensor`, the gradient of its input.
"""

import torch

from ..kernels import rope as kernels, rope_backward as backward_kernels
from ..registration import register
from . import readers
from .checks import check_supported
from .layout import empty_elementwise


def allocate(input, sin, cos, interleaved=True):
    check_supported("rope", (input, sin, cos))
    if input.ndim != 4 or input.shape[-1] % 2:
        raise RuntimeError(
            f"ninetoothed::rope expects an input of (batch, sequence, heads, D), D even, but got {list(input.shape)}"
        )
    check_tables("rope", input, sin, cos)

    return empty_elementwise((input,), input.shape, input.dtype, input.device)


def check_tables(operator: str, input: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor) -> None:
    """Check that tables are of (sequence, D / 2 or D) for an input of (batch, sequence, heads, D), one or one each."""
    tables = [(input.shape[1], width) for width in (input.shape[3] // 2, input.shape[3])]
    for name, tensor in (("sin", sin), ("cos", cos)):
        if not any(tensor.shape in (table, (1, *table), (input.shape[0], *table)) for table in tables):
            raise RuntimeError(
                f"ninetoothed::{operator} expects {name} of (sequence, D / 2 or D) = {list(tables[0])} or "
                f"{list(tables[1])}, or that for each batch entry, but got {list(tensor.shape)} with an input of "
                f"{list(input.shape)}"
            )
        if tensor.device != input.device:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{input.device} and {tensor.device} ({name} of ninetoothed::{operator})"
            )
    if sin.shape[-1] != cos.shape[-1]:
        raise RuntimeError(
            f"ninetoothed::{operator} expects sin and cos to have as many columns, "
            f"but got {list(sin.shape)} and {list(cos.shape)}"
        )


def launch(output, input, sin, cos, interleaved=True):
    _launch(kernels.make(interleaved), output, input, sin, cos, interleaved)


def launch_backward(input_grad, grad, sin, cos, interleaved=True):
    _launch(backward_kernels.make(interleaved), input_grad, grad, sin, cos, interleaved)


def _launch(kernel, output, input, sin, cos, interleaved):
    if output.numel() == 0:
        return
    batch, half = input.shape[0], input.shape[3] // 2
    sin, cos = (by_pairs(table.expand(batch, -1, -1), half, interleaved) for table in (sin, cos))

    kernel(input, sin, cos, output)


def by_pairs(table: torch.Tensor, half: int, interleaved: bool) -> torch.Tensor:
    """(..., D / 2 or D) as (..., 1 or 2, D / 2): a row for both of each pair, or one for each."""
    if table.shape[-1] == half:
        return table.unsqueeze(-2)
    return table.unflatten(-1, (half, 2)).mT if interleaved else table.unflatten(-1, (2, half))


def setup_context(ctx, inputs, output):
    *tensors, ctx.interleaved = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx, grad):
    input, sin, cos = ctx.saved_tensors
    input_grad = backward_operator(grad, sin, cos, ctx.interleaved) if ctx.needs_input_grad[0] else None

    return input_grad, *_gradients_of_tables(ctx, grad, input, sin, cos), None


def backward_of_backward(ctx, grad_of_grad):
    """The rotation once more: a product with its transpose gives the tables the same gradients as one with it does."""
    grad, sin, cos = ctx.saved_tensors
    grad_grad = operator(grad_of_grad, sin, cos, ctx.interleaved) if ctx.needs_input_grad[0] else None

    return grad_grad, *_gradients_of_tables(ctx, grad, grad_of_grad, sin, cos), None


def _gradients_of_tables(ctx, grad, input, sin, cos):
    """Sum grad * (input turned by 90 degrees) for the sines and grad * input for the cosines over heads.

    Autograd sums over the batch where a table has none, and casts.
    """
    _, to_sin, to_cos, _ = ctx.needs_input_grad
    if not (to_sin or to_cos):
        return None, None
    half, wide = input.shape[-1] // 2, torch.promote_types(input.dtype, torch.float32)
    sizes = (half, 2) if ctx.interleaved else (2, half)
    grad, input = (tensor.to(wide).unflatten(-1, sizes) for tensor in (grad, input))
    pair = -1 if ctx.interleaved else -2
    first, second = input.unbind(pair)
    turned = torch.stack((-second, first), pair)

    def total(product, table):
        product = product.sum(2)
        return product.sum(pair) if table.shape[-1] == half else product.flatten(-2)

    return total(grad * turned, sin) if to_sin else None, total(grad * input, cos) if to_cos else None


operator = register(
    "ninetoothed::rope(Tensor input, Tensor sin, Tensor cos, bool interleaved=True) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

backward_operator = register(
    "ninetoothed::rope_backward(Tensor grad, Tensor sin, Tensor cos, bool interleaved=True) -> Tensor",
    allocate,
    launch_backward,
    backward=backward_of_backward,
    setup_context=setup_context,
    replay=True,
)

_READERS = {**dict.fromkeys(("input", "sin", "cos"), readers.tensor), "interleaved": readers.flag}


def rope(input: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor, interleaved: bool = True) -> torch.Tensor:
    """Rotate the pairs of `input`, (batch, sequence, heads, D), by angles whose sines and cosines are given.

    `sin` and `cos` are (sequence, D / 2), or (batch or 1, sequence, D / 2); or of D columns, where the two of a pair
    have angles of their own. A pair is two neighbours where `interleaved`, else element i of the first half of D and
    element i of the second. Raises RuntimeError where shapes do not fit, TypeError for arguments of another type.
    """
    are_tensors = isinstance(input, torch.Tensor) and isinstance(sin, torch.Tensor) and isinstance(cos, torch.Tensor)
    if not (are_tensors and type(interleaved) is bool):
        input, sin, cos, interleaved = readers.read("rope", None, _READERS, input, sin, cos, interleaved)

    return operator(input, sin, cos, interleaved)
