"""`gated(Tensor gate, Tensor up, str function) -> Tensor`, as `function(gate) * up`."""

import torch

from ..kernels import gated as kernels
from ..registration import register
from . import activation_backward, functions, gated_backward, readers
from .checks import are_floats, refuse
from .layout import coalesce, empty_elementwise


def namesake(gate, up, function):
    return functions.FUNCTIONS[function](gate) * up


def allocate(gate, up, function):
    functions.check("gated", function)
    if not (gate.shape == up.shape and are_floats(gate, up)):
        refuse("gated", namesake, gate, up, function)

    dtype = gate.dtype if gate.dtype is up.dtype else torch.promote_types(gate.dtype, up.dtype)
    return empty_elementwise((gate, up), gate.shape, dtype, gate.device)


def launch(output, gate, up, function):
    gate, up, output = coalesce((gate, up, output))
    kernels.make(function, output.ndim)(gate, up, output)


def setup_context(ctx, inputs, output):
    *tensors, ctx.function = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx, grad):
    gate, up = ctx.saved_tensors
    to_gate, to_up, _ = ctx.needs_input_grad
    if to_gate and to_up or gate.dtype is not up.dtype:
        return *gated_backward.operator(grad, gate, up, ctx.function), None

    gate_grad = activation_backward.operator(grad * up, gate, ctx.function) if to_gate else None
    return gate_grad, operator(gate, grad, ctx.function) if to_up else None, None


operator = register(
    "ninetoothed::gated(Tensor gate, Tensor up, str function) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

_READERS = {"gate": readers.tensor, "up": readers.tensor, "function": readers.text}


def gated(gate: torch.Tensor, up: torch.Tensor, function: str) -> torch.Tensor:
    """`function(gate) * up`, element by element, of two tensors of one shape: "gelu" makes it GeGLU.

    `function` is "gelu", "gelu_tanh", "quick_gelu", "relu" or "relu_squared"; for SiLU there is `swiglu`. The tensors
    may be the halves of one product, `product.chunk(2, -1)`: neither is copied. Of two types, the result has that to
    which PyTorch promotes them.
    """
    if not (type(gate) in readers.PLAIN and type(up) in readers.PLAIN and type(function) is str):
        if function in functions.FUNCTIONS and readers.are_overridden(gate, up):
            return namesake(gate, up, function)
        gate, up, function = readers.read("gated", None, _READERS, gate, up, function)

    return operator(gate, up, function)
