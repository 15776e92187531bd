"""`activation(Tensor self, str function) -> Tensor`: an activation function, element by element; and its gradient.

`gelu(Tensor self, *, str approximate='none') -> Tensor` and `silu(Tensor self) -> Tensor`, as PyTorch's, are the same
launch of another name.
"""

import torch
from torch.nn import functional

from ..kernels import activation as kernels
from ..nested import by_values
from ..registration import of_file
from . import functions, readers
from .checks import FLOATS, alike, refuse
from .layout import coalesce, empty_elementwise

# The function of `gelu`, by what `approximate` says.
FORMULAS = {"none": "gelu", "tanh": "gelu_tanh"}


def _allocate(self, namesake, name, is_known=True, **options):
    if self.dtype not in FLOATS or not is_known:
        refuse(name, namesake, self, **options)

    return _like(self)


def _like(self):
    return empty_elementwise((self,), self.shape, self.dtype, self.device)


def allocate(self, function):
    functions.check("activation", function)
    return _allocate(self, functions.FUNCTIONS[function], "activation")


def launch(output, self, function):
    self, output = coalesce((self, output))
    kernels.make(function, output.ndim)(self, output)


def backward(ctx, grad):
    return gradient(grad, *ctx.saved_tensors, *ctx.options), None


def allocate_gelu(self, *, approximate="none"):
    return _allocate(self, functional.gelu, "gelu", approximate in FORMULAS, approximate=approximate)


def launch_gelu(output, self, *, approximate="none"):
    launch(output, self, FORMULAS[approximate])


def backward_gelu(ctx, grad):
    return gradient(grad, *ctx.saved_tensors, FORMULAS[ctx.options[0]])


def allocate_silu(self):
    return _allocate(self, functional.silu, "silu")


def launch_silu(output, self):
    launch(output, self, "silu")


def backward_silu(ctx, grad):
    return gradient_of_silu(grad, *ctx.saved_tensors)


def allocate_gradient(grad, self, function):
    functions.check("activation_backward", function)
    if not (grad.shape == self.shape and alike(grad, self)):
        raise RuntimeError(
            f"ninetoothed::activation_backward expects a grad like the input, {list(self.shape)} {self.dtype} on "
            f"{self.device}, but got {list(grad.shape)} {grad.dtype} on {grad.device}"
        )

    return _like(self)


def launch_gradient(output, grad, self, function):
    grad, self, output = coalesce((grad, self, output))
    kernels.make_backward(function, output.ndim)(grad, self, output)


def backward_gradient(ctx, grad_of_grad):
    """Differentiate the formula in PyTorch's own operations: they have gradients of every order."""

    (function,) = ctx.options

    def formula(grad, self):
        pull_back = torch.func.vjp(lambda x: functions.in_float32(function, x), self)[1]
        return pull_back(grad.to(torch.promote_types(self.dtype, torch.float32)))[0]

    return *torch.func.vjp(formula, *ctx.saved_tensors)[1](grad_of_grad), None


def allocate_gradient_of_silu(grad, self):
    if not (grad.shape == self.shape and alike(grad, self)):
        refuse("silu_backward", torch.ops.aten.silu_backward, grad, self)

    return _like(self)


def launch_gradient_of_silu(output, grad, self):
    launch_gradient(output, grad, self, "silu")


def backward_gradient_of_silu(ctx, grad_of_grad):
    grad, self = ctx.saved_tensors
    to_grad, to_self = ctx.needs_input_grad
    of_grad = gradient_of_silu(grad_of_grad, self) if to_grad else None

    return of_grad, grad_of_grad * grad * second_derivative_of_silu(self) if to_self else None


def second_derivative_of_silu(self: torch.Tensor) -> torch.Tensor:
    """Compute s * (1 - s) * (2 + self * (1 - 2 * s)), where s = sigmoid(self)."""
    wide = self.to(torch.promote_types(self.dtype, torch.float32))
    gate = wide.sigmoid()

    return (gate * (1 - gate) * (2 + wide * (1 - 2 * gate))).to(self.dtype)


operator = of_file(
    "activation(Tensor self, str function) -> Tensor",
    globals(),
    nested=by_values("activation", lambda self, function: functions.FUNCTIONS[function](self)),
)
operator_of_gelu = of_file(
    "gelu(Tensor self, *, str approximate='none') -> Tensor",
    globals(),
    "_gelu",
    nested=by_values("gelu", functional.gelu),
)
operator_of_silu = of_file("silu(Tensor self) -> Tensor", globals(), "_silu", nested=by_values("silu", functional.silu))
gradient = of_file("activation_backward(Tensor grad, Tensor self, str function) -> Tensor", globals(), "_gradient")
gradient_of_silu = of_file("silu_backward(Tensor grad, Tensor self) -> Tensor", globals(), "_gradient_of_silu")


@readers.by_annotations()
def gelu(input: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """`input` times the share of a normal distribution that is below it, or times an approximation by `tanh`.

    The arguments and errors are those of `torch.nn.functional.gelu`.
    """
    if not (type(input) in readers.PLAIN and type(approximate) is str):
        if readers.are_overridden(input, takes_nested=True):
            return functional.gelu(input, approximate=approximate)
        input, approximate = readers.read("gelu", functional.gelu, input, approximate)

    return operator_of_gelu(input, approximate=approximate)


@readers.by_annotations()
def silu(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """`input * sigmoid(input)`, element by element; `inplace` writes it to `input`.

    The arguments and errors are those of `torch.nn.functional.silu`.
    """
    if type(input) not in readers.PLAIN:
        if readers.are_overridden(input, takes_nested=not inplace):
            return functional.silu(input, inplace)
        (input,) = readers.read("silu", functional.silu, input)

    return silu_in_place(input) if inplace else operator_of_silu(input)


def silu_in_place(input: torch.Tensor) -> torch.Tensor:
    """Write silu to its input; the gradient is that of what it was."""
    is_recorded = input.requires_grad and torch.is_grad_enabled()

    return input.copy_(operator_of_silu(input.clone() if is_recorded else input))
