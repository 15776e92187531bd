"""`mm(Tensor self, Tensor mat2) -> Tensor` and `bmm`, of the same arguments, as `torch.mm` and `torch.bmm`."""

import torch

from ..kernels import bmm as batched_kernels, mm as kernels
from ..registration import of_file
from . import readers
from .checks import alike, check_product, refuse
from .operands import aligned
from .product_gradients import operand_gradients, save_operands


def allocate(self, mat2):
    return _allocate("mm", torch.mm, 2, self, mat2)


def allocate_bmm(self, mat2):
    return _allocate("bmm", torch.bmm, 3, self, mat2)


def _allocate(name, namesake, ndim, self, mat2):
    fits = self.ndim == mat2.ndim == ndim and self.shape[:-2] == mat2.shape[:-2] and self.shape[-1] == mat2.shape[-2]
    if not (fits and alike(self, mat2)):
        refuse(name, namesake, self, mat2)
    check_product(name, self)

    return self.new_empty((*self.shape[:-1], mat2.shape[-1]))


def launch(output, self, mat2):
    self, mat2 = aligned(self, mat2)
    (batched_kernels if output.ndim == 3 else kernels).make()(self, mat2, output)


def setup_context(ctx, inputs, output):
    lhs, rhs = inputs
    save_operands(ctx, lhs, rhs, position=0)


def backward(ctx, grad):
    return operand_gradients(ctx, grad, batched if grad.ndim == 3 else operator)


autocast = torch.get_autocast_dtype
operator = of_file("mm(Tensor self, Tensor mat2) -> Tensor", globals(), nested=torch.mm)
batched = of_file("bmm(Tensor self, Tensor mat2) -> Tensor", globals(), "_bmm", nested=torch.bmm)


@readers.by_annotations()
def mm(input: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:
    """The product of two matrices, (M, K) and (K, N).

    The arguments and errors are those of `torch.mm`, without `out`.
    """
    if not (type(input) in readers.PLAIN and type(mat2) in readers.PLAIN):
        return readers.call(operator, "mm", torch.mm, input, mat2)

    return operator(input, mat2)


@readers.by_annotations()
def bmm(input: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:
    """The products of two batches of matrices, (B, M, K) and (B, K, N).

    The arguments and errors are those of `torch.bmm`, without `out`.
    """
    if not (type(input) in readers.PLAIN and type(mat2) in readers.PLAIN):
        return readers.call(batched, "bmm", torch.bmm, input, mat2)

    return batched(input, mat2)
