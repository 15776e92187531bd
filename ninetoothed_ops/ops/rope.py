"""`rope(Tensor input, Tensor sin, Tensor cos, bool interleaved=True, int? rotary_dim=None,
bool? interleaved_output=None) -> Tensor`: rotary position embedding.

And `rope_backward(Tensor grad, ...) -> Tensor`, of the same arguments, the gradient of its input; and `rope_pair(Tensor
query, Tensor key, ...) -> (Tensor, Tensor)`, which is `rope` of a query and of a key, in one launch.
"""

import torch

from ..kernels import (
    rope as kernels,
    rope_backward as gradient_kernels,
    rope_pair as pair_kernels,
    rope_partial as partial_kernels,
)
from ..registration import of_file
from . import readers, rope_nested
from .checks import alike, check_supported
from .layout import empty_elementwise

OPTIONS = "Tensor sin, Tensor cos, bool interleaved=True, int? rotary_dim=None, bool? interleaved_output=None"


def allocate(input, sin, cos, interleaved=True, rotary_dim=None, interleaved_output=None):
    check_supported("rope", (input, sin, cos))
    if input.ndim != 4 or (input.shape[3] % 2 and rotary_dim is None):
        raise RuntimeError(
            f"ninetoothed::rope expects an input of (batch, sequence, heads, D), D even, but got {list(input.shape)}"
        )
    check_tables("rope", input, sin, cos, rotary_dim if rotary_dim is None else abs(rotary_dim))

    return empty_elementwise((input,), input.shape, input.dtype, input.device)


