"""`linear_swiglu(Tensor input, Tensor gate, Tensor up) -> Tensor`: gate and up of a gated MLP, and SiLU behind them.

    swiglu(linear(input, gate), linear(input, up))

Where the weights lie one behind another in memory and there are many rows, this is one product with an epilogue.
"""

import torch

from ninetoothed.runtime.selection import machine

from ..kernels import linear_swiglu as kernels
from ..registration import of_file
from . import joint_linear
from .adjacent import concatenated
from .gated import gradients_of_swiglu, launch_swiglu
from .linear import check, operator as linear, rows_of

# As timed on an H200. Past fewer rows weights stream, in tiles that have not the rows of an instruction.
FEWEST_ROWS = 128
# Of whole vectors the copy engine takes rows of halves.
VECTOR = 8


def flatten(input, gate, up):
    """Give whether the weights lie one behind another, and each of them."""
    input, _, are_joint, *weights = joint_linear.flatten(input, (gate, up), ())

    return input, are_joint, *weights


def allocate(input, are_joint, gate, up):
    for weight in (gate, up):
        check(input, weight)
    if gate.shape != up.shape:
        raise RuntimeError(
            "ninetoothed::linear_swiglu expects two weights of one shape, but got "
            f"{list(gate.shape)} and {list(up.shape)}"
        )

    return input.new_empty((*input.shape[:-1], gate.shape[0]))


def launch(output, input, are_joint, gate, up):
    rows = rows_of(input)
    whole = concatenated((gate, up)) if are_joint and _is_faster_whole(rows, gate) else None
    if whole is not None:
        kernels.make()(rows, whole.unflatten(0, (2, -1)), rows_of(output))
        return
    products = joint_linear.allocate(input, 2, are_joint, gate, up)
    joint_linear.launch(products, input, 2, are_joint, gate, up)
    launch_swiglu(output, *products.chunk(2, -1))


def _is_faster_whole(rows: torch.Tensor, gate: torch.Tensor) -> bool:
    """Tell whether one product is faster than a product and `swiglu`, as timed: a copy engine reads both weights."""
    are_vectors = rows.itemsize == 2 and rows.shape[1] % VECTOR == 0
    if not are_vectors or rows.shape[0] < FEWEST_ROWS or 0 in gate.shape:
        return False
    gpu = machine.current(rows.device) if rows.is_cuda else None
    return gpu is None or gpu.generation.has_tma


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward(ctx, grad):
    """Compute the gradients of `swiglu`, and of the products before it."""
    input, *weights = ctx.saved_tensors
    to_input, *to_weights = ctx.needs_input_grad
    # The forward, one product with an epilogue, never has its operands in memory. To keep them would cost writing and
    # holding twice the result for each layer: they are computed anew.
    grads = gradients_of_swiglu(grad, *(linear(input, weight) for weight in weights))
    of_input = joint_linear.gradient_of_input(grads, weights) if to_input else None

    return of_input, *joint_linear.gradients_of_weights(grads, input, to_weights)


operator = of_file(
    "linear_swiglu(Tensor input, Tensor gate, Tensor up) -> Tensor", globals(), autocast=torch.get_autocast_dtype
)
