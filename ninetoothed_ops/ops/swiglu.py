"""`swiglu(Tensor gate, Tensor up) -> Tensor`, as `torch.nn.functional.silu(gate) * up`."""

import torch
from torch.nn import functional

from ..kernels import swiglu as kernels
from ..registration import register
from . import readers, silu_backward, swiglu_backward
from .checks import are_floats, refuse
from .layout import coalesce, empty_elementwise


def namesake(gate, up):
    return functional.silu(gate) * up


def allocate(gate, up):
    if not (gate.shape == up.shape and are_floats(gate, up)):
        refuse("swiglu", namesake, gate, up)

    dtype = gate.dtype if gate.dtype is up.dtype else torch.promote_types(gate.dtype, up.dtype)
    return empty_elementwise((gate, up), gate.shape, dtype, gate.device)


def launch(output, gate, up):
    gate, up, output = coalesce((gate, up, output))
    kernels.make(output.ndim)(gate, up, output)


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward(ctx, grad):
    gate, up = ctx.saved_tensors
    to_gate, to_up = ctx.needs_input_grad
    if to_gate and to_up or gate.dtype is not up.dtype:
        return swiglu_backward.operator(grad, gate, up)

    return silu_backward.operator(grad * up, gate) if to_gate else None, operator(gate, grad) if to_up else None


operator = register(
    "ninetoothed::swiglu(Tensor gate, Tensor up) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

_READERS = {"gate": readers.tensor, "up": readers.tensor}


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up`, element by element, of two tensors of one shape.

    They may be the halves of one product, `product.chunk(2, -1)`: neither is copied. Of two types, the result has that
    to which PyTorch promotes them.
    """
    if not (type(gate) in readers.PLAIN and type(up) in readers.PLAIN):
        if readers.are_overridden(gate, up):
            return namesake(gate, up)
        gate, up = readers.read("swiglu", namesake, _READERS, gate, up)

    return operator(gate, up)