def check_tables(
    operator: str, input: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor, rotary_dim: int | None = None
) -> None:
    """Check that tables are of (sequence, D / 2 or D) for an input of (batch, sequence, heads, D), one or one each.

    `rotary_dim`, where it is given, is in the place of D, and checked too.
    """
    if rotary_dim is not None and (rotary_dim % 2 or not 0 < rotary_dim <= input.shape[3]):
        raise RuntimeError(
            f"ninetoothed::{operator} expects a rotary_dim that is even, more than 0 and at most D = "
            f"{input.shape[3]}, but got {rotary_dim}"
        )
    name_of_width, width = ("D", input.shape[3]) if rotary_dim is None else ("rotary_dim", rotary_dim)
    tables = [(input.shape[1], columns) for columns in (width // 2, width)]
    for name, tensor in (("sin", sin), ("cos", cos)):
        if not any(tensor.shape in (table, (1, *table), (input.shape[0], *table)) for table in tables):
            raise RuntimeError(
                f"ninetoothed::{operator} expects {name} of (sequence, {name_of_width} / 2 or {name_of_width}) = "
                f"{list(tables[0])} or {list(tables[1])}, or that for each batch entry, but got {list(tensor.shape)} "
                f"with an input of {list(input.shape)}"
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


def launch(output, input, sin, cos, interleaved=True, rotary_dim=None, interleaved_output=None):
    layouts = interleaved, interleaved if interleaved_output is None else interleaved_output
    _launch(kernels, layouts, interleaved, output, input, sin, cos, rotary_dim)


def launch_gradient(input_grad, grad, sin, cos, interleaved=True, rotary_dim=None, interleaved_output=None):
    layouts = interleaved if interleaved_output is None else interleaved_output, interleaved
    _launch(gradient_kernels, layouts, interleaved, input_grad, grad, sin, cos, rotary_dim)


def _launch(whole, layouts, interleaved, output, input, sin, cos, rotary_dim):
    """Launch a kernel of the module `whole` or, where columns are left over, its partial one."""
    if output.numel() == 0:
        return
    width = abs(rotary_dim or input.shape[3])
    sin, cos = tables_by_pairs(sin, cos, input.shape[0], width, interleaved)
    if width == input.shape[3]:
        whole.make(*layouts)(input, sin, cos, output)
        return
    (input, rest), (output, output_rest) = (turning_and_rest(tensor, rotary_dim) for tensor in (input, output))
    partial_kernels.make(*layouts, whole is gradient_kernels)(input, sin, cos, rest, output_rest, output)


def turning_and_rest(tensor: torch.Tensor, rotary_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """View the columns that rotate and the others: the last ones rotate where `rotary_dim` is negative."""
    split = rotary_dim % tensor.shape[3]
    first, last = tensor.split_with_sizes((split, tensor.shape[3] - split), 3)

    return (first, last) if rotary_dim > 0 else (last, first)


def tables_by_pairs(sin, cos, batch: int, width: int, interleaved: bool) -> tuple[torch.Tensor, ...]:
    """View tables as kernels take them: (batch, sequence, 1 or 2, width / 2)."""
    return tuple(by_pairs(table.expand(batch, -1, -1), width // 2, interleaved) for table in (sin, cos))


def by_pairs(table: torch.Tensor, half: int, interleaved: bool) -> torch.Tensor:
    """(..., D / 2 or D) as (..., 1 or 2, D / 2): a row for both of each pair, or one for each."""
    return table.unsqueeze(-2) if table.shape[-1] == half else _pairs(table, half, interleaved)


def _pairs(tensor: torch.Tensor, half: int, interleaved: bool) -> torch.Tensor:
    leading = tensor.shape[:-1]

    return tensor.view(*leading, half, 2).mT if interleaved else tensor.view(*leading, 2, half)


def allocate_pair(query, key, sin, cos, interleaved=True, rotary_dim=None, interleaved_output=None):
    if not alike(query, key) or (query.shape[:2], query.shape[3:]) != (key.shape[:2], key.shape[3:]):
        raise RuntimeError(
            "ninetoothed::rope_pair expects a query and a key of (batch, sequence, heads, D) that differ in their "
            f"heads alone, but got {list(query.shape)} of {query.dtype} on {query.device} and {list(key.shape)} of "
            f"{key.dtype} on {key.device}"
        )
    options = sin, cos, interleaved, rotary_dim, interleaved_output

    return allocate(query, *options), allocate(key, *options)


def launch_pair(outputs, query, key, sin, cos, interleaved=True, rotary_dim=None, interleaved_output=None):
    if outputs[0].numel() == 0 or outputs[1].numel() == 0:
        for output, input in zip(outputs, (query, key)):
            launch(output, input, sin, cos, interleaved, rotary_dim, interleaved_output)
        return
    width = abs(rotary_dim or query.shape[3])
    sin, cos = tables_by_pairs(sin, cos, query.shape[0], width, interleaved)
    tensors, rests = (query, key, *outputs), ()
    if width < query.shape[3]:
        tensors, rests = zip(*(turning_and_rest(tensor, rotary_dim) for tensor in tensors))
    pair_kernels.make(interleaved, interleaved_output, bool(rests))(*tensors[:2], sin, cos, *tensors[2:], *rests)


def setup_context(ctx, inputs, output):
    *states, sin, cos, interleaved, rotary_dim, interleaved_output = inputs
    ctx.options, ctx.count = (interleaved, rotary_dim, interleaved_output), len(states)
    # The gradients of tables alone, which models seldom ask for, need what was turned.
    needs_tables = any(ctx.needs_input_grad[ctx.count : ctx.count + 2])
    ctx.save_for_backward(*(each if needs_tables else None for each in states), sin, cos)
    ctx.set_materialize_grads(ctx.count == 1)


def backward(ctx, *grads):
    return _backward(ctx, gradient, grads)


def backward_gradient(ctx, grad_of_grad):
    """Rotate once more: a product with its transpose gives the tables the same gradients as one with it does."""
    return _backward(ctx, operator, (grad_of_grad,), is_transposed=True)


def _backward(ctx, turn, grads, is_transposed=False):
    *turned, sin, cos = ctx.saved_tensors
    of_states, of_tables = [None] * ctx.count, [None, None]
    to_tables = ctx.needs_input_grad[ctx.count : ctx.count + 2]
    for i, (grad, state) in enumerate(zip(grads, turned)):
        if grad is None:
            continue
        if ctx.needs_input_grad[i]:
            of_states[i] = turn(grad, sin, cos, *ctx.options)
        both = (state, grad) if is_transposed else (grad, state)
        for j, each in enumerate(gradients_of_tables(to_tables, *both, sin, cos, *ctx.options)):
            of_tables[j] = each if of_tables[j] is None or each is None else of_tables[j] + each

    return *of_states, *of_tables, None, None, None


def gradients_of_tables(needed, grad, input, sin, cos, interleaved, rotary_dim, interleaved_output):
    """Sum grad * (input turned by 90 degrees) for the sines and grad * input for the cosines over heads.

    Autograd sums over the batch where a table has none, and casts.
    """
    to_sin, to_cos = needed
    if not (to_sin or to_cos):
        return None, None
    width, wide = abs(rotary_dim or input.shape[-1]), torch.promote_types(input.dtype, torch.float32)
    first_column = input.shape[-1] - width if rotary_dim is not None and rotary_dim < 0 else 0
    interleaved_grad = interleaved if interleaved_output is None else interleaved_output
    of_grad, of_input = (
        _pairs(tensor.narrow(-1, first_column, width).to(wide), width // 2, is_interleaved).unbind(-2)
        for tensor, is_interleaved in ((grad, interleaved_grad), (input, interleaved))
    )

    def total(first, second, table):
        """Add what is of the two of a pair, unless a table has a column for each, which lie as those of the input."""
        if table.shape[-1] == width // 2:
            return (first + second).sum(2)
        return torch.stack((first, second), -1 if interleaved else -2).flatten(-2).sum(2)

    (first_grad, second_grad), (first, second) = of_grad, of_input
    return (
        total(-first_grad * second, second_grad * first, sin) if to_sin else None,
        total(first_grad * first, second_grad * second, cos) if to_cos else None,
    )


def of_nested(input, sin, cos, interleaved=True, rotary_dim=None, interleaved_output=None):
    return rope_nested.by_rows(operator, input, sin, cos, interleaved, rotary_dim, interleaved_output)


operator = of_file(f"rope(Tensor input, {OPTIONS}) -> Tensor", globals(), nested=of_nested)
gradient = of_file(f"rope_backward(Tensor grad, {OPTIONS}) -> Tensor", globals(), "_gradient")
pair = of_file(f"rope_pair(Tensor query, Tensor key, {OPTIONS}) -> (Tensor, Tensor)", globals(), "_pair")


@readers.by_annotations()
def rope(
    input: torch.Tensor,
    sin: torch.Tensor,
    cos: torch.Tensor,
    interleaved: bool = True,
    rotary_dim: int | None = None,
    interleaved_output: bool | None = None,
) -> torch.Tensor:
    """Rotate the pairs of `input`, (batch, sequence, heads, D), by angles whose sines and cosines are given.

    `sin` and `cos` are (sequence, D / 2), or (batch or 1, sequence, D / 2); or of D columns, where the two of a pair
    have angles of their own. A pair is two neighbours where `interleaved`, else element i of the first half of D and
    element i of the second. Where `rotary_dim` is given, it is the D of all this: the first `rotary_dim` elements
    rotate, or the last `-rotary_dim` where it is negative; the others stay. `interleaved_output` tells where the result
    has its pairs, if not where the input has them.
    Raises RuntimeError where shapes do not fit, TypeError for arguments of another type.
    """
    plain = readers.PLAIN
    are_tensors = type(input) in plain and type(sin) in plain and type(cos) in plain
    are_default = rotary_dim is None and interleaved_output is None
    if not (are_tensors and are_default and type(interleaved) is bool):
        values = readers.read("rope", None, input, sin, cos, interleaved, rotary_dim, interleaved_output)
        input, sin, cos, interleaved, rotary_dim, interleaved_output = values

    return operator(input, sin, cos, interleaved, rotary_dim, interleaved_output)
