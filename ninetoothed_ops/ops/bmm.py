"""`bmm(Tensor self, Tensor mat2) -> Tensor`, as `torch.bmm`."""

import torch

from ..kernels import bmm as kernels
from ..registration import register
from . import readers
from .checks import alike, check_product, refuse
from .operands import aligned
from .product_gradients import operand_gradients, save_operands


def allocate(self, mat2):
    fits = self.ndim == mat2.ndim == 3 and self.shape[0] == mat2.shape[0] and self.shape[2] == mat2.shape[1]
    if not (fits and alike(self, mat2)):
        refuse("bmm", torch.bmm, self, mat2)
    check_product("bmm", self)

    return self.new_empty((self.shape[0], self.shape[1], mat2.shape[2]))


def launch(output, self, mat2):
    self, mat2 = aligned(self, mat2)
    kernels.make()(self, mat2, output)


def setup_context(ctx, inputs, output):
    self, mat2 = inputs
    save_operands(ctx, self, mat2, position=0)


def backward(ctx, grad):
    return operand_gradients(ctx, grad, operator)


operator = register(
    "ninetoothed::bmm(Tensor self, Tensor mat2) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
    autocast=torch.get_autocast_dtype,
)

_READERS = {"input": readers.tensor, "mat2": readers.tensor}


def bmm(input: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:
    """The products of two batches of matrices, (B, M, K) and (B, K, N).

    The arguments and errors are those of `torch.bmm`, without `out`.
    """
    if not (type(input) in readers.PLAIN and type(mat2) in readers.PLAIN):
        if readers.are_overridden(input, mat2):
            return torch.bmm(input, mat2)
        input, mat2 = readers.read("bmm", torch.bmm, _READERS, input, mat2)

    return operator(input, mat2)
