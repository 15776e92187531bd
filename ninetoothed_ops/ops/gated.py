"""`gated(Tensor gate, Tensor up, str function) -> Tensor`, as `function(gate) * up`; and its gradients.

`swiglu(Tensor gate, Tensor up) -> Tensor`, as `silu(gate) * up`, is the same launch of another name.
"""

import torch
from torch.nn import functional

from ..kernels import gated as kernels
from ..nested import by_values
from ..registration import of_file
from . import activation, functions, readers
from .checks import are_floats, refuse
from .layout import coalesce, empty_elementwise


def namesake(gate, up, function):
    return functions.FUNCTIONS[function](gate) * up


def namesake_of_swiglu(gate, up):
    return functional.silu(gate) * up


def namesake_of_gradients(grad, gate, up):
    return torch.ops.aten.silu_backward(grad * up, gate), grad * functional.silu(gate)


def allocate(gate, up, function):
    functions.check("gated", function)
    return _allocate("gated", namesake, gate, up, function)


def _allocate(name, namesake, gate, up, *function):
    if not (gate.shape == up.shape and are_floats(gate, up)):
        refuse(name, namesake, gate, up, *function)

    dtype = gate.dtype if gate.dtype is up.dtype else torch.promote_types(gate.dtype, up.dtype)
    return empty_elementwise((gate, up), gate.shape, dtype, gate.device)


def launch(output, gate, up, function):
    gate, up, output = coalesce((gate, up, output))
    kernels.make(function, output.ndim)(gate, up, output)


def backward(ctx, grad):
    return *_backward(ctx, grad, gradients, activation.gradient, operator), None


def _backward(ctx, grad, gradients, gradient, operator):
    """Compute both gradients in one launch, or the one that is needed by an operator of fewer arguments."""
    gate, up = ctx.saved_tensors
    to_gate, to_up = ctx.needs_input_grad[:2]
    if to_gate and to_up or gate.dtype is not up.dtype:
        return gradients(grad, gate, up, *ctx.options)

    of_gate = gradient(grad * up, gate, *ctx.options) if to_gate else None
    return of_gate, operator(gate, grad, *ctx.options) if to_up else None


def allocate_swiglu(gate, up):
    return _allocate("swiglu", namesake_of_swiglu, gate, up)


def launch_swiglu(output, gate, up):
    launch(output, gate, up, "silu")


def backward_swiglu(ctx, grad):
    return _backward(ctx, grad, gradients_of_swiglu, activation.gradient_of_silu, operator_of_swiglu)


def are_alike(*tensors) -> bool:
    return all(each.shape == tensors[0].shape for each in tensors) and are_floats(*tensors)


def empty_gradients(gate, up):
    return tuple(empty_elementwise((each,), each.shape, each.dtype, each.device) for each in (gate, up))


def allocate_gradients(grad, gate, up, function):
    functions.check("gated_backward", function)
    if not are_alike(grad, gate, up):
        raise RuntimeError(
            "ninetoothed::gated_backward expects a grad, a gate and an up of floating types, one shape and one device, "
            f"but got {list(grad.shape)}, {list(gate.shape)} and {list(up.shape)}"
        )

    return empty_gradients(gate, up)


def launch_gradients(outputs, grad, gate, up, function):
    tensors = coalesce((grad, gate, up, *outputs))
    kernels.make_backward(function, tensors[0].ndim)(*tensors)


def backward_gradients(ctx, *grads):
    """Differentiate the formula in PyTorch's own operations: they have gradients of every order."""

    (function,) = ctx.options

    def formula(grad, gate, up):
        pull_back = torch.func.vjp(lambda gate, up: functions.in_float32(function, gate) * up, gate, up)[1]
        return pull_back(grad.to(torch.promote_types(torch.promote_types(gate.dtype, up.dtype), torch.float32)))

    return *torch.func.vjp(formula, *ctx.saved_tensors)[1](grads), None


def allocate_gradients_of_swiglu(grad, gate, up):
    if not are_alike(grad, gate, up):
        refuse("swiglu_backward", namesake_of_gradients, grad, gate, up)

    return empty_gradients(gate, up)


def launch_gradients_of_swiglu(outputs, grad, gate, up):
    launch_gradients(outputs, grad, gate, up, "silu")


def backward_gradients_of_swiglu(ctx, *grads):
    """Give the gradients of grad * up * f'(gate) and grad * f(gate), where f is silu."""
    tensors = *ctx.saved_tensors, *grads
    # Of several types, all in that of the result; autograd casts what each is given.
    grad, gate, up, of_gate_grad, of_up_grad = (each.to(tensors[0].dtype) for each in tensors)
    to_grad, to_gate, to_up = ctx.needs_input_grad
    slope, second = activation.gradient_of_silu, activation.second_derivative_of_silu

    return (
        slope(of_gate_grad * up, gate) + operator_of_swiglu(gate, of_up_grad) if to_grad else None,
        of_gate_grad * grad * up * second(gate) + slope(of_up_grad * grad, gate) if to_gate else None,
        slope(of_gate_grad * grad, gate) if to_up else None,
    )


_OF_BOTH = "Tensor grad, Tensor gate, Tensor up"
operator = of_file(
    "gated(Tensor gate, Tensor up, str function) -> Tensor", globals(), nested=by_values("gated", namesake)
)
operator_of_swiglu = of_file(
    "swiglu(Tensor gate, Tensor up) -> Tensor", globals(), "_swiglu", nested=by_values("swiglu", namesake_of_swiglu)
)
gradients = of_file(f"gated_backward({_OF_BOTH}, str function) -> (Tensor, Tensor)", globals(), "_gradients")
gradients_of_swiglu = of_file(f"swiglu_backward({_OF_BOTH}) -> (Tensor, Tensor)", globals(), "_gradients_of_swiglu")


@readers.by_annotations()
def gated(gate: torch.Tensor, up: torch.Tensor, function: str) -> torch.Tensor:
    """`function(gate) * up`, element by element, of two tensors of one shape: "gelu" makes it GeGLU.

    `function` is "gelu", "gelu_tanh", "quick_gelu", "relu" or "relu_squared"; for SiLU there is `swiglu`. The tensors
    may be the halves of one product, `product.chunk(2, -1)`: neither is copied. Of two types, the result has that to
    which PyTorch promotes them.
    """
    if not (type(gate) in readers.PLAIN and type(up) in readers.PLAIN and type(function) is str):
        if function in functions.FUNCTIONS and readers.are_overridden(gate, up, takes_nested=True):
            return namesake(gate, up, function)
        gate, up, function = readers.read("gated", None, gate, up, function)

    return operator(gate, up, function)


@readers.by_annotations()
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up`, element by element, of two tensors of one shape.

    They may be the halves of one product, `product.chunk(2, -1)`: neither is copied. Of two types, the result has that
    to which PyTorch promotes them.
    """
    if not (type(gate) in readers.PLAIN and type(up) in readers.PLAIN):
        return readers.call(operator_of_swiglu, "swiglu", namesake_of_swiglu, gate, up)

    return operator_of_swiglu(gate, up)
