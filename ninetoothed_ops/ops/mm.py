"""`mm(Tensor self, Tensor mat2) -> Tensor`, as `torch.mm`."""

import torch

from ..kernels import mm as kernels
from ..registration import register
from . import readers
from .checks import alike, check_product, refuse
from .operands import aligned
from .product_gradients import operand_gradients, save_operands


def allocate(self, mat2):
    if not (self.ndim == mat2.ndim == 2 and self.shape[1] == mat2.shape[0] and alike(self, mat2)):
        refuse("mm", torch.mm, self, mat2)
    check_product("mm", self)

    return self.new_empty((self.shape[0], mat2.shape[1]))


def launch(output, self, mat2):
    self, mat2 = aligned(self, mat2)
    kernels.make()(self, mat2, output)


def setup_context(ctx, inputs, output):
    self, mat2 = inputs
    save_operands(ctx, self, mat2, position=0)


def backward(ctx, grad):
    return operand_gradients(ctx, grad, operator)


operator = register(
    "ninetoothed::mm(Tensor self, Tensor mat2) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
    autocast=torch.get_autocast_dtype,
)

_READERS = {"input": readers.tensor, "mat2": readers.tensor}


def mm(input: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:
    """The product of two matrices, (M, K) and (K, N).

    The arguments and errors are those of `torch.mm`, without `out`.
    """
    if not (type(input) in readers.PLAIN and type(mat2) in readers.PLAIN):
        if readers.are_overridden(input, mat2):
            return torch.mm(input, mat2)
        input, mat2 = readers.read("mm", torch.mm, _READERS, input, mat2)

    return operator(input, mat2)
