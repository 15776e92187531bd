"""`silu(Tensor self) -> Tensor`, as `torch.nn.functional.silu`."""

import torch
from torch.nn import functional

from ..kernels import silu as kernels
from ..registration import register
from . import readers, silu_backward
from .checks import FLOATS, refuse
from .layout import coalesce, empty_elementwise


def allocate(self):
    if self.dtype not in FLOATS:
        refuse("silu", functional.silu, self)

    return empty_elementwise((self,), self.shape, self.dtype, self.device)


def launch(output, self):
    self, output = coalesce((self, output))
    kernels.make(output.ndim)(self, output)


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward(ctx, grad):
    return silu_backward.operator(grad, *ctx.saved_tensors)


operator = register(
    "ninetoothed::silu(Tensor self) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

_READERS = {"input": readers.tensor}


def silu(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """`input * sigmoid(input)`, element by element; `inplace` writes it to `input`.

    The arguments and errors are those of `torch.nn.functional.silu`.
    """
    if type(input) not in readers.PLAIN:
        if readers.are_overridden(input):
            return functional.silu(input, inplace)
        (input,) = readers.read("silu", functional.silu, _READERS, input)

    return in_place(input) if inplace else operator(input)


def in_place(input: torch.Tensor) -> torch.Tensor:
    """Write silu to its input; the gradient is that of what it was."""
    is_recorded = input.requires_grad and torch.is_grad_enabled()

    return input.copy_(operator(input.clone() if is_recorded else input))
