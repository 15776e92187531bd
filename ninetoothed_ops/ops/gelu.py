"""`gelu(Tensor self, *, str approximate='none') -> Tensor`, as `torch.nn.functional.gelu`."""

import torch
from torch.nn import functional

from ..registration import register
from . import activation, activation_backward, readers
from .checks import FLOATS, refuse
from .layout import empty_elementwise

# By what `approximate` says.
FUNCTIONS = {"none": "gelu", "tanh": "gelu_tanh"}


def allocate(self, *, approximate="none"):
    if self.dtype not in FLOATS or approximate not in FUNCTIONS:
        refuse("gelu", functional.gelu, self, approximate=approximate)

    return empty_elementwise((self,), self.shape, self.dtype, self.device)


def launch(output, self, *, approximate="none"):
    activation.launch(output, self, FUNCTIONS[approximate])


def setup_context(ctx, inputs, keyword_only_inputs, output):
    ctx.function = FUNCTIONS[keyword_only_inputs["approximate"]]
    ctx.save_for_backward(*inputs)


def backward(ctx, grad):
    return activation_backward.operator(grad, *ctx.saved_tensors, ctx.function)


operator = register(
    "ninetoothed::gelu(Tensor self, *, str approximate='none') -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)


_READERS = {"input": readers.tensor, "approximate": readers.text}


def gelu(input: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """`input` times the share of a normal distribution that is below it, or times an approximation by `tanh`.

    The arguments and errors are those of `torch.nn.functional.gelu`.
    """
    if not (type(input) in readers.PLAIN and type(approximate) is str):
        if readers.are_overridden(input):
            return functional.gelu(input, approximate=approximate)
        input, approximate = readers.read("gelu", functional.gelu, _READERS, input, approximate)

    return operator(input, approximate=approximate)
